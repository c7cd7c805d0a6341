"""The verdicts of strategies that balance what tasks store (Square, Dynamic, A-DSP, Hypercube), in words for people.

    the fullest of 8 tasks stores 4,200 tuples, 1.62 times the mean: left as it is
    the fullest of 8 tasks stores 4,200 tuples, 1.62 times the mean; a new plan on 8 tasks would store 2,700 there
    and move 9,100: doing it

Pure text. Not here: the decision (runtime/rebalance.py).
"""

from __future__ import annotations

from evenjoin.load.items import F64

WHY = {
    "even": "left as it is",
    "cooling down": "a change must wait, because the last one, or the start, was just before",
    "no better table": "no better plan was found",
}
"""What the short sentences of the monitor mean here."""


def told(load: F64, unit: str) -> str:
    """How full the fullest task is; `load` [tasks] is what each stores."""
    if not load.any():
        return "nothing is stored yet"
    fullest, tasks = float(load.max()), len(load)
    if tasks == 1:
        return f"the only task stores {fullest:,.0f} {unit}"
    return f"the fullest of {tasks} tasks stores {fullest:,.0f} {unit}, {fullest / load.mean():.2f} times the mean"


def stays(load: F64, unit: str, why: str) -> str:
    """Why the table stays as it is."""
    return f"{told(load, unit)}: {WHY.get(why, why)}"


def plans(load: F64, unit: str, made: F64, moves: int | None) -> str:
    """What a plan would bring; `made` [tasks] is what each task would store."""
    moved = "" if moves is None else f" and move {moves:,} tuples"
    return f"{told(load, unit)}; a new plan on {len(made)} tasks would store {float(made.max()):,.0f} there{moved}"
