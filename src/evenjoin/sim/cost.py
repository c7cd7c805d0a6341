"""What a batch costs: two profiles, which turn counts into milliseconds.

`MEASURED` is this engine's: an instance sorts what it takes in, and a probe is a binary search. Its busy time is linear
in features of its receipt; the time of a batch is what its tasks take on the cluster, and what dispatch takes.

    busy_ms  = constant + taken * tuples taken in + probed * sum of probes * log2(stored) + found * results
    batch_ms = fixed + stretch * makespan of the busy times + shared / cores
    shared   = per_instance * instances + row * rows + out * results

What is handed to the sink is work of its own (`out`): Spark's processes take every result over.

`PAPERS` is the papers' engines': a probe compares a tuple with everything that is stored for it on the instance,
|R_i| * phi_i comparisons (FastJoin eq. 1), and nothing waits for a batch.

Not guaranteed: that a profile holds on another machine. `fit` makes one from the commits of real runs. MEASURED is that
of five runs on Spark with two cores; on seven others the time of all batches was off by 3 to 19 %, and the imbalance by
0 to 3 % (``python -m evenjoin.sim.against_spark``). PAPERS has orders of magnitude, not measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from evenjoin.commit.log import Commit
from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.counting import Counts


@dataclass(frozen=True, slots=True)
class Profile:
    """Coefficients in milliseconds a piece.

    probe          "sorted": a probe costs log2 of what is stored; "scan": all of it
    constant, taken, probed, found       of an instance's busy time
    fixed, per_instance, stretch, row, out    of a batch; `row` is of a row read, `out` of a result
    pause                                of a migration, whatever moves
    moved, recovered                     of a tuple that migrates, and of one that is read again after a loss
    place_us, receive_us                 microseconds to place a row, and to take a message in; the latter are part of
                                         the busy time already, and are told apart because planners weigh them
    """

    name: str
    probe: Literal["sorted", "scan"]
    constant: float
    taken: float
    probed: float
    found: float
    fixed: float = 0.0
    per_instance: float = 0.0
    stretch: float = 1.0
    row: float = 0.0
    out: float = 0.0
    pause: float = 0.0
    moved: float = 0.001
    recovered: float = 0.0005
    place_us: float = 0.05
    receive_us: float = 0.1

    def busy_ms(self, counts: Counts) -> F64:
        """[instances] The busy time of each instance at speed 1."""
        return self.busy_of(features(counts.messages, counts.probes, counts.results, counts.held, self.probe))

    def busy_of(self, columns: F64) -> F64:
        """[instances] The same of features [instances, 4]."""
        out: F64 = columns @ np.array([self.constant, self.taken, self.probed, self.found])
        return out

    def batch_ms(self, busy_ms: F64, rows: int, results: int, cluster: Cluster, order: I64 | None = None) -> float:
        """How long a batch takes whose instances are busy for so long, on their own nodes, started in this order."""
        shared = self.per_instance * len(busy_ms) + self.row * rows + self.out * results
        return self.fixed + shared / cluster.size + self.stretch * cluster.makespan(busy_ms, order)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


MEASURED = Profile(
    "measured", "sorted", 16.2, 1.15e-4, 2.45e-7, 1.47e-5, fixed=135.8, per_instance=0.0, stretch=3.78, row=2.35e-4,
    out=3.59e-5, pause=150.0, place_us=0.044, receive_us=0.125,
)  # fmt: skip
PAPERS = Profile("papers", "scan", 0.0, 0.002, 0.000001, 0.0001, moved=0.01)
PROFILES = {profile.name: profile for profile in (MEASURED, PAPERS)}


def features(messages: I64, probes: I64, results: I64, held: I64, probe: Literal["sorted", "scan"]) -> F64:
    """[instances, 4] What busy time is linear in: 1, tuples taken in, probes by their cost, results. The arguments are
    [2, instances]; tuples of one side probe what is held of the other."""
    stored = held[::-1]
    each = np.log2(stored + 2.0) if probe == "sorted" else stored.astype(np.float64)
    return np.column_stack(
        [np.ones(held.shape[1]), messages.sum(axis=0), (probes * each).sum(axis=0), results.sum(axis=0)]
    )


@dataclass(frozen=True, slots=True)
class Observed:
    """What one real batch showed: features [instances, 4], busy times [instances], rows read, its duration, and how
    long it takes to place a row and to take in a tuple (0: not measured); and the order in which its tasks started
    (None: that of instances)."""

    columns: F64
    busy_ms: F64
    rows: int
    duration_ms: float
    place_us: float = 0.0
    receive_us: float = 0.0
    order: I64 | None = None


def observed(commits: Iterable[Commit], skip: int = 2) -> list[Observed]:
    """What the commits of a real run of two sides showed, without its first batches and those with a migration."""
    out: list[Observed] = []
    last: LoadReport | None = None
    for commit in commits:
        before, last = last, commit.report
        if commit.report is not None and commit.batch >= skip and commit.migration is None:
            report = commit.report
            rows = sum(intake.rows for intake in report.intake)
            busy = np.array([load.busy_ms for load in report.instances])
            times = commit.duration_ms, report.hash_us, report.transfer_us
            order = np.array(before.order) if before is not None and len(before.order) == len(busy) else None
            out.append(Observed(_columns(report.instances), busy, rows, *times, order))
    return out


def _columns(loads: Sequence[InstanceLoad]) -> F64:
    messages, probes, results, stored = (
        np.array([getattr(load, name) for load in loads], np.int64).T
        for name in ("messages", "probes", "results", "stored")
    )
    return features(messages, probes, results, stored, "sorted")


def fit(runs: Sequence[tuple[Sequence[Observed], Cluster]], like: Profile = MEASURED) -> Profile:
    """The profile that explains these runs best: first the busy times of instances, then the durations of batches from
    the busy times that were measured. Both by least squares with coefficients that are not negative; batches count by
    relative error."""
    every = [batch for batches, _ in runs for batch in batches]
    if not every:
        raise SpecError("a profile is fitted on at least one batch")
    constant, taken, probed, found = non_negative(
        np.concatenate([batch.columns for batch in every]), np.concatenate([batch.busy_ms for batch in every])
    )
    columns, durations = [], []
    for batches, cluster in runs:
        for batch in batches:
            share = len(batch.busy_ms) / cluster.size
            rows, results = batch.rows / cluster.size, batch.columns[:, 3].sum() / cluster.size
            columns.append([1.0, share, cluster.makespan(batch.busy_ms, batch.order), rows, results])
            durations.append(batch.duration_ms)
    wanted = np.array(durations)
    fixed, per_instance, stretch, row, out = non_negative(np.array(columns) / wanted[:, None], np.ones(len(wanted)))
    place, receive = ([getattr(batch, name) for batch in every] for name in ("place_us", "receive_us"))
    return replace(
        like, place_us=_known(place, like.place_us), receive_us=_known(receive, like.receive_us),
        constant=constant, taken=taken, probed=probed, found=found,
        fixed=fixed, per_instance=per_instance, stretch=stretch, row=row, out=out,
    )  # fmt: skip


def _known(measured: Sequence[float], otherwise: float) -> float:
    """The median of what was measured at all."""
    some = [value for value in measured if value > 0]
    return float(np.median(some)) if some else otherwise


def non_negative(columns: F64, wanted: F64) -> list[float]:
    """Least squares with coefficients of at least 0. For so few columns it is found by trying which of them are 0: the
    optimum is the unconstrained one of the columns that are not."""
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-12)
    scaled, many = columns / scale, columns.shape[1]
    best, least = np.zeros(many), float((wanted**2).sum())
    for size in range(1, many + 1):
        for some in combinations(range(many), size):
            found = np.linalg.lstsq(scaled[:, some], wanted, rcond=None)[0]
            error = float(((scaled[:, some] @ found - wanted) ** 2).sum())
            if (found >= 0).all() and error < least - 1e-12 * abs(least):
                best, least = np.zeros(many), error
                best[list(some)] = found
    return [float(value) for value in best / scale]
