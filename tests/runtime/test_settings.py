"""The settings of a join: listed by name, refused when wrong, and a name that is nearly right is recognised."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import fields

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.runtime.settings import Asked, Settings, read_settings
from evenjoin.spec import build_spec
from evenjoin.testing import Hooks

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
SIDES = {"l": SCHEMA, "r": SCHEMA}
ON = "l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"
TIMES = {"event_time": "t", "watermark": 5}
FRONT_DOORS = [evenjoin.local, evenjoin.join]


@pytest.mark.parametrize("function", FRONT_DOORS, ids=lambda f: f.__name__)
def test_every_setting_is_an_argument_with_a_type(function):
    """No `**settings`: what can be set is in the signature, and so in `help` and in editors."""
    parameters = inspect.signature(function).parameters
    assert all(p.kind is not p.VAR_KEYWORD and p.annotation is not p.empty for p in parameters.values())
    spark_only = set() if function is evenjoin.join else {"execution"}  # embedded, every batch runs in this process
    assert {field.name for field in fields(Asked)} - spark_only <= set(parameters)
    shown = pydoc.render_doc(function)
    assert all(f"{name}: " in shown for name in parameters)


def test_help_explains_every_setting():
    """`help(evenjoin.join)` has a line for each, which `evenjoin.local` refers to."""
    explained = evenjoin.join.__doc__.split("\n\n", 1)[1]
    starts = [line.split(": ")[0] for line in explained.splitlines() if ": " in line]
    named = {name.strip() for start in starts for name in start.split(",")}
    assert set(inspect.signature(evenjoin.join).parameters) - {"sides"} <= named
    assert "`evenjoin.join`" in evenjoin.local.__doc__


def test_both_runtimes_have_the_same_settings():
    """Same names, types and defaults, but for what differs between the runtimes."""
    local, spark = ({n: (p.annotation, p.default) for n, p in inspect.signature(f).parameters.items()}
                    for f in FRONT_DOORS)  # fmt: skip
    assert set(local) - set(spark) == {"schemas", "checkpoint", "output", "partition_by", "time_zone"}
    assert set(spark) - set(local) == {"sides", "execution"}
    differ = {"instances", "late", "on", "select"}  # on Spark Column objects are taken as well
    assert {name for name in set(local) & set(spark) if local[name] != spark[name]} == differ


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("instnaces", "'instances'"),
        ("watermark_polcy", "'watermark_policy'"),
        ("guard", "'guards'"),
        ("colldown", "'guards=evenjoin.Guards(cooldown=...)'"),
        ("min_work", "'guards=evenjoin.Guards(min_work=...)'"),
        ("task_capacity", "'scaling=evenjoin.Scaling(task_capacity=...)'"),
        ("max_instance", "'scaling=evenjoin.Scaling(max_instances=...)'"),
        ("worker_step", "'hooks=evenjoin.testing.Hooks(worker_step=...)'"),
    ],
)
@pytest.mark.parametrize("function", FRONT_DOORS, ids=lambda f: f.__name__)
def test_a_misspelt_argument_is_told_where_it_lives(function, name, meant):
    """The nearest name is suggested as it has to be written."""
    with pytest.raises(SpecError) as caught:
        function(SIDES, ON, **{name: 3})
    assert str(caught.value) == f"unknown argument {name!r}: did you mean {meant}?"


def test_an_argument_like_no_other():
    """Where nothing is near, all names are listed."""
    with pytest.raises(SpecError, match=r"unknown argument 'xyzzy'; known: schemas, on, .*guards, scaling.*checkpoint"):
        evenjoin.local(SIDES, ON, xyzzy=3)


def test_arguments_that_are_missing_or_too_many_are_still_a_type_error():
    """Python says so itself."""
    with pytest.raises(TypeError, match="missing"):
        evenjoin.local(SIDES)
    with pytest.raises(TypeError, match="positional"):
        evenjoin.local(SIDES, ON, "inner")


@pytest.mark.parametrize(
    ("guards", "says"),
    [
        ({"cooldown": -1}, "cooldown=-1: a number of at least 0 is needed"),
        ({"min_gain": "much"}, "min_gain='much': a number"),
        ({"min_work": float("nan")}, "min_work=nan: a number"),
        ({"min_work": True}, "min_work=True: a number"),
        ({"budget": -0.5}, "budget=-0.5: a number"),
        ({"cooldown": None}, "cooldown=None: a number"),
    ],
    ids=str,
)
def test_wrong_guards(guards, says):
    """A `Guards` that exists is valid; only the budget may be None."""
    with pytest.raises(SpecError, match=says):
        evenjoin.Guards(**guards)
    assert evenjoin.Guards(budget=None) == evenjoin.Guards()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"guards": {"cooldown": 3}}, r"guards={'cooldown': 3}: an evenjoin.Guards\(...\) is needed"),
        ({"hooks": print}, r"an evenjoin.testing.Hooks\(...\) is needed"),
        ({"scaling": 100, "instances": "auto"}, r"scaling=100: an evenjoin.Scaling\(task_capacity=...\) is needed"),
    ],
    ids=str,
)
def test_a_group_of_settings_is_a_value_of_its_kind(settings, says):
    """A dictionary or a number is refused, not guessed at."""
    with pytest.raises(SpecError, match=says):
        evenjoin.local(SIDES, ON, **TIMES, **settings)


def test_what_is_asked_becomes_what_the_driver_works_with():
    """Texts are read, the grouped values passed on, and everything not asked for has the default of `Settings`."""
    spec, hooks = build_spec(SIDES, ON, **TIMES), Hooks(now=lambda: 3.0)
    asked = Asked("random", 3, guards=evenjoin.Guards(cooldown=4), idle_timeout="1 minute", sub_window=7, hooks=hooks)
    found = read_settings(spec, asked)
    assert (found.strategy.origin, found.instances, found.elastic) == ("random", 3, False)
    assert (found.guards.cooldown, found.idle_timeout, found.sub_window) == (4, 60.0, 7)
    assert (found.now, found.step, found.worker_step) == (hooks.now, hooks.step, hooks.worker_step)
    assert read_settings(spec, Asked(found.strategy, 2)) == Settings(found.strategy, 2)


def test_an_elastic_join_starts_small():
    """`instances="auto"` starts with the fewest, and the strategy is one that follows the state."""
    spec = build_spec(SIDES, ON, **TIMES)
    found = read_settings(spec, Asked("hash", "auto", scaling=evenjoin.Scaling(100, min_instances=3)))
    assert (found.instances, found.elastic, found.strategy.scaling.task_capacity) == (3, True, 100)


def test_auto_without_limits_has_those_of_the_machine(monkeypatch):
    """A quarter of its memory, shared by its cores; what the user says of the room counts instead."""
    spec = build_spec(SIDES, ON, **TIMES)
    monkeypatch.setattr("evenjoin.runtime.settings.machine_memory", lambda: 8_000)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    found = read_settings(spec, Asked("hash", "auto"))
    assert (found.instances, found.elastic, found.strategy.scaling.task_memory) == (2, True, 500)
    said = read_settings(spec, Asked("hash", "auto", scaling=evenjoin.Scaling(100)))
    assert said.strategy.scaling.task_memory is None
    sized = read_settings(spec, Asked("adsp", "auto")).strategy
    assert (sized.task_capacity, sized.unit, sized.least) == (500, "bytes", 2)
    monkeypatch.undo()
    assert read_settings(spec, Asked("hash", "auto")).strategy.scaling.task_memory > 1 << 20


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"track": -1}, "track=-1"), ({"track": "5"}, "track='5'"), ({"track": True}, "track=True"),
        ({"redact_keys": "no"}, "redact_keys='no'"), ({"sub_window": 0}, "sub_window=0"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_is_refused_before_anything_runs(setting, says):
    """With its name and value."""
    with pytest.raises(SpecError, match=says):
        evenjoin.local(SIDES, ON, **TIMES, **setting)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_capacity": True},
        {"task_memory": 0},
        {"task_memory": "a"},
        {"task_capacity": float("inf")},
        {"scale_in": "a"},
        {"scale_in": None},
        {"scale_to": "a"},
    ],
    ids=str,
)
def test_wrong_scaling(wrong):
    """Numbers are numbers: neither text, nor a truth value, nor infinite."""
    with pytest.raises(SpecError, match=next(iter(wrong))):
        evenjoin.Scaling(**{"task_capacity": 5, **wrong})


@pytest.mark.parametrize("strategy", ["hash", "fastjoin", "lsstream"])
def test_a_strategy_that_will_separate_keys_is_refused_although_it_starts_on_one_instance(strategy):
    """A single instance takes everything, but the join would scale out to tables that lose results."""
    with pytest.raises(SpecError, match=r"brings only equal keys together.*\n.*use one of: .*random"):
        evenjoin.local(
            SIDES, "l.k < r.k", strategy=strategy, instances="auto", scaling=evenjoin.Scaling(task_capacity=20)
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
@pytest.mark.parametrize("on", ["l.k < r.k", "l.k <> r.k", "l.k + r.t > 5", "true", "abs(l.k - r.k) <= 2"])
@pytest.mark.parametrize("strategy", evenjoin.strategies.strategies())
def test_with_instances_auto_a_join_runs_as_it_grows_or_is_refused_with_one_that_does(strategy, on):
    """Without an equality a strategy either joins on every number of instances, or is refused at definition; what the
    refusal names instead is not refused."""
    options = {"instances": "auto", "scaling": evenjoin.Scaling(task_capacity=9, max_instances=6),
               "guards": evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)}  # fmt: skip
    every = {alias: pa.table({"k": [1, 2, 3, 4, 5], "t": [1, 1, 2, 3, 5]}, SCHEMA) for alias in SIDES}
    try:
        join = evenjoin.local(SIDES, on, strategy=strategy, **options)
    except SpecError as error:
        other = str(error).partition("use one of: ")[2].split(", ")
        assert len(other) > 3
        for name in other:
            evenjoin.local(SIDES, on, strategy=name, **options).close()
        return
    with join, evenjoin.local(SIDES, on, strategy="random", instances=1) as plain:
        for _ in range(3):
            assert join.process(every).num_rows == plain.process(every).num_rows
        assert join.table().instances > 1
