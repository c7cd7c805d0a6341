"""What a strategy is, and the registry of their names.

A strategy is a frozen value with pure functions:

    initial(instances, sides, layout) -> table             where tuples live before anything is known
    load(items, table)                -> [k, instances]    the paper's load of each unit (NaN: no such unit)
    imbalance(items, table)           -> number            how uneven that is, by the paper's own measure
    plan(report, items, table)        -> table | Stay      a better table for the load seen, or why there is none

and three constants:

    threshold    the bound that its imbalance is to stay within
    alert        the imbalance above which a plan is called for; infinite: never, there is no planner
    tracked      how many heavy keys each instance reports to it; 0: none, and stored tuples need not be counted

A strategy that looks at codes also has a constant `grain`: how many points stand for a side (load/samples.py). One that
balances neither stored tuples nor work may have a method `balanced(items)`: the counts of items that a hand-over to
another number of instances divides evenly (handover.py).

`items` are the report's load as the pieces a table can place (load/items.py), so `load` and `imbalance` can be asked of
any table.

A plan is called for once the threshold is crossed, as in the papers. If it just met the threshold, then the next
batch, which is a little different, would cross it again. So planners have an `aim`, a part of the threshold that plans
are made for. With an `aim` of 1 they are made for the threshold itself, as the papers' are.

    even  . . . . . . aim * threshold . . . . . . threshold = alert
                      plans are made for this     and called for here

Guarantee: a strategy has no clock, no files, and no randomness but from a seed. The same report and table give the
same plan. Planners only suggest. Not here: the check of the table, the guards (cool-down, gain, budget) and the
migration (runtime/rebalance.py, runtime/driver.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from math import inf
from typing import Any, Protocol, runtime_checkable

from evenjoin.errors import SpecError
from evenjoin.events import Migration
from evenjoin.load.items import F64, Items, work_by_instance
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import Grain
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec


@dataclass(frozen=True, slots=True)
class Stay:
    """A planner's answer that there is no better table. `why` is a sentence for people; it becomes the verdict."""

    why: str


@dataclass(frozen=True, slots=True)
class Past:
    """What a strategy that weighs is told of earlier batches: the memory that it gave after the last one (JSON; None at
    the start), and the migration that was made before this one."""

    memory: dict[str, Any] | None = None
    migration: Migration | None = None


NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class Limits:
    """What the guards allow: how many stored tuples may move (None: any number), and whether a change must wait because
    the last one, or the start, was just before."""

    budget: int | None = None
    cooling: bool = False


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a strategy that weighs decided after a batch: the table to use next (None: the same), what it wants to be
    told after the next batch (JSON), how uneven the load is, the decision in words, and how uneven it would be under
    the table that it has in mind, and how many stored tuples would move for it. `key` is the one that the words
    name."""

    table: RoutingTable | None
    memory: dict[str, Any]
    imbalance: float
    sentence: str
    forecast: float | None = None
    moves: int | None = None
    key: str = ""


@runtime_checkable
class Weighing(Protocol):
    """A strategy that remembers. It decides by itself whether a change is worth its price, so of the guards only its
    limits hold for it."""

    def weigh(self, report: LoadReport, items: Items, table: RoutingTable, past: Past, limits: Limits) -> Weighed: ...


Plan = RoutingTable | Stay | None
"""What a planner suggests; None is a Stay that has nothing to say."""


@runtime_checkable
class Strategy(Protocol):
    """An initial table and a planner."""

    @property
    def origin(self) -> str:
        """Name and settings that shape the initial table, e.g. `contrand(groups=6)`."""
        ...

    @property
    def threshold(self) -> float: ...

    @property
    def alert(self) -> float: ...

    @property
    def tracked(self) -> int: ...

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable: ...

    def load(self, items: Items, table: RoutingTable) -> F64: ...

    def imbalance(self, items: Items, table: RoutingTable) -> float: ...

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan: ...


class Static:
    """What a strategy without a planner inherits. Its load is the work of each instance, its imbalance the busiest over
    the mean; nothing calls for a plan."""

    __slots__ = ()

    @property
    def threshold(self) -> float:
        return inf

    @property
    def alert(self) -> float:
        return inf

    @property
    def tracked(self) -> int:
        return 0

    def load(self, items: Items, table: RoutingTable) -> F64:
        return work_by_instance(items, table)[None, :]

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        work = self.load(items, table)[0]
        return float(work.max() / work.mean()) if work.any() else 1.0

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        return None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What plans are made for, and what calls for them. The imbalance is `even` at best; `aim` is the part of the way
    from there to the threshold."""

    threshold: float
    aim: float
    even: float = 0.0

    @property
    def goal(self) -> float:
        """The imbalance that plans are made for."""
        return self.even + self.aim * (self.threshold - self.even)

    @property
    def alert(self) -> float:
        """The imbalance above which a plan is called for: the threshold. A lower one was tried, half way from the aim.
        It kept a few more batches within the threshold, and made up to three times as many rebalances."""
        return self.threshold


def for_join(strategy: Strategy, spec: JoinSpec) -> Strategy:
    """The strategy for this join. One whose tables depend on the graph of the join has a method `for_join` that returns
    a copy of itself which knows it, or refuses the join with a SpecError."""
    fit: Callable[[JoinSpec], Strategy] | None = getattr(strategy, "for_join", None)
    return strategy if fit is None else fit(spec)


def grain_of(strategy: Strategy) -> Grain | None:
    """How many points a strategy wants to stand for a side; None if it does not look at codes. What changes the size of
    another strategy (elastic.py) wants what that one wants."""
    found: Grain | None = getattr(strategy, "grain", None) or getattr(getattr(strategy, "inner", None), "grain", None)
    return found


def require(strategy: object, wanted: dict[str, tuple[str, bool]]) -> None:
    """Refuse settings that make no sense. `wanted` maps each setting to (requirement as text, is it satisfied?)."""
    who = type(strategy).__name__.lower()
    for name, (what, fine) in wanted.items():
        if not fine:
            raise SpecError(f"{who}: {name} must be {what}, not {getattr(strategy, name)!r}")


_REGISTRY: dict[str, Callable[..., Strategy]] = {}


def register(name: str) -> Callable[[type], type]:
    """Class decorator: make a strategy known under its name. A setting that it does not have, or a value of the wrong
    type, is then a SpecError, where Python would raise a bare TypeError."""

    def add(cls: type) -> type:
        original, known = cls.__init__, list(inspect.signature(cls).parameters)  # type: ignore[misc]

        @wraps(original)
        def checked(self: object, *args: Any, **settings: Any) -> None:
            _check_known(name, known, settings)
            try:
                original(self, *args, **settings)
            except TypeError as error:
                raise SpecError(f"{name}: {error}; its settings are {', '.join(known) or 'none'}") from error

        cls.__init__ = checked  # type: ignore[misc]
        _REGISTRY[name] = cls
        return cls

    return add


def strategies() -> tuple[str, ...]:
    """The names that `strategy=` takes."""
    return tuple(sorted(_REGISTRY))


def resolve(strategy: str | Strategy) -> Strategy:
    """The strategy of a name, with settings or without ("hash", "contrand(groups=6)"). A Strategy is returned as it
    is."""
    if not isinstance(strategy, str):
        if isinstance(strategy, type) or not isinstance(strategy, Strategy):
            kind = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
            raise SpecError(f"strategy must be a name or a Strategy, not {kind}")
        return strategy
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", strategy)
    if match is None or match[1] not in _REGISTRY:
        raise SpecError(f"unknown strategy {strategy!r}; known: {', '.join(strategies())}")
    settings: dict[str, Any] = {}
    for part in filter(None, (match[2] or "").split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise SpecError(f"strategy {strategy!r}: write settings as name=value")
        settings[name.strip()] = _literal(value.strip())
    try:
        return _REGISTRY[match[1]](**settings)
    except SpecError as error:
        raise SpecError(f"strategy {strategy!r}: {error}") from error.__cause__


def _check_known(name: str, known: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse a setting that the strategy of this name does not have, and say which ones it has."""
    for setting in settings:
        if setting not in known:
            near = get_close_matches(setting, known, n=1)
            meant = f" did you mean {near[0]!r}?" if near else ""
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise SpecError(f"{name} has no setting {setting!r};{meant} {has}")


def _literal(text: str) -> bool | int | float | str:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")


def halves(instances: int, sides: int, layout: Layout) -> tuple[tuple[int, ...], ...]:
    """The instances that host units of each side: all of them (shared), or disjoint groups (split)."""
    everyone = tuple(range(instances))
    if layout == "shared":
        return (everyone,) * sides
    if instances < sides:
        raise SpecError(f"layout 'split' needs at least one instance per side: {sides}, got {instances}")
    cuts = [round(i * instances / sides) for i in range(sides + 1)]
    return tuple(everyone[cuts[i] : cuts[i + 1]] for i in range(sides))
