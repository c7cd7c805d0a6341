"""The summaries of a sweep as tables in Markdown: one for each planner and mode, instances down, skew across.

A cell says, over the seeds,

    share of batches within the threshold, most rebalances of a seed, tuples moved (mean), median imbalance (mean)

and the floor (sim/floor.py), where that alone is above the threshold. Pure text, so that what a document shows is what
a run gave. Not here: the tables of the terminal (cli/simulate.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenjoin.sim.sweep import Summary


def markdown(summaries: Sequence[Summary]) -> str:
    """All tables of a sweep."""
    return "\n".join(
        line
        for mode in dict.fromkeys(one.mode for one in summaries)
        for strategy in dict.fromkeys(one.strategy for one in summaries)
        for line in _table([one for one in summaries if (one.strategy, one.mode) == (strategy, mode)])
    )


def _table(some: Sequence[Summary]) -> Iterator[str]:
    if not some:
        return
    first = some[0]
    bound = "" if first.threshold is None else f": imbalance at most {first.threshold:g}"
    yield from (f"**`{first.strategy}`{bound}**, {first.mode}, {first.seeds} seeds", "")
    skews = sorted({one.zipf for one in some})
    yield "| instances | " + " | ".join(f"zipf {zipf:g}" for zipf in skews) + " |"
    yield "|---" * (len(skews) + 1) + "|"
    for instances in sorted({one.instances for one in some}):
        row = {one.zipf: _cell(one) for one in some if one.instances == instances}
        yield f"| {instances} | " + " | ".join(row.get(zipf, "") for zipf in skews) + " |"
    yield ""


def _cell(one: Summary) -> str:
    within = "" if one.within is None else f"{one.within:.0%}, ".replace("%", " %")
    moved = f"{one.moved / 1000:,.0f}k" if one.moved else "0"
    text = f"{within}{one.most_rebalances}, {moved}, {one.imbalance:,.2f}"
    if one.floor is not None and one.threshold is not None and one.floor > one.threshold:
        text += f" (floor {one.floor:,.2f})"
    return text
