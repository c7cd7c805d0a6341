"""Many scenarios, and what each comes to: the tables of planners by instances, skew and mode, over several seeds.

    points(...)  ->  sweep(points, jobs)  ->  a Summary for each point

A point is run once for each seed, and all of its seeds count: none is chosen.
Not here: how a table looks (cli/simulate.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import mean, median
from typing import Any

from evenjoin.errors import SpecError
from evenjoin.sim.floor import floor_of
from evenjoin.sim.scenario import Line, Scenario
from evenjoin.sim.scripted import Scripted
from evenjoin.sim.simulation import Simulation
from evenjoin.sim.stream import Mode, Stream

INSTANCES = (8, 16, 48, 100)
ZIPF = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
MODES: tuple[Mode, ...] = ("stationary", "drifting", "growing")
WARM = 2
"""The first batches, in which the guards let nothing happen, are not judged."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to.

    within       the share of batches within the threshold, the first WARM left out; None without a threshold
    imbalance    the median, and `last` that of the last batch
    floor        the least that the planner could have reached in the last batch; None if everything can be divided
    """

    within: float | None
    rebalances: int
    moved: int
    imbalance: float
    last: float
    floor: float | None
    planner_ms: float
    batch_ms: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What the runs of one point came to, over its seeds: means, but the most of rebalances and planner_ms."""

    strategy: str
    instances: int
    zipf: float
    mode: Mode
    seeds: int
    threshold: float | None
    within: float | None
    rebalances: float
    most_rebalances: int
    moved: float
    imbalance: float
    last: float
    floor: float | None
    planner_ms: float
    batch_ms: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def points(
    base: Scenario, strategies: Sequence[str], instances: Sequence[int] = INSTANCES, zipf: Sequence[float] = ZIPF,
    modes: Sequence[Mode] = MODES,
) -> list[Scenario]:  # fmt: skip
    """Scenarios like `base` for every combination."""
    stream = base.source
    if not isinstance(stream, Stream):
        raise SpecError("a sweep needs a stream that is made up")
    return [
        replace(base, strategy=name, instances=size, source=replace(stream, zipf=(skew, skew), mode=mode))
        for name, mode, size, skew in product(strategies, modes, instances, zipf)
    ]


def sweep(
    scenarios: Sequence[Scenario], seeds: Sequence[int] = (1, 2, 3, 4, 5), jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> Iterator[Summary]:  # fmt: skip
    """The summary of each scenario, in order, over these seeds. `done` is called after each run."""
    runs = [seeded(scenario, seed) for scenario in scenarios for seed in seeds]
    with ProcessPoolExecutor(jobs) if jobs > 1 else _Here() as pool:
        outcomes = iter(pool.map(outcome_of, runs))
        for scenario in scenarios:
            some = []
            for _ in seeds:
                some.append(next(outcomes))
                done()
            yield _summary(scenario, some)


def seeded(scenario: Scenario, seed: int) -> Scenario:
    """The same scenario with another seed of its stream."""
    assert isinstance(scenario.source, (Stream, Scripted))
    return replace(scenario, source=replace(scenario.source, seed=seed), seed=seed)


def run(scenario: Scenario) -> tuple[list[Line], Outcome]:
    """Run a scenario to its end."""
    simulation = Simulation(scenario)
    lines = [simulation.step() for _ in range(scenario.source.batches)]
    floor = floor_of(simulation.settings.strategy, simulation.report, simulation.met)
    return lines, outcome(lines, floor)


def outcome_of(scenario: Scenario) -> Outcome:
    """What a scenario comes to."""
    return run(scenario)[1]


def outcome(lines: Sequence[Line], floor: float | None = None) -> Outcome:
    """What the lines of one run come to."""
    judged = [line for line in lines if line.batch >= WARM] or list(lines)
    within = [line.within for line in judged if line.within is not None]
    return Outcome(
        mean(within) if within else None,
        sum(line.changes for line in lines),
        sum(line.moved for line in lines),
        median(line.imbalance or 0.0 for line in judged),
        lines[-1].imbalance or 0.0,
        floor,
        max((line.planner_ms or 0.0 for line in lines), default=0.0),
        mean(line.batch_ms for line in lines),
    )


def _summary(scenario: Scenario, some: Sequence[Outcome]) -> Summary:
    assert isinstance(scenario.source, Stream)
    settings = Simulation(replace(scenario, source=replace(scenario.source, batches=1))).settings
    threshold = settings.strategy.threshold
    within = [one.within for one in some if one.within is not None]
    floors = [one.floor for one in some if one.floor is not None]
    return Summary(
        settings.strategy.origin,
        scenario.instances,
        scenario.source.zipf[0],
        scenario.source.mode,
        len(some),
        None if threshold == float("inf") else threshold,
        mean(within) if within else None,
        mean(one.rebalances for one in some),
        max(one.rebalances for one in some),
        mean(one.moved for one in some),
        mean(one.imbalance for one in some),
        mean(one.last for one in some),
        mean(floors) if floors else None,
        max(one.planner_ms for one in some),
        mean(one.batch_ms for one in some),
    )


class _Here:
    """A pool of no processes: everything runs here."""

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def map(self, call: Callable[[Scenario], Outcome], runs: Iterable[Scenario]) -> Iterator[Outcome]:
        return map(call, runs)
