"""The loop: batch after batch under virtual time, with the engine's own decisions.

    arrivals -> counts -> cost -> receipts -> advance -> the commit, and the table of the next batch
    a new table -> what is stored is divided anew -> migrated -> the same commit

`advance` and `migrated` are the driver's (runtime/advance.py): watermark, expiry, load report, monitor, planner, check,
guards and commit are production code, on a real JoinSpec, Settings, Program and RoutingTable. Virtual are only the
tuples (state.py), who saw them (counting.py), the receipts (receipts.py) and the time (cost.py, cluster.py).

Guarantee: the same scenario gives the same lines, but for the planner's time, which is measured.
Not guaranteed: that a real run takes the same decisions where keys are split or tuples are copied: there the counts of
an instance are expectations. The books, files and crashes of a real batch do not exist here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evenjoin.commit.log import Commit
from evenjoin.errors import SpecError
from evenjoin.events import Migration
from evenjoin.instance.program import store_schemas
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work, sub_window_widths
from evenjoin.load.djb import records
from evenjoin.load.items import is_matrix, items_of
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import USUAL_GRAIN
from evenjoin.load.watch import watched
from evenjoin.placement.check import check
from evenjoin.placement.diff import entering
from evenjoin.placement.pieces import moved_volume
from evenjoin.placement.place import cells_of
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.advance import Clocks, advance, migrated
from evenjoin.runtime.dispatch import stated
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.counting import Counts, count
from evenjoin.sim.queueing import Latency, Queues
from evenjoin.sim.receipts import Times, layers_named, moved, receipts_of
from evenjoin.sim.scenario import Line, Scenario, settings_of
from evenjoin.sim.spread import Spread, spread_of
from evenjoin.sim.state import State
from evenjoin.sim.stream import Arrivals
from evenjoin.state.manifest import Manifest
from evenjoin.state.tuples import tuple_schemas


def simulate(scenario: Scenario) -> Iterator[Line]:
    """The lines of a scenario, one a batch."""
    simulation = Simulation(scenario)
    for _ in range(scenario.source.batches):
        yield simulation.step()


class Simulation:
    """A simulated join that is stepped batch by batch. `last` is the last commit, `met` the table that its batch met,
    `counts` what was counted in it, and `table` that of the next batch."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.spec = scenario, scenario.source.spec
        self.settings = settings_of(self.spec, scenario)
        strategy, instances = self.settings.strategy, self.settings.instances
        self.table = check(stated(self.spec, strategy.initial(instances, 2, self.settings.layout)))
        self.met = self.table
        self.last: Commit | None = None
        self.counts: Counts | None = None
        edge, horizons = self.spec.edges[0], [side.horizon for side in self.spec.sides]
        timed = edge.low is not None or edge.high is not None
        layered = timed or horizons[0] is not None, timed or horizons[1] is not None
        self.state = State(self.spec, layered, scenario.source.codes())
        self.schemas = tuple_schemas(self.spec, 0)
        self._queues = Queues()
        self._now = 0.0

    @property
    def batch(self) -> int:
        """The number of the next batch."""
        return 0 if self.last is None else self.last.batch + 1

    @property
    def report(self) -> LoadReport:
        """The load report of the last batch."""
        if self.last is None or self.last.report is None:
            raise SpecError("no batch was simulated yet")
        return self.last.report

    def step(self) -> Line:
        """Run the next batch. Receipts are many small values without cycles, so the collector is left out of it."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._step()
        finally:
            if collecting:
                gc.enable()

    def _step(self) -> Line:
        arrivals, table = self.scenario.source.arrivals(self.batch), self.table
        manifest, migration = self._migrated()
        self.met = table
        spread, work = spread_of(table), self._work(table, manifest)
        counts = self.counts = count(self.state, spread, arrivals, self.batch)
        busy = self._busy(counts, table.instances)
        rows = sum(one.tuples for slices in arrivals for one in slices)
        cluster = self._cluster(table.instances)
        order = np.array(work.instance_of)
        batch_ms = self.scenario.profile.batch_ms(busy, rows, int(counts.results.sum()), cluster, order)
        if migration is not None:
            batch_ms += migration.pause_ms
        latency = self._queues.interval(counts, busy, max(self.scenario.trigger_ms, 1e-9))
        self._now += max(batch_ms, self.scenario.trigger_ms) / 1000
        commit, self.table = self._advanced(work, spread, counts, arrivals, busy, migration)
        self.last = replace(commit, duration_ms=batch_ms)
        return self._line(table, busy, batch_ms, latency)

    def _advanced(
        self, work: Work, spread: Spread, counts: Counts, arrivals: Arrivals, busy: np.ndarray,
        migration: Migration | None,
    ) -> tuple[Commit, RoutingTable]:  # fmt: skip
        """What the engine makes of the batch; and the state without what has expired."""
        profile = self.scenario.profile
        receive = np.minimum(profile.receive_us / 1000 * counts.messages.sum(axis=0), busy)
        taken = profile.stretch * busy
        began = self._now + self._cluster(work.table.instances).begun(taken, np.array(work.instance_of)) / 1000
        times = Times(busy, receive, profile.place_us, began, taken)
        receipts = receipts_of(work, self.state, spread, counts, arrivals, times)
        clocks = Clocks(self._now, 0.0, time.perf_counter, self.scenario.trigger_ms)
        commit, after = advance(self.last, work, migration, receipts, self.settings, clocks)
        if any(width is not None for width in work.sub_windows):
            for side, kept in enumerate(layers_named(list(commit.manifest.runs.items()))):
                self.state.drop(side, kept)
        return commit, after

    def _migrated(self) -> tuple[Manifest, Migration | None]:
        """The manifest that the batch starts from, after a migration if the last commit named another table."""
        last, new = self.last, self.table
        if last is None or last.table == new.name:
            return last.manifest if last is not None else Manifest(), None
        old, codes, spread = self.met, self.state.codes, spread_of(new)
        tuples = moving(self.state, old, new)
        self.state.lay(spread, cells_of(new, codes))
        profile = self.scenario.profile
        pause = profile.pause + profile.moved * tuples / self._cluster(new.instances).size
        donors = moved(self._work(old, last.manifest), self.state, spread, tuples, pause)
        return migrated(last, self._work(old, last.manifest), new, donors, round(pause, 3), self.settings.asked)

    def _busy(self, counts: Counts, instances: int) -> np.ndarray:
        """[instances] How long each instance is busy on its node, reading its state again if the node was lost."""
        cluster, profile = self._cluster(instances), self.scenario.profile
        again = profile.recovered * counts.before.sum(axis=0) * cluster.recovering(instances, self.batch)
        out: np.ndarray = (profile.busy_ms(counts) + again) / cluster.speed_of(instances, self.batch)
        return out

    def _cluster(self, instances: int) -> Cluster:
        return self.scenario.cluster or Cluster.of(instances)

    def _work(self, table: RoutingTable, manifest: Manifest) -> Work:
        settings, program = self.settings, program_of(self.spec, table.program)
        tracked = max(settings.strategy.tracked, settings.track)
        return Work(
            spec=self.spec,
            program=program,
            schemas=store_schemas(self.spec, program, self.schemas),
            batch=self.batch,
            start=0,
            trial=1,
            seed=self.scenario.seed,
            table=table,
            masks={},
            runs=manifest.runs,
            sub_windows=sub_window_widths(self.spec, program, settings.sub_window),
            merge_budget=settings.merge_budget,
            pair_limit=settings.pair_limit,
            tracked=tracked,
            watched=watched(self.report.heavy, table) if tracked and self.last else {},
            sampling="codes" if settings.grain is not None else "none",
            grain=settings.grain or USUAL_GRAIN,
            order=self.last.report.order if self.last and self.last.report else (),
        )

    def _line(self, table: RoutingTable, busy: np.ndarray, batch_ms: float, latency: Latency) -> Line:
        commit, strategy, report = self.last, self.settings.strategy, self.report
        assert commit is not None
        assert commit.verdict is not None
        verdict, threshold = commit.verdict, strategy.threshold
        imbalance = verdict.imbalance
        if imbalance is None:
            imbalance = round(strategy.imbalance(items_of(report, table), table), 4)
        bounded = np.isfinite(threshold)
        return Line(
            commit.batch,
            table.instances,
            sum(int(layer.tuples) for layers in self.state.layers for layer in layers),
            imbalance,
            threshold if bounded else None,
            bool(imbalance <= threshold) if bounded else None,
            verdict.sentence,
            commit.migration.tuples if commit.migration else 0,
            verdict.planner_ms,
            len(table.regions),
            len(records(table)),
            round(float(busy.max()), 3),
            round(float(busy.mean()), 3),
            round(batch_ms, 3),
            round(latency.mean_ms, 3),
            round(latency.p99_ms, 3),
            round(latency.throughput, 1),
            report.matches,
            verdict.calls_for_rebalance,
        )


def moving(state: State, old: RoutingTable, new: RoutingTable) -> int:
    """How many stored tuples enter an instance when the table changes, copies counted. Exact for whole keys."""
    some = [np.flatnonzero(total) for total in map(state.total, (0, 1))]
    points = tuple((state.codes[at], state.total(side)[at].astype(np.float64)) for side, at in enumerate(some))
    if is_matrix(old) or is_matrix(new):
        return round(moved_volume(old, new, points))
    total = 0.0
    for side, (codes, weights) in enumerate(points):
        before, after = (table.compiled.region_of_cell[cells_of(table, codes)] for table in (old, new))
        total += float(weights @ entering(old, new, side, before, after))
    return round(total)
