"""What is simulated, and what a simulation tells: a scenario, and one line a batch.

A `Scenario` is all that a simulation depends on; a `Line` is what one of its batches came to, for tables and files.
Pure values. Not here: the loop (simulation.py), and what many lines come to (sweep.py).
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, field
from typing import Literal

from evenjoin.errors import SpecError
from evenjoin.placement.table import Layout
from evenjoin.runtime.settings import Asked, Guards, Settings, read_settings
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.cost import MEASURED, Profile
from evenjoin.sim.stream import Source, Stream
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Strategy
from evenjoin.strategies.elastic import Scaling
from evenjoin.strategies.ordered import Ordered


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a simulation depends on.

    source       what arrives
    strategy     as `evenjoin.join` takes it
    scaling      the number of instances follows the state, and `instances` says nothing; None: it is `instances`
    cluster      None: equal nodes of four cores, one core an instance
    trigger_ms   a batch starts at most so often
    """

    source: Source = field(default_factory=Stream)
    strategy: str | Strategy = "fastjoin"
    instances: int = 8
    layout: Layout = "shared"
    guards: Guards = field(default_factory=Guards)
    scaling: Scaling | None = None
    profile: Profile = MEASURED
    cluster: Cluster | None = None
    trigger_ms: float = 1000.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One batch of a simulation.

    imbalance, threshold   by the strategy's own measure; `within`: whether the one is at most the other
    verdict                the monitor's sentence, and `changes`: whether the next batch has another table
    moved                  stored tuples that migrated before the batch
    planner_ms             measured; None if no table was offered
    regions, records       the size of the table, and how many keys have a region of their own
    busy_max, busy_mean    of the instances, in milliseconds
    latency, latency_p99   in milliseconds: of a tuple where each instance is a queue
    throughput             tuples a second that leave the queues
    """

    batch: int
    instances: int
    alive: int
    imbalance: float | None
    threshold: float | None
    within: bool | None
    verdict: str
    moved: int
    planner_ms: float | None
    regions: int
    records: int
    busy_max: float
    busy_mean: float
    batch_ms: float
    latency_ms: float
    latency_p99_ms: float
    throughput: float
    results: int
    changes: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def settings_of(spec: JoinSpec, scenario: Scenario) -> Settings:
    """The settings as the driver reads them. That state grows without end is what is simulated: no warning of it."""
    if len(spec.sides) != 2:
        raise SpecError(f"the simulator knows two sides, not {len(spec.sides)}")
    size: int | Literal["auto"] = scenario.instances if scenario.scaling is None else "auto"
    asked = Asked(scenario.strategy, size, layout=scenario.layout, guards=scenario.guards, scaling=scenario.scaling)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = read_settings(spec, asked)
    if isinstance(settings.strategy, Ordered):
        raise SpecError(f"{settings.strategy.origin} has ordered buckets on a band, which the simulator does not know")
    return settings
