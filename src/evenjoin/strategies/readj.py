"""Readj, the baseline A-DSP measures itself against (section 5.1): best pairwise moves and swaps of the heavy keys.

    repeat    of all moves (a key to another unit) and all swaps (two keys of two units) take the one that leaves the
              heaviest unit lightest; of equals the one with the least sum of squared loads
    until     heaviest / mean - 1 <= theta, or nothing improves, or STEPS were made

sigma decides who takes part: keys whose work is more than sigma of the mean load of a unit. A smaller sigma tracks more
keys and finds better plans. Readj wants keys back at the unit they are hashed to. So among the moves that are at most
1 % of the mean load worse than the best, one that brings a key back is preferred.

Load is the work, as in D-JB. In layout `shared` a key's units of all sides move together (its tuples are still sent
once); in `split` each side is balanced by itself. Cost per step O(keys * units + keys^2), keys <= units / sigma.
Not guaranteed: that the load becomes even. A key is never split, so a key heavier than the mean stays a bottleneck;
that is what the papers show of Readj.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import workloads
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.base import register
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.djb.draft import ALL_OF_A_PIECE, Draft
from evenjoin.strategies.djb.together import draft_of

STEPS = 256
"""The most moves and swaps of one plan, for each row of loads."""
AS_GOOD = 0.01
"""A move that restores a key may leave the heaviest unit heavier by this part of the mean load than the best move
would."""


@register("readj")
@dataclass(frozen=True, slots=True)
class Readj:
    """Readj. Its imbalance is the heaviest load over the mean, minus 1. A plan is called for above `theta`."""

    sigma: float = 0.05
    theta: float = 0.2
    tracked: int = 128

    def __post_init__(self) -> None:
        if not self.sigma > 0 or not self.theta > 0:
            raise SpecError(f"readj: sigma={self.sigma!r}, theta={self.theta!r}: numbers above 0 are needed")
        if type(self.tracked) is not int or self.tracked < 1:
            raise SpecError(f"readj: tracked={self.tracked!r}: a whole number of at least 1 is needed")

    @property
    def origin(self) -> str:
        return "readj"

    @property
    def threshold(self) -> float:
        return self.theta

    @property
    def alert(self) -> float:
        return self.theta

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return hash_table(self.origin, 0, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return workloads(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        return max(_by_row(items, table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        draft = draft_of(items, table, self.theta)
        for row in range(len(draft.sides)):
            for _ in range(STEPS):
                if _uneven(draft.load[row, draft.units(row)]) <= self.theta:
                    break
                if not improve(draft, row, self.sigma):
                    break
        made = draft.table()
        return made if made is not table and _gains(_by_row(items, table), _by_row(items, made)) else None


def _by_row(items: Items, table: RoutingTable) -> list[float]:
    return [_uneven(row[~np.isnan(row)]) for row in workloads(items, table)]


def _gains(before: list[float], after: list[float]) -> bool:
    """No row is less even, and one is more."""
    pairs = list(zip(before, after, strict=True))
    return all(new <= old + 1e-12 for old, new in pairs) and any(new < old - 1e-9 for old, new in pairs)


def _uneven(load: F64) -> float:
    return float(load.max() / load.mean() - 1) if len(load) and load.any() else 0.0


@dataclass(frozen=True, slots=True)
class Parties:
    """The keys that take part, as arrays [k]: number of the item, work, the unit it is on, the unit it is hashed to."""

    item: I64
    work: F64
    unit: I64
    home: I64


def improve(draft: Draft, row: int, sigma: float) -> bool:
    """Make the best move or swap. False if none lowers the heaviest load, nor the sum of squares at the same heaviest
    load."""
    keys = parties(draft, row, sigma)
    load = np.where(draft.hosts[row], draft.load[row], np.inf)
    peak, squares, restores = _moves(load, keys)
    peaks, more, back = _swaps(load, keys)
    width = peak.size
    peak, squares = np.concatenate([peak.ravel(), peaks.ravel()]), np.concatenate([squares.ravel(), more.ravel()])
    restores = np.concatenate([restores.ravel(), back.ravel()])
    chosen = _best(peak, squares, restores, float(draft.load[row].max()), draft.mean(row))
    if chosen is None:
        return False
    if chosen < width:
        one, to = divmod(chosen, len(load))
        draft.move_whole(row, int(keys.item[one]), int(keys.unit[one]), to)
        return True
    one, two = divmod(chosen - width, len(keys.item))
    draft.move_whole(row, int(keys.item[one]), int(keys.unit[one]), int(keys.unit[two]))
    draft.move_whole(row, int(keys.item[two]), int(keys.unit[two]), int(keys.unit[one]))
    return True


def parties(draft: Draft, row: int, sigma: float) -> Parties:
    """The keys whose work is more than sigma of the mean load, and all on one unit."""
    sides = list(draft.sides[row])
    shares = draft.shares[sides].min(axis=0)
    work = draft.of_row(row)
    taking = draft.items.is_key & (shares.max(axis=1) > ALL_OF_A_PIECE) & (work > sigma * draft.mean(row))
    item = np.flatnonzero(taking)
    return Parties(item, work[item], shares[item].argmax(axis=1), draft.home[sides[0], item])


def _moves(load: F64, keys: Parties) -> tuple[F64, F64, F64]:
    """[k, units] For every move: the heaviest load after it, the change of the sum of squares, and how many keys it
    restores (negative: takes from home)."""
    source, work = load[keys.unit][:, None], keys.work[:, None]
    to = np.arange(len(load))[None, :]
    heaviest = np.maximum(_others(load, keys.unit[:, None], to), np.maximum(source - work, load[None, :] + work))
    peak = np.where(to == keys.unit[:, None], np.inf, heaviest)
    restored = (to == keys.home[:, None]).astype(float) - (keys.unit == keys.home)[:, None]
    with np.errstate(invalid="ignore"):
        return peak, 2 * work * (load[None, :] - source + work), restored


def _swaps(load: F64, keys: Parties) -> tuple[F64, F64, F64]:
    """[k, k] The same as `_moves`, for every swap."""
    net = keys.work[:, None] - keys.work[None, :]
    one, two = load[keys.unit][:, None], load[keys.unit][None, :]
    heaviest = np.maximum(_others(load, keys.unit[:, None], keys.unit[None, :]), np.maximum(one - net, two + net))
    peak = np.where(keys.unit[:, None] == keys.unit[None, :], np.inf, heaviest)
    at_home = (keys.unit == keys.home).astype(float)
    goes_home = (keys.unit[None, :] == keys.home[:, None]).astype(float)
    restored = goes_home + goes_home.T - at_home[:, None] - at_home[None, :]
    return peak, 2 * net * (two - one + net), restored


def _others(load: F64, one: I64, two: I64) -> F64:
    """The heaviest load of the units that are neither `one` nor `two`; 0 if there are none. Only the three heaviest
    units can matter."""
    finite = np.where(np.isinf(load), 0.0, load)
    top = np.argsort(-finite, kind="stable")[:3]
    one, two = np.broadcast_arrays(one, two)
    out: F64 = np.zeros(one.shape)
    for unit in top[::-1].tolist():
        out = np.where((one != unit) & (two != unit), finite[unit], out)
    return out


def _best(peak: F64, squares: F64, restores: F64, now: float, mean: float) -> int | None:
    """The number of the best change: least peak, then least squares; one that restores a key if it is about as good.
    None if no change is an improvement."""
    gains = (peak < now - 1e-9) | ((peak <= now + 1e-9) & (squares < -1e-9 * max(now, 1.0) ** 2))
    if not gains.any():
        return None
    least = peak[gains].min()
    about = np.flatnonzero(gains & (restores > 0) & (peak <= least + AS_GOOD * mean))
    pool = about if len(about) else np.flatnonzero(gains & (peak <= least + 1e-9))
    return int(pool[np.lexsort((pool, squares[pool], -restores[pool]))[0]])
