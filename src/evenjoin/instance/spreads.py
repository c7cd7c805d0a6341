"""prove(program): would this program lose or repeat a result? Every program goes through it when it is made.

One tuple a side, all of which match, must give exactly one result in each of the ways to spread them over batches: 3
ways for two sides, 13 for three, 75 for four. No data is needed. A rule that is left out, a hop in the wrong place, or
both directions of a chain forwarded shows in some of these spreads.

The tuples are run through the program by hand. Where tuples only have to meet in pairs, each group has a unit of its
own: what is stored at one unit cannot be probed at another. Where they come together, there is one unit.

Not decided: whether a table brings the units together as the program needs it (placement/check.py), and anything about
conditions. Up to MOST sides; the number of spreads explodes beyond.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from evenjoin.errors import SpecError
from evenjoin.instance.program import Path, Program

MOST = 5
"""Sides of which all spreads are tried: 541 for five."""
Row = frozenset[int]
"""The sides whose tuples a row holds."""


def prove(program: Program, name: str = "") -> Program:
    """Returns the program itself, or raises a SpecError that says which results it would lose or repeat."""
    for when in spreads(len(program.order)) if len(program.order) <= MOST else ():
        found = results(program, when)
        if found != 1:
            told = ", ".join(f"side {side} in batch {batch}" for side, batch in enumerate(when))
            raise SpecError(f"program {name or 'without a name'}: tuples of {told} give {found} results, not one")
    return program


def spreads(sides: int) -> list[tuple[int, ...]]:
    """Every way to put one tuple a side into consecutive batches: the batch of each."""
    return [when for when in product(range(sides), repeat=sides) if set(when) == set(range(max(when) + 1))]


def results(program: Program, when: tuple[int, ...]) -> int:
    """How many results one tuple a side gives that come in these batches."""
    run = _Run(program)
    for batch in range(max(when) + 1):
        run.batch({side for side, number in enumerate(when) if number == batch})
    return run.results


class _Run:
    """A program at work on tuples that all match. What is stored is counted by store: rows of old batches, and rows
    of this one."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._old: list[Counter[Row]] = [Counter() for _ in program.stores]
        self._new: list[Counter[Row]] = [Counter() for _ in program.stores]
        self.results = 0

    def batch(self, sides: set[int]) -> None:
        sent: dict[int, Counter[Row]] = {side: Counter([frozenset({side})]) for side in sides}
        for number, hop in enumerate(self._program.hops):
            for store in hop.entering:
                if self._program.stores[store].hop == number:
                    self._new[store] += sent.get(store, Counter())
            for path in sorted(hop.paths, key=lambda path: self._latest(path.source)):
                self._follow(path, sent)
        self._old = [old + new for old, new in zip(self._old, self._new, strict=True)]
        self._new = [Counter() for _ in self._old]

    def _follow(self, path: Path, sent: dict[int, Counter[Row]]) -> None:
        if self._program.meeting == "pairs" and not self._meets(path):
            return
        found = Counter(sent.get(path.source, Counter()))
        for step in path.steps:
            seen = Counter(self._old[step.store])
            is_here = self._program.stores[step.store].hop == path.hop  # what another hop got is seen once committed
            if is_here and self._latest(step.store) < self._latest(path.source):
                seen += self._new[step.store]
            found = Counter({one | two: n * m for one, n in found.items() for two, m in seen.items() if not one & two})
        if path.into is not None and self._is_at(path):
            self._new[path.into] += found
        if path.send is not None:
            sent[path.send.store] = sent.get(path.send.store, Counter()) + found
        if path.into is None and path.send is None:
            self.results += sum(n for row, n in found.items() if len(row) == len(self._program.order))

    def _meets(self, path: Path) -> bool:
        """Whether the path's rows come to the one unit that all its steps probe."""
        groups = {self._program.stores[step.store].group for step in path.steps}
        mine = self._program.stores[path.source].group
        for send in (other.send for other in self._program.paths):
            if send is not None and send.store == path.source:
                if send.how == "probe":
                    return groups == {send.group}
                mine = send.group
        meets = self._program.meets
        return len(groups) == 1 and (meets is None or (min(mine, *groups), max(mine, *groups)) in meets)

    def _is_at(self, path: Path) -> bool:
        """Whether packs are kept at the unit where they are made."""
        assert path.into is not None
        return self._program.stores[path.into].group == self._program.stores[path.steps[-1].store].group

    def _latest(self, store: int) -> int:
        return self._program.stores[store].latest
