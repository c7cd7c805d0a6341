"""How to run a join: the settings a user writes, checked once for both runtimes.

    evenjoin.join(...) or evenjoin.local(...)  ->  Asked  ->  read_settings  ->  Settings  ->  the driver

`Asked` is what was written ("1 minute", "fastjoin(theta=2)", instances="auto"); `Settings` is what the driver works
with (seconds, a strategy, a number of instances). The settings may differ from one start to the next on the same
checkpoint, unlike the join itself (spec/).

Invariant: whatever can be refused is refused here with a SpecError, before a batch runs. A `Guards` or a `Scaling`
that exists is valid.
Not here: which names there are and what to say about a wrong one (arguments.py); what the guards do (rebalance.py).
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from evenjoin.commit.log import Durability as Durability
from evenjoin.errors import SpecError, UnboundedStateWarning
from evenjoin.load.samples import Grain
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.runtime.dispatch import keeps_together, stated, suits
from evenjoin.spec import JoinSpec, parse_duration
from evenjoin.spec.window import Duration, TimeUnit
from evenjoin.state.files import Folder, LocalFolder
from evenjoin.strategies.adsp import Adsp
from evenjoin.strategies.base import Strategy, for_join, grain_of, resolve, strategies
from evenjoin.strategies.elastic import Scaling, elastic, fixed
from evenjoin.strategies.ordered import Ordered

DEFAULT_INSTANCES = 2
MERGE_BUDGET = 1_000_000
PAIR_LIMIT = 1 << 17
MEMORY_PART = 0.25
"""The part of the machine's memory that the stored tuples of `instances="auto"` may take, if nobody says it."""
T = TypeVar("T")
Execution = Literal["auto", "driver", "executors"]
"""Where the batches of a join on Spark run."""
Step = Callable[[str, int], None]
"""Called with (name of the step, number of the batch or the instance)."""


@dataclass(frozen=True, slots=True)
class Guards:
    """The limits of rebalancing, the same for every strategy.

    cooldown: how many batches after a rebalance, and at the start, no other one is planned.
    min_gain: the part of its load that the heaviest of the changed units must be relieved of. Above 0, it must also be
        more than chance explains of a load that is counted in so few tuples; with 0 any gain is believed.
    min_work: how many tuples and results a batch instances must be relieved of. None is 4 % of those of the median
        instance, so that the limit grows with the stream, and at least 100.
    budget: how many stored tuples may move in one rebalance; None is no limit.
    """

    cooldown: int = 1
    min_gain: float = 0.05
    min_work: float | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        given: dict[str, Any] = {"cooldown": self.cooldown, "min_gain": self.min_gain}
        given |= {name: getattr(self, name) for name in ("min_work", "budget") if getattr(self, name) is not None}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise SpecError(f"{name}={value!r}: a number of at least 0 is needed")


@dataclass(frozen=True, slots=True)
class Hooks:
    """For tests: the clock of the idle timeout, and functions that are called at the steps of a batch. They may raise,
    or kill the process.

    now: the time in seconds.
    step: called by the driver with (name of the step, batch).
    worker_step: called in an instance's task with (name of the step, instance); on Spark it must be picklable.
    """

    now: Callable[[], float] = time.time
    step: Step | None = None
    worker_step: Step | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run a join, as the driver reads it. `idle_timeout` is in seconds; `max_ahead` (`max_event_time_ahead`) and
    `sub_window` are in the unit of event times. `elastic` says that the number of instances follows the state: it
    starts with `instances`, the fewest, and there are never more than `most`. `interval_ms` is the interval at which
    batches are triggered; 0: they follow each other. `grain` says how many points the strategy wants to stand for a
    side; None: it does not look at codes. `execution` says where batches run on Spark; the embedded engine does not
    look at it."""

    strategy: Strategy
    instances: int
    layout: Layout = "shared"
    idle_timeout: float | None = None
    max_ahead: int | None = None
    sub_window: int | None = None
    merge_budget: int = MERGE_BUDGET
    pair_limit: int = PAIR_LIMIT
    guards: Guards = field(default_factory=Guards)
    track: int = 0
    redact_keys: bool = False
    durability: Durability = "fsync"
    elastic: bool = False
    most: int = 0
    interval_ms: float = 0.0
    grain: Grain | None = None
    execution: Execution = "auto"
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def asked(self) -> str:
        """The strategy, size and layout that the user asks for, as text. It is part of each commit. A restart that asks
        for something else begins with another table."""
        return f"{self.strategy.origin} on {'auto' if self.elastic else self.instances}, {self.layout}"

    def differs_in_size_only(self, asked: str) -> bool:
        """Whether a commit that was asked for this had the same strategy and layout."""
        same = rf"{re.escape(self.strategy.origin)} on (auto|\d+), {self.layout}"
        return re.fullmatch(same, asked) is not None

    def size_near(self, instances: int) -> int:
        """The number of instances for a join that has had so many: the fixed one, or the nearest within the limits."""
        return min(max(instances, self.instances), self.most) if self.elastic else self.instances

    @property
    def now(self) -> Callable[[], float]:
        return self.hooks.now

    @property
    def step(self) -> Step | None:
        return self.hooks.step

    @property
    def worker_step(self) -> Step | None:
        return self.hooks.worker_step


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings as the user wrote them. Nothing is checked yet. `evenjoin.join` says what they mean."""

    strategy: str | Strategy | None = None
    instances: int | Literal["auto"] = DEFAULT_INSTANCES
    layout: Layout = "shared"
    guards: Guards | None = None
    scaling: Scaling | None = None
    idle_timeout: Duration | None = None
    max_event_time_ahead: Duration | None = None
    sub_window: Duration | None = None
    merge_budget: int = MERGE_BUDGET
    pair_limit: int = PAIR_LIMIT
    track: int = 0
    redact_keys: bool = False
    durability: Durability = "fsync"
    execution: Execution = "auto"
    hooks: Hooks | None = None


def read_settings(spec: JoinSpec, asked: Asked) -> Settings:
    """Check the settings of a join and make them what the driver reads. Warns of each side whose state nothing bounds.

    Without a strategy it is "auto". Only `evenjoin.join` and `evenjoin.local` may call this, because the warnings point
    at the line that called those.
    """
    scaling = _scaling(spec, asked)
    instances = scaling.min_instances if scaling is not None else _check_whole("instances", asked.instances)
    for name, value in {"merge_budget": asked.merge_budget, "pair_limit": asked.pair_limit}.items():
        _check_whole(name, value)
    if type(asked.track) is not int or asked.track < 0:
        raise SpecError(f"track={asked.track!r}: a whole number of at least 0 is needed")
    if not isinstance(asked.redact_keys, bool):
        raise SpecError(f"redact_keys={asked.redact_keys!r}: use True or False")
    if asked.layout not in ("shared", "split"):
        raise SpecError(f"layout={asked.layout!r}: use 'shared' or 'split'")
    if asked.durability not in ("fsync", "os"):
        raise SpecError(f"durability={asked.durability!r}: use 'fsync' or 'os'")
    if asked.execution not in ("auto", "driver", "executors"):
        raise SpecError(f"execution={asked.execution!r}: use 'auto', 'driver' or 'executors'")
    idle, sub_window = asked.idle_timeout, asked.sub_window
    strategy = _strategy(spec, asked, instances, scaling)
    settings = Settings(
        strategy=strategy,
        instances=instances,
        layout=asked.layout,
        idle_timeout=None if idle is None else parse_duration(idle, "timestamp") / 1e6,
        max_ahead=_max_ahead(spec, asked.max_event_time_ahead),
        sub_window=None if sub_window is None else _check_whole("sub_window", parse_duration(sub_window, _unit(spec))),
        merge_budget=asked.merge_budget,
        pair_limit=asked.pair_limit,
        guards=_value("guards", asked.guards, Guards()),
        track=asked.track,
        redact_keys=asked.redact_keys,
        durability=asked.durability,
        elastic=scaling is not None,
        most=0 if scaling is None else scaling.max_instances,
        grain=grain_of(strategy),
        execution=asked.execution,
        hooks=_value("hooks", asked.hooks, Hooks()),
    )
    _warn_of_growth(spec)
    return settings


def late_policy(late: Any) -> tuple[str, Any]:
    """`late=` as (policy, output): "drop" and "keep" have no output; "side" has a function or a path."""
    if late in ("drop", "keep"):
        return late, None
    if callable(late) or isinstance(late, (str, os.PathLike)):
        return "side", late
    raise SpecError(f"late={late!r}: use 'drop', 'keep', a function or a path for the late rows")


def check_apart(name: str, output: Any, folder: Folder) -> None:
    """Refuse a path for results or late rows that is inside the checkpoint: files there that no commit names are
    deleted."""
    if isinstance(output, (str, os.PathLike)) and isinstance(folder, LocalFolder):
        path, root = (os.path.realpath(os.fspath(p).removeprefix("file:")) for p in (output, folder.root))
        if path == root or path.startswith(f"{root}{os.sep}"):
            what = f"{name}={os.fspath(output)!r}"
            raise SpecError(f"{what} is inside the checkpoint {folder.root}: give it another folder")


def _scaling(spec: JoinSpec, asked: Asked) -> Scaling | None:
    """The limits of `instances="auto"`; None where their number is fixed. What was not said of the room of an instance
    is what this machine has. Without any limits a join starts with as many instances as it has by default."""
    scaling = asked.scaling
    if scaling is not None and not isinstance(scaling, Scaling):
        raise SpecError(f"scaling={scaling!r}: an evenjoin.Scaling(task_capacity=...) is needed")
    if asked.instances != "auto":
        if scaling is not None:
            raise SpecError('scaling=...: only with instances="auto"')
        return None
    if scaling is None:
        scaling = Scaling(min_instances=max(DEFAULT_INSTANCES, len(spec.sides) if asked.layout == "split" else 1))
    if scaling.task_capacity is None and scaling.task_memory is None:
        return replace(scaling, task_memory=MEMORY_PART * machine_memory() / (os.cpu_count() or 1))
    return scaling


def machine_memory() -> int:
    """The bytes of memory of this machine; where it does not say, as much as a small one has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no POSIX system
        return 4 << 30


def _check_whole(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise SpecError(f"{name}={value!r}: a whole number of at least 1 is needed")
    return value


def _max_ahead(spec: JoinSpec, asked: Duration | None) -> int | None:
    if asked is None:
        return None
    if all(side.event_time is None for side in spec.sides):
        raise SpecError(f"max_event_time_ahead={asked!r} compares event times: add event_time=")
    return _check_whole("max_event_time_ahead", parse_duration(asked, _unit(spec)))


def _value(name: str, given: T | None, default: T) -> T:
    """A setting that groups others (`Guards`, `Hooks`), or its default where none was given."""
    if given is None:
        return default
    kind = type(default)
    if not isinstance(given, kind):
        where = "evenjoin.testing" if kind is Hooks else "evenjoin"
        raise SpecError(f"{name}={given!r}: an {where}.{kind.__name__}(...) is needed")
    return given


def _strategy(spec: JoinSpec, asked: Asked, instances: int, scaling: Scaling | None) -> Strategy:
    """The strategy asked for. SpecError if it cannot run this join on so many instances."""
    strategy, layout = asked.strategy, asked.layout
    most = scaling.max_instances if scaling is not None else instances
    chosen = _for_join(spec, resolve(strategy if strategy is not None else _default(spec, asked)), most, layout)
    chosen = fixed(chosen, instances) if scaling is None else elastic(chosen, scaling)
    tables = _initial_tables(spec, chosen, (instances, most), layout)  # refuses now, not later
    if not all(suits(spec, table) for table in tables):
        between = "between the sides" if len(spec.sides) == 2 else "that all sides have in common"
        raise SpecError(
            f"strategy {chosen.origin!r} brings only equal keys together, but the condition has no equality {between}: "
            f"{spec.text}{_use(_suiting(spec, most, layout))}"
        )
    if not all(keeps_together(spec, table) for table in tables):
        raise SpecError(_apart(spec, chosen, most, layout))
    if asked.redact_keys and spec.ordered_codes and isinstance(chosen, (Adsp, Ordered)):
        others = [
            name
            for name in _suiting(spec, most, layout)
            if not isinstance(for_join(resolve(name), spec), (Adsp, Ordered))
        ]
        raise SpecError(
            f"redact_keys=True with strategy {chosen.origin!r}: its tables name the keys between which it cuts the "
            f"range of {spec.text}{_use(others)}"
        )
    return chosen


def _for_join(spec: JoinSpec, chosen: Strategy, instances: int, layout: Layout) -> Strategy:
    """The strategy for this join. If it refuses a join of two sides, the error says what can run it."""
    try:
        return for_join(chosen, spec)
    except SpecError as error:
        if len(spec.sides) > 2:
            raise
        raise SpecError(f"{error}{_use(_suiting(spec, instances, layout))}") from error


def _default(spec: JoinSpec, asked: Asked) -> str:
    """The strategy where none is asked for: `auto`, unless it cannot do what else is asked for. It gives all sides of a
    key one instance, so not in layout 'split'; and areas would name keys, so not where those are redacted."""
    if spec.equal_codes:
        return "auto" if asked.layout == "shared" else "hash"
    if len(spec.sides) == 2 and asked.redact_keys and spec.ordered_codes:
        return "square"
    return "auto"


def _initial_tables(spec: JoinSpec, chosen: Strategy, sizes: Sequence[int], layout: Layout) -> list[RoutingTable]:
    """The tables that a strategy begins with on so many instances. If it refuses to join so many sides, the error says
    what does."""
    try:
        return [chosen.initial(size, len(spec.sides), layout) for size in sizes]
    except SpecError as error:
        if len(spec.sides) == 2:
            raise
        raise SpecError(_apart(spec, chosen, max(sizes), layout, str(error))) from error


def _apart(spec: JoinSpec, chosen: Strategy, instances: int, layout: Layout, why: str = "") -> str:
    """Why a strategy cannot run a join whose combinations must be on one instance, and what can. `why` is what the
    strategy itself says."""
    sides = len(spec.sides)
    if layout == "split" and _needs_shared(spec, chosen, instances):
        return (
            f"layout='split' gives each side instances of its own, but a join of {sides} sides needs all tuples of a "
            "key on one instance: use layout='shared'"
        )
    apart = f"strategy {chosen.origin!r} does not bring all tuples of a combination of {sides} sides to one instance"
    return f"{why or apart}{_use(_suiting(spec, instances, 'shared'))}"


def _needs_shared(spec: JoinSpec, chosen: Strategy, instances: int) -> bool:
    """Whether a strategy can run this join in layout 'shared', and its program needs that."""
    if not _runs(spec, chosen, instances, "shared"):
        return False
    table = for_join(chosen, spec).initial(instances, len(spec.sides), "shared")
    return stated(spec, table).meeting == "together"


def _use(names: Sequence[str]) -> str:
    """The end of a refusal: what to use instead."""
    return f"\n  use one of: {', '.join(names)}" if names else "\n  no strategy can run this join"


def _suiting(spec: JoinSpec, instances: int, layout: Layout) -> list[str]:
    """The names of the strategies that can run this join with their default settings."""
    return [name for name in strategies() if _runs(spec, resolve(name), instances, layout)]


def _runs(spec: JoinSpec, strategy: Strategy, instances: int, layout: Layout) -> bool:
    """Whether a strategy can run this join."""
    try:
        table = for_join(strategy, spec).initial(instances, len(spec.sides), layout)
    except SpecError:
        return False
    return suits(spec, table) and keeps_together(spec, table)


def _unit(spec: JoinSpec) -> TimeUnit:
    """The unit of a duration that is given as a bare number: that of the event times of all sides."""
    types = [side.schema.field(side.event_time).type for side in spec.sides if side.event_time is not None]
    return "integer" if any(map(pa.types.is_integer, types)) else "timestamp"


CALLERS = 5
"""How many frames the warning goes up: _warn_of_growth, read_settings, join or local, the check of its arguments, and
then the user's line."""


def _warn_of_growth(spec: JoinSpec) -> None:
    for alias in spec.unbounded_sides():
        warnings.warn(
            f"nothing bounds the state of side {alias!r}: it will grow without end. "
            "Give event_time= and watermark= for all sides and a time bound in the condition, or a window",
            UnboundedStateWarning,
            stacklevel=CALLERS,
        )
