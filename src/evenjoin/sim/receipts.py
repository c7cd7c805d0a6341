"""Virtual receipts: what the instances of a batch would have written, made of counts. The one file that knows what a
receipt says.

The runs that they name are virtual too: their files do not exist, but rows, times and sub-windows are exact. Where
tuples expire there is one run for each place and layer; where they do not, a place has one run, and each batch merges
it with what is new. So the manifest stays small, whatever the number of batches.

Guarantee: the driver's own code reads these receipts as it reads real ones (runtime/advance.py). Nothing is decided
here. Times (`busy_ms`, `receive_ms`, `place_us`) are those of a cost profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenjoin.instance.migrate import Migrated
from evenjoin.instance.work import Work
from evenjoin.kernels.hashing import I64
from evenjoin.load.intake import Intake
from evenjoin.load.items import F64
from evenjoin.load.receipt import Aging, CellCount, HeavyKey, Receipt
from evenjoin.load.report import HEAVY_KEYS
from evenjoin.load.samples import Picked, Slices, scaled
from evenjoin.sim.counting import Cells, Counts
from evenjoin.sim.naming import Named, named
from evenjoin.sim.spread import Spread
from evenjoin.sim.state import Layer, State
from evenjoin.sim.stream import Arrivals, Slice
from evenjoin.state.manifest import Place
from evenjoin.state.segment import Run

BYTES = 24
"""Bytes of a stored tuple: code, time, position and a little payload."""
DRAWN = 4096
"""Tuples of a side that are looked at for a sample of codes, at most; or, where the planner wants more points,"""
DRAWN_A_POINT = 16
"""so many for each point."""


@dataclass(frozen=True, slots=True)
class Times:
    """[instances] The busy time of each instance, and the part of it for taking tuples in; the time to place a row; and
    [instances] when each task began (seconds) and how long it took by the clock."""

    busy_ms: F64
    receive_ms: F64
    place_us: float
    began: F64
    elapsed_ms: F64


def receipts_of(
    work: Work, state: State, spread: Spread, counts: Counts, arrivals: Arrivals, times: Times
) -> list[Receipt]:
    """The receipts of all instances, in their order."""
    instances = spread.table.instances
    merged, sealed = _runs(work, state, spread)
    keyed = counts.keyed if work.tracked else replace(counts.keyed, stored=np.zeros_like(counts.keyed.stored))
    totals = (counts.stored + counts.probes + counts.results).sum(axis=0), counts.held.sum(axis=0)
    keys, others = named(keyed, spread, work.tracked or HEAVY_KEYS, work.batch, totals, _asked(work, state.codes))
    heavy, asked = (_by_instance(some.instance, _heavy_keys(some, work, state), instances) for some in (keys, others))
    aging = _aging(work, state, spread)
    seen = counts.cells if work.tracked else counts.cells.without_stored()
    cells = _by_instance(seen.instance, _cell_counts(seen), instances)
    intake = tuple(_intake(slices, work, side) for side, slices in enumerate(arrivals))
    nothing = (Intake(),) * len(intake)
    columns = [
        list(zip(*some.tolist(), strict=True))
        for some in (counts.stored, counts.probes, counts.results, counts.messages)
    ]
    busy, receive = np.round(times.busy_ms, 3).tolist(), np.round(times.receive_ms, 3).tolist()
    began, elapsed = times.began.tolist(), np.round(times.elapsed_ms, 3).tolist()
    return [
        Receipt(
            work.batch,
            instance,
            sealed.get(instance, {}),
            merged.get(instance, {}),
            stored=columns[0][instance],
            probes=columns[1][instance],
            results=columns[2][instance],
            busy_ms=busy[instance],
            receive_ms=receive[instance],
            cells=tuple(cells[instance]),
            heavy=tuple(heavy[instance]),
            asked=tuple(asked[instance]),
            aging=tuple(aging[instance]),
            intake=intake if instance == instances - 1 else nothing,
            place_us=times.place_us if work.tracked else 0.0,
            messages=columns[3][instance],
            sent_bytes=tuple(count * BYTES for count in columns[3][instance]),
            began=began[instance],
            elapsed_ms=elapsed[instance],
        )
        for instance in range(instances)
    ]


def moved(work: Work, state: State, spread: Spread, tuples: int, busy_ms: float) -> list[Migrated]:
    """What the donors of a migration would have written: all runs go, and come as the new spread has them."""
    come: dict[Place, tuple[Run, ...]] = {}
    for side, layers in enumerate(state.layers):
        for layer in layers:
            for place, run in _runs_of(work, side, layer, spread, layer.placed):
                come[place] = (*come.get(place, ()), run)
    return [Migrated(0, 0, work.runs, come, tuples, tuples * BYTES, busy_ms)]


def layers_named(runs: Sequence[tuple[Place, tuple[Run, ...]]]) -> tuple[set[int], set[int]]:
    """By side, the numbers of the layers that some run belongs to."""
    found: tuple[set[int], set[int]] = set(), set()
    for (_, side), some in runs:
        found[side].update(run.index for run in some)
    return found


Runs = dict[int, dict[Place, tuple[Run, ...]]]
"""By instance: the runs by place."""


def _runs(work: Work, state: State, spread: Spread) -> tuple[Runs, Runs]:
    """The runs that go, because they are merged, and those that come: of the layers that got tuples in this
    batch."""
    gone: Runs = {}
    come: Runs = {}
    for side, layers in enumerate(state.layers):
        for layer in layers:
            if layer.number < state.fresh and state.layered[side]:
                continue
            for place, run in _runs_of(work, side, layer, spread, layer.placed):
                old = tuple(one for one in work.runs.get(place, ()) if one.index == layer.number)
                if any(one.alive == run.alive for one in old):
                    continue
                mine, its = come.setdefault(place[0], {}), gone.setdefault(place[0], {})
                mine[place] = (*mine.get(place, ()), run)
                if old:
                    its[place] = old
    return gone, come


def _runs_of(work: Work, side: int, layer: Layer, spread: Spread, placed: I64) -> list[tuple[Place, Run]]:
    """The runs of a layer, one for each instance that holds some of it. `index` is the number of the layer."""
    alive = np.bincount(spread.held[side].instance, placed, spread.table.instances).astype(np.int64)
    width = work.sub_windows[side]
    sub = 0 if width is None else layer.high // width
    name = f"virtual/{work.batch}/{side}-i"
    some = np.flatnonzero(alive)
    return [
        ((i, side), Run(f"{name}{i}", layer.number, n, n, sub, layer.low, layer.high, n * BYTES, n * BYTES, 0))
        for i, n in zip(some.tolist(), alive[some].tolist(), strict=True)
    ]


def _by_instance(instance: I64, items: list[HeavyKey] | list[CellCount], instances: int) -> list[list]:  # type: ignore[type-arg]
    """The items of each instance; they are sorted by instance."""
    ends = np.searchsorted(instance, np.arange(instances + 1)).tolist()
    return [items[ends[i] : ends[i + 1]] for i in range(instances)]


def _asked(work: Work, codes: I64) -> I64:
    """What the instances are asked for, as instance * codes + the number of the code, ascending."""
    pairs = [(instance, code) for instance, some in work.watched.items() for code in some]
    if not pairs:
        return np.zeros(0, np.int64)
    instance, code = np.array(pairs, np.int64).T
    return np.sort(instance * len(codes) + np.searchsorted(codes, code))


def _heavy_keys(keys: Named, work: Work, state: State) -> list[HeavyKey]:
    counts = [zip(*some.tolist(), strict=True) for some in (keys.arrived, keys.probed, keys.stored, keys.results)]
    values, aging = state.codes[keys.key].tolist(), _key_aging(keys, work, state)
    return [
        HeavyKey(code, str(code), arrived, probed, stored, results, tuple(ages))
        for code, (arrived, probed, stored, results), ages in zip(values, zip(*counts, strict=True), aging, strict=True)
    ]


def _key_aging(keys: Named, work: Work, state: State) -> list[list[tuple[int, int, int]]]:
    """When the stored tuples of each key at an instance expire: of a divided key in proportion to the layers."""
    out: list[list[tuple[int, int, int]]] = [[] for _ in keys.key]
    for side, layers in enumerate(state.layers):
        if work.program.stores[side].horizon is None or not work.tracked:
            continue
        total = np.maximum(state.total(side)[keys.key], 1)
        for layer in layers:
            here = np.rint(keys.stored[side] * (layer.counts[keys.key] / total)).astype(np.int64)
            for n in np.flatnonzero(here).tolist():
                out[n].append((side, layer.high, int(here[n])))
    return out


def _aging(work: Work, state: State, spread: Spread) -> list[list[Aging]]:
    """By instance, when the stored tuples of its cells expire."""
    out: list[list[Aging]] = [[] for _ in range(spread.table.instances)]
    for side, layers in enumerate(state.layers):
        if work.program.stores[side].horizon is None or not work.tracked:
            continue
        places = spread.places[side]
        for layer in layers:
            counts = np.bincount(places.held, layer.placed, len(places.cell)).astype(np.int64)
            some = np.flatnonzero(counts)
            ends = np.searchsorted(places.instance[some], np.arange(spread.table.instances + 1)).tolist()
            cells, of_each = places.cell[some].tolist(), counts[some].tolist()
            for instance in np.unique(places.instance[some]).tolist():
                here = slice(ends[instance], ends[instance + 1])
                out[instance].append((side, layer.high, tuple(cells[here]), tuple(of_each[here])))
    return out


def _cell_counts(cells: Cells) -> list[CellCount]:
    columns = (cells.side, cells.cell, cells.arrived, cells.stored, cells.results)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _intake(slices: Sequence[Slice], work: Work, side: int) -> Intake:
    """What dispatch saw of a side: nothing is late, and everything can match."""
    rows = sum(one.tuples for one in slices)
    timed = work.spec.sides[side].event_time is not None
    latest = max((one.high for one in slices), default=None) if timed else None
    sample = _sample(slices, rows, work, side) if work.sampling == "codes" and rows else ()
    return Intake(rows, latest=latest, sample=sample)


def _sample(slices: Sequence[Slice], rows: int, work: Work, side: int) -> Slices:
    """A sample of codes as dispatch makes it, of at most DRAWN tuples that are drawn at random."""
    rng = np.random.default_rng([work.seed, 9, side, work.batch])
    codes, counts = (np.concatenate(some) for some in zip(*((one.codes, one.counts) for one in slices), strict=True))
    highs = np.repeat([one.high for one in slices], [len(one.codes) for one in slices])
    most = max(DRAWN, DRAWN_A_POINT * work.grain.points(rows))
    if rows <= most:
        drawn = np.repeat(np.arange(len(codes)), counts)
    else:
        drawn = np.searchsorted(np.cumsum(counts), rng.integers(0, rows, most), "right")
    chosen = Picked(work.grain, work.sub_windows[side])
    ids = rng.integers(0, 2**64 - 1, len(drawn), np.uint64)
    chosen.add(ids, codes[drawn], times=highs[drawn] if work.sub_windows[side] is not None else None)
    some = chosen.slices()
    each = rows / max(sum(one.weight for one in some), 1.0)
    return tuple(one._replace(points=scaled(one.points, one.weight * each)) for one in some)
