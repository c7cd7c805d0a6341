"""Items: the load of a batch as the pieces a table can place, and what any table would make of them.

An item is one key that is worth its own region (a heavy key, or one that has a region already), or what remains of a
bucket once its heavy keys are taken out. Nothing is counted twice: over all items the counts add up to the report's.

    bucket 0: 900 arrived = key 42: 700 + key 7: 150 + the remainder of bucket 0: 50

`loads(items, table)` says what each unit would have stored, been asked and found, had these items met that table. For
the table that they did meet it repeats the report, but for what shares leave open: a split key's tuples are spread by
weight, and not as they happened to fall. For another one it is the forecast by which planners and guards decide. Under
a Biclique a tuple of an item is stored on one unit of its side (by weight) and probes every unit of the other sides,
hence

    stored(s, i)  = sum of stored_k[s]  * share_k(s, i)         the papers' |R_i|
    arrived(s, i) = sum of arrived_k[s] * share_k(s, i)
    probes(s, i)  = sum of arrived_k[all other sides] over items with a unit of s on i   the papers' phi_i
    results(s, i) = sum of results_k[s] * share_k(s, i)

Where buckets are ordered (placement/order.py), tuples with other codes ask for an item too. There `asking` is counted
apart from arrivals: the tuples of the other side whose codes reach the item. One tuple may ask for several items, and
counts once for each. So of items on one unit probes(s, i) says more than were sent. Of keys it is no more than what
they find, if anything is stored of them, because whoever asks for a key finds all of that.

A key that is divided by a Cube has copies: share_k(s, i) is what instance i stores of side s, and over the instances
the shares of a copied side add up to more than 1. Every cell has tuples of all sides, hence there

    probes(s, i)  = sum of arrived_k[t] * share_k(t, i) over the other sides t
    results(s, i) = results_k[s] * product of share_k(t, i) over all sides t

`items_of` counts such a tuple once, whatever its copies. But what is found in the copies of two sides is counted in
each cell where it is found: if a third side divides the key, partial results are counted more than once.

By chance a load is off. Arrivals are taken to be independent of each other, so a count of a tuples has the variance a,
and an item with the work w from a arrivals is off by w / sqrt(a) in one batch. Of that variance smoothing leaves a part
(`noise`), or 1 / s of s stored tuples, if that is less and nothing expires: then rates go by what is stored (rates.py).
Results are proportional to what is stored, which is chance as well. While nothing expires, an item that stores too much
by chance also has too high a rate, so there the two deviations are added up; else the variances are.

    400 arrivals of light keys, work 800       +- 40 in a batch, +- 15 when smoothed:     2 %
    20 arrivals of one key, work 800           +- 179 in a batch, +- 68 when smoothed:    8 %

Not guaranteed: that arrivals of real streams are independent. If they come in bursts, they vary more than this says.

Pure arrays; cost O(items + units).
A Grid, a Cube that takes more than keys, and a ranged table have no keys to place. There `Items.alive` stands for the
tuples: the report's samples, or, where one region takes everything, one point a side: the copies stored over the copies
that a tuple has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.rates import known, rates_after, smoothed
from evenjoin.load.receipt import HeavyKey
from evenjoin.load.report import LoadReport
from evenjoin.placement.diff import entering
from evenjoin.placement.pieces import Further, Points, moved_volume, stored_volume
from evenjoin.placement.place import buckets_of, routed
from evenjoin.placement.shares import Holdings, holdings, shares_by_region
from evenjoin.placement.table import Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Cube, Grid, Role

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Items:
    """n items.

    code, is_key, bucket       [n]; the code of a remainder means nothing. The items of a ranged table are its cells:
                               there `bucket` is the number of the cell
    stored, arrived, results   [sides, n]; `results[s]` were found in the store of side s
    alive                      points that stand for the tuples alive; empty if they are not known
    further                    per side the codes of these points by its further indexes; empty if they are not known
    held                       the name of the table that the batch ran under, and the tuples [sides, instances] that
                               its instances then held: exact, copies counted. `alive` stands for as many
    sizes                      per side the bytes of a stored tuple; empty if they are not known
    speed                      [instances] the measured speed of each instance over the cluster's; None if not known
    askers                     [sides, n] where buckets are ordered: the tuples of the other side that ask for each item
    cuts                       where the ordered buckets began that these items are of; None: buckets were hashes
    busy                       how long all tasks of the batch took together, over the trigger's interval; 0: not known
    cores                      how many tasks ran at once, at most; 0 if that is not known
    noise                      the part of the variance of one batch's counts that is left in the arrivals
    lasting                    whether nothing has expired yet
    """

    code: I64
    is_key: npt.NDArray[np.bool_]
    bucket: I64
    stored: F64
    arrived: F64
    results: F64
    alive: Points = ()
    further: Further = ()
    held: tuple[str, F64] | None = None
    sizes: tuple[float, ...] = ()
    speed: F64 | None = None
    cuts: tuple[int, ...] | None = None
    askers: F64 | None = None
    busy: float = 0.0
    cores: int = 0
    noise: float = 1.0
    lasting: bool = True

    def __len__(self) -> int:
        return len(self.code)

    def held_under(self, table: RoutingTable) -> F64 | None:
        """[sides, instances] The tuples that each instance holds, exactly; None for a table that the batch did not run
        under."""
        return self.held[1] if self.held is not None and self.held[0] == table.name else None

    def fit(self, table: RoutingTable) -> bool:
        """Whether the table has the same buckets as these items, so that it can be asked about them."""
        return is_matrix(table) or (int((~self.is_key).sum()) == table.buckets and self.cuts == table.cuts)

    @property
    def asking(self) -> F64:
        """[sides, n] Tuples that probe what each side stores: the arrivals of all other sides, or, where buckets are
        ordered, those that reach it."""
        if self.askers is not None:
            return self.askers
        out: F64 = self.arrived.sum(axis=0) - self.arrived
        return out

    @property
    def variance(self) -> F64:
        """[n] The variance of the work of each item by chance, as a part of the square of that work."""
        of_rates = self.noise / np.maximum(self.arrived.sum(axis=0), 1.0)
        of_stored = 1.0 / np.maximum(self.stored.sum(axis=0), 1.0)
        rate = np.sqrt(np.minimum(of_rates, of_stored) if self.lasting else of_rates)
        found = rate + np.sqrt(of_stored) if self.lasting else np.sqrt(of_rates + of_stored)
        tuples, results = (self.arrived + self.asking).sum(axis=0), self.results.sum(axis=0)
        out: F64 = ((tuples * rate + results * found) / np.maximum(tuples + results, 1e-9)) ** 2
        return out

    def work(self, side: int) -> F64:
        """[n] The work of each item on a unit of the side that has all of it: tuples stored, tuples that probe,
        results."""
        out: F64 = self.arrived[side] + self.asking[side] + self.results[side]
        return out


@dataclass(frozen=True, slots=True)
class UnitLoads:
    """The loads of one side's units, by instance: arrays [instances]. `hosts` are the instances that have such a
    unit."""

    side: int
    hosts: I64
    stored: F64
    arrived: F64
    probes: F64
    results: F64

    @property
    def work(self) -> F64:
        """Tuples that arrived to be stored, tuples that probed, and results, of the interval."""
        out: F64 = self.arrived + self.probes + self.results
        return out


def items_of(report: LoadReport, table: RoutingTable) -> Items:
    """The items of a batch that ran under `table`."""
    speed = np.array(report.speeds) if report.speeds else None
    took = sum(load.elapsed_ms for load in report.instances)
    busy = took / report.trigger_ms if report.trigger_ms > 0 else 0.0
    items = replace(_items_of(report, table), sizes=report.sizes, speed=speed, cuts=table.cuts)
    items = replace(items, busy=busy, cores=report.cores)
    if len(report.instances) != table.instances:
        return items
    held = np.array([load.stored for load in report.instances], np.float64).T
    return replace(items, held=(table.name, held), alive=_agreeing(items, table, held))


def _agreeing(items: Items, table: RoutingTable, held: F64) -> Points:
    """The points with weights for which the table stores of each side as many tuples as its instances held."""
    if not items.alive or not is_matrix(table) or table.cube is not None:
        return items.alive
    said = stored_volume(table, items.alive, items.further).sum(axis=1)
    factor = np.divide(held.sum(axis=1), said, out=np.ones(len(said)), where=said > 0)
    return tuple((codes, weights * factor[side]) for side, (codes, weights) in enumerate(items.alive))


def with_rates(
    report: LoadReport, last: LoadReport | None, table: RoutingTable
) -> tuple[LoadReport, Items]:  # fmt: skip
    """The report of a batch that ran under `table`, with smoothed rates that go on from those of the last report; and
    its items as planners see them. A table of grids or areas has no rates: there they go by what is stored."""
    items = items_of(report, table)
    if is_matrix(table):
        return report, items
    items = known(items, table)
    rates = rates_after(last.rates if last else None, items, report.expired)
    return replace(report, rates=rates), smoothed(items, rates)


def planning_items(report: LoadReport, table: RoutingTable) -> Items:
    """The items as planners see them (rates.py): keys of which too little is known are parts of their buckets, and
    arrivals and results are smoothed over batches."""
    items = items_of(report, table)
    return items if is_matrix(table) else smoothed(known(items, table), report.rates)


GROWTHS = (16.0, 4.0)
"""How many times the results of a batch planners look ahead while state grows."""


def later(items: Items, report: LoadReport) -> list[Items]:
    """The items of batches to come, the latest first; none if state does not grow, because tuples expire.

    While nothing expires, state grows, and with it the results of each batch. So the load shifts to the keys that find
    most, and a table that is even today is not even when the state has doubled."""
    return [] if report.expired else [replace(items, results=growth * items.results) for growth in GROWTHS]


def _items_of(report: LoadReport, table: RoutingTable) -> Items:
    sides, own = table.groups, table.compiled.key_codes
    cells = np.zeros((3, sides, table.cells))
    for side, cell, arrived, stored, results in report.cells:
        cells[:, side, cell] = arrived, stored, results
    for number, shares in _cubes(table):
        cells[:2, :, table.compiled.region_of_cell == number] /= np.rint(shares.sum(axis=1))[:, None]
    alive, further = _alive(report, table, cells[1].sum(axis=1)), _further(report)
    if table.ranged:
        none = np.zeros(table.cells, np.int64)
        return Items(none, none > 0, np.arange(table.cells), cells[1], cells[0], cells[2], alive, further)
    every_code = np.array([key.code for key in report.heavy], np.int64)
    new = (routed(table, every_code) < 0) & ~np.isin(every_code, np.array(report.partial, np.int64))
    codes, heavy = every_code[new], [key for key, is_new in zip(report.heavy, new.tolist(), strict=True) if is_new]
    counts = np.zeros((3, sides, len(heavy)))
    if heavy:  # keys are counted by side; a group of pairs (tree) is none
        told = np.array([[key.arrived, key.stored, key.results] for key in heavy], np.float64)
        counts[:, : told.shape[2]] = told.transpose(1, 2, 0)
    buckets = buckets_of(table, codes)
    rest = cells[:, :, : table.buckets].copy()
    for number in range(3):
        for side in range(sides):
            rest[number, side] -= np.bincount(buckets, counts[number, side], table.buckets)
    every = np.concatenate([counts, cells[:, :, table.buckets :], np.maximum(rest, 0.0)], axis=2)
    keys = len(codes) + len(own)
    made = Items(
        np.concatenate([codes, own, np.zeros(table.buckets, np.int64)]),
        np.arange(keys + table.buckets) < keys,
        np.concatenate([buckets, buckets_of(table, own), np.arange(table.buckets)]),
        every[1],
        every[0],
        every[2],
        alive,
        further,
    )
    return replace(made, askers=_askers(report, table, heavy)) if table.ordered else made


def _askers(report: LoadReport, table: RoutingTable, heavy: Sequence[HeavyKey]) -> F64:
    """[sides, n] The tuples that asked for each item: the heavy keys, the keys with regions, and the remainders of
    buckets, for which all ask that reach some code of the bucket."""
    cells = np.zeros((table.groups, table.cells))
    for side, cell, count in report.askers:
        cells[side, cell] = count
    keys = np.zeros((table.groups, len(heavy)))
    if heavy:
        keys[:] = np.array([key.askers or (0,) * table.groups for key in heavy], np.float64).T
    return np.concatenate([keys, cells[:, table.buckets :], cells[:, : table.buckets]], axis=1)


def _alive(report: LoadReport, table: RoutingTable, copies: F64) -> Points:
    """Points that stand for the tuples alive: the samples, or, where one region takes everything, one point a side."""
    if len(report.samples) == table.groups:
        return tuple(
            (np.array([point[0] for point in side], np.int64), np.array([point[1] for point in side], np.float64))
            for side in report.samples
        )
    if len(table.regions) != 1 or table.ranged:
        return ()
    one = ((np.zeros(1, np.int64), np.ones(1)),) * table.groups
    each = stored_volume(table, one).sum(axis=1)
    return tuple((np.zeros(1, np.int64), np.array([copies[side] / each[side]])) for side in range(table.groups))


def _further(report: LoadReport) -> Further:
    """The codes of the samples by further indexes, where each point has them."""
    return tuple(
        tuple(np.array(codes, np.int64) for codes in zip(*(point[2:] for point in side), strict=True))
        for side in report.samples
    )


def cells_of_items(items: Items, table: RoutingTable) -> I64:
    """[n] The cell of each item in a table with the same buckets: the key's own cell if it has one, else its
    bucket's."""
    own = routed(table, items.code)
    return np.where(items.is_key & (own >= 0), table.buckets + own, items.bucket)


def regions_of_items(items: Items, table: RoutingTable) -> I64:
    """[n] The region that takes each item: the key's own region if it has one, else its bucket's."""
    return table.compiled.region_of_cell[cells_of_items(items, table)]


def loads(items: Items, table: RoutingTable) -> tuple[UnitLoads, ...]:
    """The loads that the units of each side would have, had these items met this table."""
    if is_matrix(table):
        return _matrix_loads(items, table)
    totals = np.zeros((4, table.groups, len(table.regions)))
    regions = regions_of_items(items, table)
    for side in range(table.groups):
        for row, counts in enumerate((items.stored, items.arrived, items.asking, items.results)):
            totals[row, side] = np.bincount(regions, counts[side], len(table.regions))
    out, cubes = [], _cubes(table)
    for side in range(table.groups):
        region, unit, share = _units(table, side)
        sums: list[F64] = [
            np.bincount(unit, totals[row, side, region] * (1.0 if row == 2 else share), table.instances).astype(float)
            for row in range(4)
        ]
        for number, shares in cubes:
            for total, more in zip(sums, _in_cube(totals[:, :, number], shares, side), strict=True):
                total += more
            unit = np.concatenate([unit, np.flatnonzero(shares[side])])
        out.append(UnitLoads(side, np.unique(unit), *sums))
    return tuple(out)


def _matrix_loads(items: Items, table: RoutingTable) -> tuple[UnitLoads, ...]:
    """The same for grids, areas and cubes, where each instance is a unit of all sides. The points alive stand for the
    tuples: each goes where `place` puts it, and arrivals are spread as they are. Of the results an instance finds its
    part by the product of what it stores of the sides."""
    every, instances = np.arange(table.instances), table.instances
    if not items.alive:
        return tuple(UnitLoads(side, every, *np.zeros((4, instances))) for side in range(table.groups))
    volume = stored_volume(table, items.alive, items.further)
    weight = np.array([weights.sum() for _, weights in items.alive])
    shares = volume / np.where(weight > 0, weight, 1.0)[:, None]
    copies = items.held[1].sum(axis=1) / np.where(weight > 0, weight, 1.0) if items.held else np.ones(table.groups)
    arrived = items.arrived.sum(axis=1) / np.maximum(copies, 1.0)
    found = shares.prod(axis=0) / max(float(shares.prod(axis=0).sum()), 1e-300)
    each, asking = arrived[:, None] * shares, (arrived[:, None] * shares).sum(axis=0)
    held = items.held_under(table)
    return tuple(
        UnitLoads(side, every, (volume if held is None else held)[side], each[side], asking - each[side],
                  items.results[side].sum() * found)
        for side in range(table.groups)
    )  # fmt: skip


def _in_cube(totals: F64, shares: F64, side: int) -> tuple[F64, F64, F64, F64]:
    """[instances] What a side's cells of a divided key have of its tuples stored, arrived and probing, and of its
    results; `totals` [4, sides] are those of the key, `shares` [sides, instances] what each instance stores."""
    own, arrived = shares[side], totals[1]
    probes = (arrived @ shares - arrived[side] * own) * (own > 0)
    return totals[0, side] * own, arrived[side] * own, probes, totals[3, side] * shares.prod(axis=0)


def _cubes(table: RoutingTable) -> list[tuple[int, F64]]:
    """The regions whose keys are divided by a grid or a cube: the number of each, and what share [sides, instances] of
    its tuples each instance stores."""
    numbers = [n for n, region in enumerate(table.regions) if _divides_keys(region)]
    if not numbers:
        return []
    shares = np.stack([shares_by_region(table, side, Role.STORE) for side in range(table.groups)])
    return [(number, shares[:, number]) for number in numbers]


def _divides_keys(region: Region) -> bool:
    return isinstance(region.topology, (Cube, Grid)) and isinstance(region.takes, Keys)


def deviations(items: Items, table: RoutingTable) -> F64:
    """[instances] The standard deviation of the work of each instance by chance, as a part of that work; 0 for an idle
    one. Those of the sides are added up: the tuples that one of them stores probe the other."""
    variance, regions = items.variance, regions_of_items(items, table)
    work, total = np.zeros((2, table.instances))
    for side, unit in enumerate(loads(items, table)):
        held, asked = items.arrived[side] + items.results[side], items.asking[side]
        both, mixed, none = (
            np.bincount(regions, product * variance, len(table.regions))
            for product in (held * held, 2 * held * asked, asked * asked)
        )
        where, host, share = _units(table, side)
        squares = np.bincount(
            host, both[where] * share**2 + mixed[where] * share + none[where], table.instances
        ).astype(np.float64)
        for number, shares in _cubes(table):
            own = shares[side]
            squares += both[number] * own**2 + mixed[number] * own + none[number] * (own > 0)
        work, total = work + unit.work, total + np.sqrt(squares)
    out: F64 = np.divide(total, work, out=np.zeros(table.instances), where=work > 0)
    return out


def furthest(units: int) -> float:
    """By about how many standard deviations the furthest of so many units is off, though all are alike."""
    return float(np.sqrt(2 * np.log(max(units, 2))))


def work_by_instance(items: Items, table: RoutingTable) -> F64:
    """[instances] The work of all units each instance hosts."""
    total: F64 = np.sum([unit.work for unit in loads(items, table)], axis=0)
    return total


@dataclass(frozen=True, slots=True)
class Change:
    """What going from one table to another means for a batch's items.

    moves      about how many stored tuples change place; None if the tables have different buckets
    kind       "units": the same instances host other units. "size": the number of instances changes, or one of the
               tables has grids or areas, or the new one has ordered buckets with other cuts
    relieved   for a change of units: how many tuples and results a batch instances are relieved of
    """

    moves: int | None
    kind: Literal["units", "size"]
    relieved: float = 0.0


def change(items: Items, old: RoutingTable, new: RoutingTable) -> Change:
    """What a planner's table would change."""
    if new.ordered and not items.fit(new):
        return Change(round(moved_volume(old, new, items.alive)) if items.alive else None, "size")
    moves = round(moved_tuples(items, old, new)) if items.fit(new) else None
    if is_matrix(old) or is_matrix(new) or old.instances != new.instances:
        return Change(moves, "size")
    relief = work_by_instance(items, old) - work_by_instance(items, new)
    return Change(moves, "units", float(relief[relief > 0].sum()))


def moved_tuples(items: Items, old: RoutingTable, new: RoutingTable) -> float:
    """About how many stored tuples change place. Exact for whole keys and buckets; the shares of split keys, and what
    samples stand for, are expectations of what `diff` moves."""
    if is_matrix(old) or is_matrix(new):
        return moved_volume(old, new, items.alive, items.further) if items.alive else 0.0
    before, after = regions_of_items(items, old), regions_of_items(items, new)
    return sum(float(items.stored[side] @ entering(old, new, side, before, after)) for side in range(old.groups))


def is_matrix(table: RoutingTable) -> bool:
    """Whether a table has grids, areas or cubes, other than those that divide single keys. Then tuples have copies, and
    the planner does not go by units."""
    copied = [region for region in table.regions if isinstance(region.topology, (Grid, Cube))]
    return table.ranged or not all(map(_divides_keys, copied))


def _units(table: RoutingTable, side: int) -> Holdings:
    """Every unit of a side: its region, its instance and its share of the region. Cells of grids and cubes are no
    units."""
    units = holdings(table, side, Role.STORE)
    keyed = np.array([isinstance(region.topology, Biclique) for region in table.regions])[units.region]
    return units if keyed.all() else Holdings(*(column[keyed] for column in units))
