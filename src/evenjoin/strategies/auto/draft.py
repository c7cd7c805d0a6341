"""A table while `auto` plans it: edits that relieve the longest task one by one, and what they come to.

    whole item      a key or the rest of a bucket that lives on one instance
    divided key     a key that is a Grid of instances (two sides) or a Cube (more): its tuples of one side are divided,
                    those of the other copied, so that every pair meets in one cell

At each step there are three kinds of offers for the longest task: move a key to the shortest task, move a bucket there,
or divide its heaviest key. The offer that lowers the longest task most is taken, less what its copies and its migration
cost (the latter spread over HORIZON batches). Steps go on until the batch is within GOAL of even, or nothing helps. Of
all states on the way the one is kept that saves most: a batch takes as long as its longest task only where there is a
core for each, so a step that looks good for one task may save nothing.

A Grid, not a Biclique: in a Biclique all tuples of the hot side would still probe one unit of the other.

Guarantee: `table()` has the edits up to the best state and no others, so it is the old table if none helps. Everything
is a function of the items; ties go to the lowest number.
Not here: whether the change is worth its price (planner.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.load.cost import Cost, copies, makespan
from evenjoin.load.items import F64, Items, regions_of_items
from evenjoin.placement.place import routed
from evenjoin.placement.shares import holdings
from evenjoin.placement.slots import WHOLE, Role
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique, Cube, Division, Grid, Topology
from evenjoin.strategies.auto.price import Price
from evenjoin.strategies.edit import Edit

GOAL = 0.03
"""A batch that is this part above an even one is even."""
HORIZON = 20
"""For so many batches a change is taken to last, when edits are compared."""
SMALL = 0.1
"""A key below this part of a core's share is moved, not divided."""
CANDIDATES = 16
"""Keys an instance, heaviest first, that are looked at; and how many an instance may have regions of their own."""
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Into how many cells a key may be divided."""
THIN = 0.02
"""A cell with less than this part of a key is left out of its grid."""


@dataclass(frozen=True, slots=True)
class Step:
    """One edit: a key gets a topology, or a bucket an instance. `share` is the part of the longest task's time that the
    item had."""

    code: int | None
    topology: Topology | None
    bucket: int
    to: int
    share: float
    instance: int


class _Offer(NamedTuple):
    gain: float
    item: int
    to: int
    topology: Topology | None
    shares: F64 | None


class Draft:
    """The edits of one planning. Mutable, and private to it."""

    def __init__(self, items: Items, table: RoutingTable, cost: Cost, cores: int, price: Price) -> None:
        self.items, self.table, self.cost, self.cores, self.price = items, table, cost, cores, price
        self.lanes = min(cores, table.instances)
        self.send, self.slow = cost.send_ms, cost.slowness(table)
        self.per = float(cost.each[1] + cost.each[2] * (table.groups - 1)), float(cost.each[3])
        self.arrived, self.found = items.arrived, items.results.sum(axis=0)
        self.stored = items.stored.sum(axis=0)
        self.whole: F64 = self.per[0] * self.arrived.sum(axis=0) + self.per[1] * self.found
        self.tasks: F64 = cost.tasks(items, table)
        self.sent = copies(items, table)
        self.moved = 0.0
        self.steps: list[Step] = []
        self._find_hosts()
        self.best, self.saved, self.start = 0, 0.0, self.time

    def _find_hosts(self) -> None:
        """`host[k]` is the instance of a whole item, -1 for a divided one. `divided[k]` are the shares [sides,
        instances] of a divided key. `own` are the keys with a region of their own."""
        table, items = self.table, self.items
        region = regions_of_items(items, table)
        shares = np.zeros((table.groups, len(table.regions), table.instances))
        for side in range(table.groups):
            held = holdings(table, side, Role.STORE)
            shares[side, held.region, held.instance] = held.share
        one = (shares.max(axis=2) == 1.0).all(axis=0) & ((shares > 0).any(axis=0).sum(axis=1) == 1)
        self.host: npt.NDArray[np.int64] = np.where(one, shares[0].argmax(axis=1), -1)[region]
        self.own: npt.NDArray[np.bool_] = items.is_key & (routed(table, items.code) >= 0)
        cut = np.array([isinstance(each.topology, (Grid, Cube)) for each in table.regions])
        self.divided = {int(k): shares[:, region[k]] for k in np.flatnonzero((self.host < 0) & cut[region])}
        self.bucket = np.where(self.own, -1, items.bucket)
        self.rest = np.full(table.buckets, -1)
        self.rest[items.bucket[~items.is_key]] = np.flatnonzero(~items.is_key)

    @property
    def time(self) -> float:
        """How long the batch's tasks take as the draft is now."""
        return makespan(self.tasks, self.cores) + self.send * self.sent / self.cores

    def improve(self) -> None:
        """Merge back what no longer pays, then relieve the longest task step by step; remember the best state."""
        self._make_room()
        self._merge_back()
        self._remember()
        for _ in range(4 * self.table.instances + 8):
            if makespan(self.tasks, self.cores) <= (1 + GOAL) * self.cost.even(self.tasks, self.table, self.cores):
                break
            at = int(self.tasks.argmax())
            offer = max(self._offers(at), key=lambda one: one.gain, default=None)
            if offer is None or offer.gain <= 1e-3 * self.tasks[at]:
                break
            self._take(offer, at)
            self._remember()

    def table_made(self) -> RoutingTable:
        """The table with all steps up to the best state. Keys that nothing is stored of go home: that is free."""
        edit = Edit(self.table)
        for step in self.steps[: self.best]:
            if step.code is None:
                for side in range(self.table.groups):
                    edit.move_bucket(step.bucket, side, (step.to,))
            else:
                edit.place_key(step.code, step.topology or edit.home(step.code))
        if self.best:
            taken = {step.code for step in self.steps[: self.best]}
            cold = self.items.is_key & self.own & (self.stored + self.arrived.sum(axis=0) == 0)
            for code in self.items.code[cold].tolist():
                if code not in taken:
                    edit.place_key(code, edit.home(code))
        return edit.table()

    def _remember(self) -> None:
        saved = self.start - self.time - self.price.move_ms * self.moved / self.lanes / HORIZON
        if saved > self.saved:
            self.best, self.saved = len(self.steps), saved

    def _make_room(self) -> None:
        """If the table is full, the keys that have least to do go home, of equal ones those with least stored: one for
        each instance. That lasts only if what takes their place repays it."""
        full = CANDIDATES * self.table.instances
        mine = np.flatnonzero(self.own & ((self.host >= 0) | np.isin(np.arange(len(self.own)), list(self.divided))))
        if self.own.sum() < full:
            return
        for k in mine[np.lexsort((self.stored[mine], self.whole[mine]))][: self.table.instances].tolist():
            if self._home(k) >= 0:
                self._go_home(k)

    def _merge_back(self) -> None:
        """A divided key goes home where that saves more copies than it costs."""
        for k, shares in list(self.divided.items()):
            if self._home(k) < 0:
                continue
            home = self._at(self._home(k))
            tasks = self.tasks - self._vector(k, shares) + self._vector(k, home)
            sent = self.sent - self._copies(k, shares)
            moving = float((self.items.stored[:, k, None] * np.maximum(home - shares, 0)).sum())
            after = makespan(tasks, self.cores) + self.send * sent / self.cores
            if sent < self.sent and self.time - after > self.price.move_ms * moving / HORIZON:
                self._go_home(k)

    def _go_home(self, k: int) -> None:
        home = self._home(k)
        self._put(k, self._at(home))
        self.host[k] = home
        self._note(k, None, home, 0.0, home)

    def _put(self, k: int, after: F64) -> None:
        """The key has these shares from now on."""
        before = self._shares(k)
        self.tasks = self.tasks - self._vector(k, before) + self._vector(k, after)
        self.sent += self._copies(k, after) - self._copies(k, before)
        self.moved += float((self.items.stored[:, k, None] * np.maximum(after - before, 0)).sum())
        self.divided.pop(k, None)

    def _home(self, k: int) -> int:
        """The instance of the key's bucket."""
        return int(self.host[self.rest[self.items.bucket[k]]])

    def _vector(self, k: int, shares: F64) -> F64:
        """[instances] What a key with these shares costs the tasks."""
        usual: F64 = self.per[0] * (self.arrived[:, k] @ shares) + self.per[1] * self.found[k] * shares.prod(axis=0)
        return usual * self.slow

    def _copies(self, k: int, shares: F64) -> float:
        return float(self.arrived[:, k] @ (shares.sum(axis=1) - 1.0))

    def _offers(self, at: int) -> Iterator[_Offer]:
        """What may relieve the task of instance `at`."""
        to = int(self.tasks.argmin())
        here = np.flatnonzero(self.host == at)
        keys = here[self.items.is_key[here]]
        if self.own.sum() >= CANDIDATES * self.table.instances:
            keys = keys[self.own[keys]]
        keys = keys[np.argsort(-self.whole[keys], kind="stable")[:CANDIDATES]]
        if len(keys):
            gains = self._gains(at, to, self.whole[keys], self.stored[keys])
            best = int(gains.argmax())
            yield _Offer(float(gains[best]), int(keys[best]), to, None, None)
        rest = here[~self.items.is_key[here]]
        if len(rest):
            weight, stored = (
                np.bincount(self.bucket[self.bucket >= 0], counts[self.bucket >= 0], self.table.buckets).astype(float)
                for counts in (self.whole, self.stored)
            )
            buckets = self.items.bucket[rest]
            gains = self._gains(at, to, weight[buckets], stored[buckets])
            best = int(gains.argmax())
            yield _Offer(float(gains[best]), int(rest[best]), to, None, None)
        wide = [k for k, shares in self.divided.items() if shares[:, at].any()]
        wide.sort(key=lambda k: -self._vector(k, self.divided[k])[at])
        for k in (*keys[:1].tolist(), *wide[:1]):
            if self.whole[k] > SMALL * self.tasks.sum() / self.lanes:
                yield from self._divisions(k, at)

    def _gains(self, at: int, to: int, weight: F64, stored: F64) -> F64:
        """How far the longest task sinks if items of this weight (at the usual speed) move from it."""
        lower = np.maximum(self.tasks[at] - weight * self.slow[at], self.tasks[to] + weight * self.slow[to])
        out: F64 = self.tasks[at] - lower - self.price.move_ms * stored / HORIZON / self.lanes
        return out

    def _divisions(self, k: int, at: int) -> Iterator[_Offer]:
        """The key as grids of several sizes and shapes, on the instances that have most room. A task that is longer
        than what a core has to do need not become shorter than that, which grows with the copies: so a key is not
        divided further than there are cores. A shorter one becomes shorter still, though that alone may save nothing:
        with others it may. What the copies add to a core's time is counted."""
        before = self._shares(k)
        rest = self.tasks - self._vector(k, before)
        room = np.argsort(rest, kind="stable")
        core = float(self.tasks.sum()) / self.lanes
        long = float(self.tasks[at]) > core
        for topology in _topologies(self.arrived[:, k], self.whole[k], rest, room, self.slow):
            shares = _shares_of(topology, self.table.groups, self.table.instances)
            after = rest + self._vector(k, shares)
            peak, then = max(float(after[at]), float(after[shares.any(axis=0)].max())), float(after.sum()) / self.lanes
            peak = max(peak, then) if long else peak + then - core
            moving = float((self.items.stored[:, k, None] * np.maximum(shares - before, 0)).sum())
            more = self.send * (self._copies(k, shares) - self._copies(k, before)) / self.cores
            gain = float(self.tasks[at]) - peak - more - self.price.move_ms * moving / HORIZON / self.lanes
            yield _Offer(gain, k, -1, topology, shares)

    def _shares(self, k: int) -> F64:
        return self.divided[k] if k in self.divided else self._at(int(self.host[k]))

    def _at(self, instance: int) -> F64:
        """The shares of a key that lives on one instance."""
        out = np.zeros((self.table.groups, self.table.instances))
        out[:, instance] = 1.0
        return out

    def _take(self, offer: _Offer, at: int) -> None:
        k = offer.item
        if not self.items.is_key[k]:
            some = np.flatnonzero(self.bucket == self.items.bucket[k])
            weight = float(self.whole[some].sum())
            share = weight * float(self.slow[at]) / float(self.tasks[at])
            self.tasks[at] -= weight * self.slow[at]
            self.tasks[offer.to] += weight * self.slow[offer.to]
            self.moved += float(self.stored[some].sum())
            self.host[some] = offer.to
            self.steps.append(Step(None, None, int(self.items.bucket[k]), offer.to, share, at))
            return
        after = self._at(offer.to) if offer.shares is None else offer.shares
        share = float(self._vector(k, self._shares(k))[at] / self.tasks[at])
        self._put(k, after)
        if offer.topology is None:
            self.host[k] = offer.to
            units = Biclique(((offer.to,),) * self.table.groups)
            self._note(k, units, offer.to, share, at)
        else:
            self.host[k], self.divided[k] = -1, after
            self._note(k, offer.topology, -1, share, at)

    def _note(self, k: int, topology: Topology | None, to: int, share: float, at: int) -> None:
        """A key has a region of its own from now on, unless it goes home: then it is in its bucket, and moves with
        it."""
        self.own[k] = to != self._home(k)
        self.bucket[k] = -1 if self.own[k] else self.items.bucket[k]
        self.steps.append(Step(int(self.items.code[k]), topology, -1, to, share, at))


def _topologies(
    arrived: F64, whole: float, rest: F64, room: npt.NDArray[np.int64], slow: F64
) -> Iterator[Topology]:  # fmt: skip
    """Ways to divide a key over the instances that have most room: `room` are their numbers, best first. In a line the
    cells get as much of the key as brings all of them to the same time; a slow one gets less."""
    most = len(room)
    for size in sorted({*(size for size in SIZES if size <= most), most}):
        if size < 2:
            continue
        cells = room[:size]
        if len(arrived) > 2:
            yield Cube.divided(int(arrived.argmax()), tuple(cells.tolist()))
            continue
        speed = 1 / slow[cells]
        level = np.maximum((whole + rest[cells] @ speed) / speed.sum() - rest[cells], 0.0) * speed
        weights = level / level.sum() if level.sum() > 0 else np.full(size, 1.0 / size)
        some = np.flatnonzero(weights > THIN * weights.max())
        line, division = tuple(cells[some].tolist()), _division(weights[some])
        if len(line) > 1:
            yield Grid(len(line), 1, line, divisions=(division, (), ()))
            yield Grid(1, len(line), line, divisions=((), division, ()))
        root = int(size**0.5)
        for rows in {root, size // max(root, 1)}:
            if 1 < rows < size and size % rows == 0:
                yield Grid(rows, size // rows, tuple(cells.tolist()))


def _division(weights: F64) -> Division:
    """Lines with these parts of the range of `u`."""
    ends = np.rint(np.cumsum(weights) / weights.sum() * WHOLE).astype(np.int64)
    widths = np.diff(ends, prepend=0)
    return tuple((line, int(width)) for line, width in enumerate(widths) if width > 0)


def _shares_of(topology: Topology, sides: int, instances: int) -> F64:
    """[sides, instances] What share of a key's tuples each instance stores."""
    out = np.zeros((sides, instances))
    for side in range(sides):
        slots = topology.slots(side)
        total = sum(slot.weight for slot in slots)
        for slot in slots:
            for instance, _ in slot.targets:
                out[side, instance] += slot.weight / total
    return out
