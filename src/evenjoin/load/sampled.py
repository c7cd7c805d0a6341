"""The samples of a load report: those of the last report and those of the batch, without what has expired.

    slices after a batch  =  joined(slices before, slices of the batch)  -  those whose `until` has expired

Guarantee: points leave with their sub-window, as the tuples do that they stand for. Not here: how points are picked and
brought down to a few (samples.py), and which times have expired (report.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evenjoin.load.intake import Intake
from evenjoin.load.receipt import Receipt
from evenjoin.load.samples import USUAL_GRAIN, Grain, Slice, Slices, coarsened, joined, scaled, whole

if TYPE_CHECKING:
    from evenjoin.load.report import LoadReport


def sampled(
    report: LoadReport, receipts: Sequence[Receipt], last: LoadReport | None, gone: Sequence[int | None] = (),
    grain: Grain = USUAL_GRAIN,
) -> LoadReport:  # fmt: skip
    """The report with its samples: those of the last report and those of this batch, without the sub-windows that have
    expired. `gone` is, by side, the latest time that has expired in this batch.

    Where nobody sampled before, the points of this batch stand for the old tuples too. How many these are is estimated:
    the copies stored, over the copies that a tuple of this batch has.
    """
    out = []
    for side, intake in enumerate(report.intake):
        new, copies = intake.sample, sum(receipt.stored[side] for receipt in receipts)
        stored = sum(load.stored[side] for load in report.instances)
        if not (last is not None and last.samples) and copies and stored > copies:
            more = stored / copies
            new = tuple(one._replace(points=scaled(one.points, more * one.weight)) for one in new)
        latest = gone[side] if side < len(gone) else None
        alive = (one for one in (*_before(last, side), *new) if _lives(one, latest))
        out.append(coarsened(joined(alive), grain))
    rise = tuple(_risen(last, side, intake) for side, intake in enumerate(report.intake))
    report = replace(report, intake=tuple(replace(intake, sample=()) for intake in report.intake), rise=rise)
    return replace(report, slices=tuple(out), samples=tuple(map(whole, out))) if any(out) else report


def _risen(last: LoadReport | None, side: int, intake: Intake) -> float:
    """`rise` of a side, halfway between what it was and what this batch shows."""
    new = [point for one in intake.sample for point in one.points]
    if last is None or not last.samples or not last.samples[side]:
        return 0.0
    before = last.rise[side] if last.rise else 0.0
    if not new:
        return before
    top = last.samples[side][-1][0]
    if 2 * sum(point[1] for point in new if point[0] > top) <= sum(point[1] for point in new):
        return 0.0
    now = max(point[0] for point in new) - top
    return (before + now) / 2 if before else now


def _before(last: LoadReport | None, side: int) -> Slices:
    """The slices of the last report. One that has only samples (of an older checkpoint) has them in one slice."""
    if last is None or not last.samples:
        return ()
    return last.slices[side] if last.slices else (Slice(0, None, last.samples[side]),)


def _lives(one: Slice, gone: int | None) -> bool:
    return one.until is None or gone is None or one.until > gone
