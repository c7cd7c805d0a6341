"""What a batch's load report says of the work, added up over all instances: for tables that compare strategies.

    probes              tuples that came to an instance to probe, copies too
    sent, sent_bytes    tuples and packs sent to instances, by dispatch and between hops, copies too; and their bytes
    packs, pairs        intermediate results made in the batch, and pairs in them
    hubs, members       packs whose hub was compared, and members compared one by one
    stored, ..._bytes   tuples and packs alive after the batch, copies too; and their bytes on disk
    waiting_ms          from the start of the first hop to that of the last, where that is longest
    busiest_ms          the busy time of the busiest instance

Pure. Not here: what the counts mean (load/receipt.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from evenjoin.load.report import LoadReport


@dataclass(frozen=True, slots=True)
class Counters:
    """What a batch's report says of the work, over all instances; `busiest_ms` and `waiting_ms` are the greatest."""

    probes: int
    stored: int
    stored_bytes: int
    busiest_ms: float
    hubs: int
    members: int
    packs: int
    pairs: int
    sent: int
    sent_bytes: int
    waiting_ms: float


def counters_of(report: LoadReport) -> Counters:
    """What a report says. The only place that knows the names of its fields."""
    loads = report.instances
    packs = [pack for load in loads for pack in load.packs]
    return Counters(
        probes=sum(sum(load.probes) for load in loads),
        stored=sum(sum(load.stored) for load in loads) + sum(pack.alive for pack in packs),
        stored_bytes=sum(load.bytes for load in loads),
        busiest_ms=max((load.busy_ms for load in loads), default=0.0),
        hubs=sum(load.hubs for load in loads),
        members=sum(load.members for load in loads),
        packs=sum(pack.made for pack in packs),
        pairs=sum(pack.pairs for pack in packs),
        sent=sum(sum(load.messages) for load in loads) + sum(pack.sent for pack in packs),
        sent_bytes=sum(sum(load.sent_bytes) for load in loads) + sum(pack.sent_bytes for pack in packs),
        waiting_ms=max((load.waited_ms for load in loads), default=0.0),
    )
