"""What is stored, as counts per code, side and layer of event time; and how many results new tuples find in it.

    codes              3   8   9  12          all codes seen so far, ascending
    side 0, layer 0   40   0   7   1          tuples of one batch, which expire together
            layer 1   38   2   9   0
    side 1, layer 0   ...

Where times do not matter a side has one layer, to which every batch adds. A layer knows how its tuples lie on instances
under the table (`placed`, by the entries of spread.py): it was divided when they arrived, and is divided anew only when
the table changes.

Results follow the order rule of the engine: side 0 counts as arriving before side 1. So new tuples of side 1 meet old
and new ones of side 0, and new tuples of side 0 meet the old ones of side 1.

* equal codes: new count * stored count, code by code
* a band: new count * the sum of stored counts over its reach, from prefix sums
* bounds on event time: of the pairs of two slices the share whose times are near enough, the times of a slice being
  spread evenly from its `low` to its `high`. Where each slice is one instant, as in `Stream`, this is exact.

Invariant: counts are whole numbers and never negative. Memory O(codes * layers), whatever the number of tuples.
Not here: where results are found (counting.py), and which layers have expired (the manifest says).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.placement.ranges import ACROSS
from evenjoin.sim.spread import Spread
from evenjoin.sim.stream import Slice
from evenjoin.spec import JoinSpec


@dataclass(slots=True)
class Layer:
    """Tuples of a side that expire together: their `number` in the order of arrival, event times, counts [codes], and
    how many of them each entry of the spread holds."""

    number: int
    low: int
    high: int
    counts: I64
    placed: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def tuples(self) -> int:
        return int(self.counts.sum())


@dataclass(slots=True)
class State:
    """The stored tuples of a join of two sides. `layered[side]` says whether the event times of a side's tuples matter,
    because they expire or because the condition bounds times. Otherwise one layer has all of them. Layers are numbered:
    `made` is the next number, and those from `fresh` on are of the last batch."""

    spec: JoinSpec
    layered: tuple[bool, bool]
    codes: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    layers: tuple[list[Layer], list[Layer]] = field(default_factory=lambda: ([], []))
    made: int = 0
    fresh: int = 0

    def admit(self, slices: Sequence[Slice]) -> None:
        """Make room for codes that were never seen."""
        strange = [one.codes[~_among(one.codes, self.codes)] for one in slices]
        if not any(map(len, strange)):
            return
        every = np.unique(np.concatenate([self.codes, *strange]))
        at = np.searchsorted(every, self.codes)
        for layer in (*self.layers[0], *self.layers[1]):
            counts = np.zeros(len(every), np.int64)
            counts[at] = layer.counts
            layer.counts = counts
        self.codes = every

    def dense(self, slices: Sequence[Slice]) -> I64:
        """[codes] The tuples of some slices by code."""
        out = np.zeros(len(self.codes), np.int64)
        for one in slices:
            out[np.searchsorted(self.codes, one.codes)] += one.counts
        return out

    def total(self, side: int) -> I64:
        """[codes] The stored tuples of a side."""
        out = np.zeros(len(self.codes), np.int64)
        for layer in self.layers[side]:
            out += layer.counts
        return out

    def take(self, side: int, slices: Sequence[Slice], spread: Spread, cells: I64) -> I64:
        """Store the slices of a batch; `cells` are those of the codes. Returns [entries] how many tuples each entry of
        `spread.held` gets."""
        got = np.zeros(len(spread.held[side].row), np.int64)
        for one in slices:
            new = self.dense((one,))
            placed = self._placed(side, new, spread, cells, self.made)
            got += placed
            if not self.layered[side] and self.layers[side]:
                (only,) = self.layers[side]
                only.counts += new
                only.placed = only.placed + placed
            else:
                self.layers[side].append(Layer(self.made, one.low, one.high, new, placed))
            self.made += 1
        return got

    def _placed(self, side: int, counts: I64, spread: Spread, cells: I64, number: int) -> I64:
        rows = np.bincount(cells, counts, spread.table.cells).astype(np.int64)[spread.cell[side]]
        return spread.held[side].divided(rows, 2 * number + side)

    def lay(self, spread: Spread, cells: I64) -> None:
        """Divide everything that is stored anew, under another table. `cells` are those of the codes."""
        for side, layers in enumerate(self.layers):
            for layer in layers:
                layer.placed = self._placed(side, layer.counts, spread, cells, layer.number)

    def drop(self, side: int, kept: set[int]) -> None:
        """Forget the layers of a side that the manifest does not name."""
        self.layers[side][:] = [layer for layer in self.layers[side] if layer.number in kept]

    def met(self, side: int, probing: Slice, also: Sequence[Slice] = ()) -> F64:
        """[codes] The stored tuples of a side, and of the slices `also`, by the share of them that is near enough in
        event time to the tuples of `probing`, which are of the other side."""
        out = np.zeros(len(self.codes))
        for layer in self.layers[side]:
            share = near(self.spec, side, layer, probing)
            if share:
                out += layer.counts if share == 1 else layer.counts * share
        for one in also:
            share = near(self.spec, side, one, probing)
            if share:
                out[np.searchsorted(self.codes, one.codes)] += one.counts * share
        return out

    def reached(self, side: int, probing: I64) -> tuple[I64, I64]:
        """For each probing code (of the other side) the numbers [first, end) of the codes of `side` that it meets."""
        view = self.spec.edges[0].seen_from(ACROSS[side])
        first = last = probing
        if view.band is not None:
            first, last = asked_codes(probing, view.band.kind, view.band.low, view.band.high, view.band.slack)
        elif view.drive == "none":
            return np.zeros(len(probing), np.int64), np.full(len(probing), len(self.codes))
        return np.searchsorted(self.codes, first), np.searchsorted(self.codes, last, "right")


def _among(codes: I64, known: I64) -> npt.NDArray[np.bool_]:
    """Which of the codes are among the known ones. Both ascend."""
    if not len(known):
        return np.zeros(len(codes), np.bool_)
    out: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, codes), len(known) - 1)] == codes
    return out


def near(spec: JoinSpec, side: int, stored: Layer | Slice, probing: Slice) -> float:
    """The share of the pairs that the condition's bounds on event time allow; `stored` is of `side`."""
    edge = spec.edges[0]
    if not edge.bounded or (edge.band is not None and edge.band.on_time):
        return 1.0
    first, second = (stored, probing) if side == 0 else (probing, stored)
    top = 1.0 if edge.high is None else _below(edge.high, first, second)
    return max(top - (0.0 if edge.low is None else _below(edge.low - 1, first, second)), 0.0)


def _below(bound: int, first: Layer | Slice, second: Layer | Slice) -> float:
    """The share of pairs with time of second - time of first <= bound. Times are whole and evenly spread, so this is
    the distribution of a difference of two uniform numbers."""
    wide, other = first.high - first.low + 1, second.high - second.low + 1
    gap = bound - (second.low - first.high) + 1  # how many of the differences, the least of them being the first

    def area(reach: float) -> float:
        return max(reach, 0.0) * (max(reach, 0.0) + 1) / 2

    inside = area(gap) - area(gap - wide) - area(gap - other) + area(gap - wide - other)
    return inside / (wide * other)
