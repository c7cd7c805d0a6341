"""What a driver tells of its join: the counts and the verdict of the last batch, and the migrations so far.

All are read from commits, so they are the same on Spark and in the embedded engine. Nothing is computed for them while
a batch runs.
"""

from __future__ import annotations

from evenjoin.events import Migration, Progress
from evenjoin.runtime.driver import Driver


def migrations(driver: Driver) -> list[Migration]:
    return driver.log.migrations(driver.last)


def progress(driver: Driver) -> Progress | None:
    last = driver.last
    if last is None or last.report is None:
        return None
    instances, sides = last.report.instances, range(len(last.report.intake))
    packs = [pack for load in instances for pack in load.packs]
    return Progress(
        last.batch,
        last.watermark.value,
        results=last.report.matches,
        late=tuple(intake.late for intake in last.report.intake),
        imbalance=round(last.report.imbalance, 3),
        stored=tuple(sum(load.stored[s] for load in last.report.instances) for s in range(len(last.report.intake))),
        duration_ms=last.duration_ms,
        total=last.totals,
        ahead=tuple(intake.ahead for intake in last.report.intake),
        messages=tuple(sum(load.messages[side] for load in instances) for side in sides),
        sent_bytes=tuple(sum(load.sent_bytes[side] for load in instances) for side in sides),
        packs=(
            sum(pack.made for pack in packs),
            sum(pack.pairs for pack in packs),
            sum(pack.alive for pack in packs),
            sum(pack.alive_pairs for pack in packs),
        ),
        packs_sent=sum(pack.sent for pack in packs),
        hubs=sum(load.hubs for load in instances),
        members=sum(load.members for load in instances),
        waited_ms=max(load.waited_ms for load in instances),
        verdict=last.verdict.sentence if last.verdict is not None else "",
    )
