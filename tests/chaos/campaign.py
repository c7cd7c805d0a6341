"""The campaign on the embedded engine: case after case, seed, seed + 1, seed + 2, ... until the time is over.

Invariant: the case of a seed does not depend on the campaign, so `--seed S --runs 1` runs the one that failed again.
Of each kind of finding the first few are made smaller and saved; the others are counted with their seeds.
"""

from __future__ import annotations

import time
from collections import Counter

from chaos.draw import draw
from chaos.embedded import run
from chaos.report import Found, Report
from chaos.shrink import shrink

SHRUNK = 4
"""How many findings of each kind (a wrong answer with rows missing, an error of some type) are made smaller."""


def embedded(
    report: Report, seed: int, seconds: float, runs: int | None, without: frozenset[str], sides: int | None = None
) -> None:
    """Run cases for so many seconds, or so many runs."""
    until, done, seen = time.monotonic() + seconds, 0, Counter[str]()
    while done < runs if runs is not None else time.monotonic() < until:
        one(report, seed + done, without, seen, sides)
        done += 1
        if done % 250 == 0:
            print(f"embedded: {done} runs, {len(report.found)} findings", flush=True)


def one(report: Report, seed: int, without: frozenset[str], seen: Counter[str], sides: int | None = None) -> None:
    case = draw(seed, without, sides)
    for what, which in (("join", case.join), ("late rows", case.late), ("runs", "embedded")):
        report.tally[what, which] += 1
    finding = run(case, report.tally)
    if finding is None:
        return
    left_out = f" --without {','.join(sorted(without))}" if without else ""
    left_out += f" --sides {sides}" if sides is not None else ""
    again = f"python -m chaos --seed {seed} --runs 1{left_out}"
    seen[finding.kind] += 1
    if seen[finding.kind] <= SHRUNK:
        smallest, finding = shrink(case, finding, run)
        report.add(Found(seed, finding, smallest, again))
    else:
        report.found.append(Found(seed, finding, case, again))
