"""Readj, the baseline A-DSP measures itself against (section 5.1): best pairwise moves and swaps of the heavy keys.

    repeat    of all moves of the heaviest unit's keys to another unit, and all swaps with a key of another unit, take
              the one that leaves the heaviest unit lightest; of equals the one with the least sum of squared loads
    until     heaviest / mean - 1 is within the aim, which is a part of theta (strategies/base.py), or nothing improves,
              or STEPS were made

sigma decides who takes part: keys whose work is more than sigma of the mean load of a unit. "Given a smaller sigma,
Readj tends to track more candidate keys and thus finds better migration plans. [...] we run Readj with different sigmas
and only report the best result": with `sigma="best"` each of SIGMAS makes a plan, and of those within the aim the one
that moves the fewest tuples is taken, or the most even one if none is. A bucket with its light keys may take part like
a key (strategies/pieces.py); without it nobody could move the half of the load that no single key stands for.

Readj wants keys back at the unit they are hashed to. So among the changes that are at most 1 % of the mean load worse
than the best, one that brings a key back is preferred.

Load is the work, as in D-JB. In layout `shared` a key's units of all sides move together (its tuples are still sent
once); in `split` each side is balanced by itself. Cost per step O(keys of the heaviest unit * units * log keys).
Not guaranteed: that the load becomes even. A key is never split, so a key heavier than the mean stays a bottleneck;
that is what the papers show of Readj.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import workloads
from evenjoin.load.items import F64, Items, later
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Bounds, Stay, Strategy, register
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.ordered import ordered
from evenjoin.strategies.pieces import PER_UNIT, Pieces, pieces, relocated

STEPS = 256
"""The most moves and swaps of one plan, for each row of loads."""
AS_GOOD = 0.01
"""A change that restores a key may leave the heaviest unit heavier by this part of the mean load than the best one
would."""
SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The sigmas of which the best is taken."""


@register("readj")
@dataclass(frozen=True, slots=True)
class Readj:
    """Readj. Its imbalance is the heaviest load over the mean, minus 1.

    sigma     the least work of a key that takes part, as a part of the mean load; or the best of SIGMAS
    theta     the bound of the imbalance
    tracked   how many heavy keys each instance reports; only these can take part by themselves
    aim       the part of theta that plans are made for (strategies/base.py; 1: theta itself)
    """

    sigma: float | Literal["best"] = "best"
    theta: float = 0.2
    tracked: int = 128
    aim: float = 0.5

    def __post_init__(self) -> None:
        if self.sigma != "best" and (isinstance(self.sigma, str) or not self.sigma > 0):
            raise SpecError(f"readj: sigma={self.sigma!r}: a number above 0 or 'best' is needed")
        if isinstance(self.theta, str) or not self.theta > 0:
            raise SpecError(f"readj: theta={self.theta!r}: a number above 0 is needed")
        if isinstance(self.aim, str) or not 0 < self.aim <= 1:
            raise SpecError(f"readj: aim={self.aim!r}: a number above 0 and at most 1 is needed")
        if type(self.tracked) is not int or self.tracked < 1:
            raise SpecError(f"readj: tracked={self.tracked!r}: a whole number of at least 1 is needed")

    @property
    def origin(self) -> str:
        return "readj"

    def for_join(self, spec: JoinSpec) -> Strategy:
        return ordered(self, spec)

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.theta, self.aim)

    @property
    def threshold(self) -> float:
        return self.theta

    @property
    def alert(self) -> float:
        return self.bounds.alert

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return hash_table(self.origin, 0, instances, sides, layout, PER_UNIT)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return workloads(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        return max(_by_row(self.load(items, table)))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | Stay:
        """The plan of the best sigma, or why there is none. While state grows it is made for batches to come, unless it
        would be out of bounds today."""
        before = _by_row(workloads(items, table))
        if max(before) <= self.alert:
            return Stay(f"the heaviest load is {max(before):.2f} above the mean, no plan is called for")
        for future in later(items, report):
            made = self._plan(_by_row(workloads(future, table)), future, table)
            if isinstance(made, RoutingTable):
                after = _by_row(workloads(items, made))
                if _gains(before, after) and max(after) <= self.theta:
                    return made
        return self._plan(before, items, table)

    def _plan(self, before: tuple[float, ...], items: Items, table: RoutingTable) -> RoutingTable | Stay:
        sigmas, load = SIGMAS if isinstance(self.sigma, str) else (self.sigma,), workloads(items, table)
        offers = [offer for sigma in sigmas if _gains(before, (offer := self._offer(items, table, load, sigma)).uneven)]
        if not offers:
            heaviest = max(max(_whole(items, row)) for row in _rows(table)) / np.nanmean(load)
            return Stay(f"no move and no swap helps: the heaviest key or bucket is {heaviest:.2f} of the mean load")
        best = min(offers, key=lambda o: (max(*o.uneven, self.bounds.goal), o.tuples))
        return relocated(table, best.moves)

    def _offer(self, items: Items, table: RoutingTable, load: F64, sigma: float) -> Offer:
        """The plan of a sigma. `load` [rows, instances] is that of the table."""
        moves, uneven, tuples = [], [], 0.0
        for number, sides in enumerate(_rows(table)):
            draft = Draft(items, table, sides, load[number], sigma)
            for _ in range(STEPS):
                if _uneven(draft.load) <= self.bounds.goal or not improve(draft):
                    break
            uneven.append(_uneven(draft.load))
            stored = draft.pieces.counts(items.stored[list(sides)]).sum(axis=0)
            moves.append((draft.pieces, draft.hosts()))
            tuples += float(stored[draft.hosts() != draft.pieces.host].sum())
        return Offer(tuple(moves), tuple(uneven), tuples)


class Offer(NamedTuple):
    """The plan of one sigma: where the pieces of each row go, how uneven that is, and how many tuples move."""

    moves: tuple[tuple[Pieces, I64], ...]
    uneven: tuple[float, ...]
    tuples: float


def _rows(table: RoutingTable) -> tuple[tuple[int, ...], ...]:
    """The sides of each row of loads."""
    every = tuple(range(table.groups))
    return tuple((side,) for side in every) if table.layout == "split" else (every,)


def _by_row(load: F64) -> tuple[float, ...]:
    return tuple(_uneven(row[~np.isnan(row)]) for row in load)


def _gains(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
    """No row is less even, and one is more."""
    pairs = list(zip(before, after, strict=True))
    return all(new <= old + 1e-12 for old, new in pairs) and any(new < old - 1e-9 for old, new in pairs)


def _uneven(load: F64) -> float:
    return float(load.max() / load.mean() - 1) if len(load) and load.any() else 0.0


def _whole(items: Items, sides: tuple[int, ...]) -> F64:
    """[n] The work of each item, if its tuples of these sides are all on one unit."""
    rows = list(sides)
    out: F64 = (items.arrived + items.asking + items.results)[rows].sum(axis=0)
    return out


class Draft:
    """The pieces of a row while they are planned. Mutable, private to one planning.

    units   the instances of the row
    load    [units] the load of each
    unit    [pieces] the unit of each piece; -1: it does not take part
    work    [pieces]
    """

    def __init__(self, items: Items, table: RoutingTable, sides: tuple[int, ...], load: F64, sigma: float) -> None:
        self.units = np.flatnonzero(~np.isnan(load))
        self.load: F64 = load[self.units].copy()
        least = sigma * float(self.load.mean())
        whole = _whole(items, sides)
        self.pieces = pieces(items, table, sides, whole > least)
        self.work: F64 = self.pieces.counts(whole[None, :])[0]
        number = np.full(table.instances + 1, -1, np.int64)
        number[self.units] = np.arange(len(self.units))
        self.unit: I64 = np.where(self.work > least, number[self.pieces.host], -1)
        self._number = number

    @property
    def home(self) -> I64:
        """[pieces] The unit that each piece is hashed to; -1 for a bucket, which is wherever it is put."""
        bucket = self.pieces.home
        at = np.where(self.unit[bucket] >= 0, self.unit[bucket], self._number[self.pieces.host[bucket]])
        return np.where(bucket == np.arange(len(bucket)), -1, at)

    def hosts(self) -> I64:
        """[pieces] The instance of each piece; -1 if it cannot move."""
        return np.where(self.unit >= 0, self.units[self.unit], self.pieces.host)

    def put(self, piece: int, unit: int) -> None:
        self.load[self.unit[piece]] -= self.work[piece]
        self.load[unit] += self.work[piece]
        self.unit[piece] = unit


def improve(draft: Draft) -> bool:
    """Make the best change. False if none lowers the heaviest load, nor the sum of squares at the same heaviest
    load."""
    heaviest = int(draft.load.argmax())
    mine = np.flatnonzero(draft.unit == heaviest)
    if not len(mine) or len(draft.load) < 2:
        return False
    other = _partners(draft, mine, heaviest)
    net = draft.work[mine][None, :, None] - np.where(other >= 0, draft.work[other], 0.0)
    to = np.arange(len(draft.load))
    peak = np.maximum(_others(draft.load, heaviest), np.maximum(draft.load[heaviest] - net, draft.load + net))
    possible = (to != heaviest) & ((other >= 0) | (np.arange(3)[:, None, None] == 0))
    squares = 2 * net * (draft.load - draft.load[heaviest] + net)
    mean = float(draft.load.mean())
    restored = _restored(draft, mine, other, heaviest)
    chosen = _best(np.where(possible, peak, np.inf), squares, restored, float(draft.load[heaviest]), mean)
    if chosen is None:
        return False
    how, one, unit = np.unravel_index(chosen, net.shape)
    draft.put(int(mine[one]), int(unit))
    if other[how, one, unit] >= 0:
        draft.put(int(other[how, one, unit]), heaviest)
    return True


def _partners(draft: Draft, mine: I64, heaviest: int) -> I64:
    """[3, mine, units] The piece of each unit to swap each of mine with: none (a move), and the two after whose swap
    the loads of both units are nearest. Others leave the heavier of the two units heavier."""
    taking = np.flatnonzero(draft.unit >= 0)
    scale = 2 * float(draft.work.max()) or 1.0
    place = draft.unit[taking] + draft.work[taking] / scale
    order = np.argsort(place, kind="stable")
    taking, place = np.append(taking[order], -1), place[order]
    wanted = draft.work[mine][:, None] - (draft.load[heaviest] - draft.load)[None, :] / 2
    at = np.searchsorted(place, np.arange(len(draft.load)) + np.clip(wanted / scale, 0.0, 0.5))
    out = np.full((3, *wanted.shape), -1, np.int64)
    for row, found in ((1, taking[at - 1]), (2, taking[at])):
        same = (found >= 0) & (draft.unit[found] == np.arange(len(draft.load)))
        out[row] = np.where(same, found, -1)
    return out


def _others(load: F64, heaviest: int) -> F64:
    """[units] The heaviest load of the units that are neither the heaviest nor this one; 0 if there are none."""
    rest = load.copy()
    rest[heaviest] = 0.0
    first = int(rest.argmax())
    out = np.full(len(load), rest[first])
    rest[first] = 0.0
    out[first] = rest.max()
    return out


def _restored(draft: Draft, mine: I64, other: I64, heaviest: int) -> F64:
    """[3, mine, units] How many keys each change brings home, less those that it takes from home."""
    home = draft.home
    mine_home, to = home[mine][None, :, None], np.arange(len(draft.load))
    goes = (mine_home == to).astype(float) - (mine_home == heaviest)
    comes = (home[other] == heaviest).astype(float) - (home[other] == to)
    out: F64 = goes + np.where(other >= 0, comes, 0.0)
    return out


def _best(peak: F64, squares: F64, restores: F64, now: float, mean: float) -> int | None:
    """The number of the best change: least peak, then least squares; one that restores a key if it is about as good.
    None if no change is an improvement."""
    peak, squares, restores = peak.ravel(), squares.ravel(), restores.ravel()
    gains = (peak < now - 1e-9) | ((peak <= now + 1e-9) & (squares < -1e-9 * max(now, 1.0) ** 2))
    if not gains.any():
        return None
    least = peak[gains].min()
    about = np.flatnonzero(gains & (restores > 0) & (peak <= least + AS_GOOD * mean))
    pool = about if len(about) else np.flatnonzero(gains & (peak <= least + 1e-9))
    return int(pool[np.lexsort((pool, squares[pool], -restores[pool]))[0]])
