"""Lines, outcomes, floors and sweeps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from evenjoin import Guards, Scaling
from evenjoin.errors import SpecError
from evenjoin.sim import Scenario, Simulation, Stream, simulate
from evenjoin.sim.against_best import Point, cluster, main
from evenjoin.sim.sweep import Summary, outcome, points, run, seeded, sweep
from evenjoin.sim.tables import markdown

SMALL = Stream(keys=500, rows=(3000, 3000), batches=5)


def timeless(lines):
    return [replace(line, planner_ms=None) for line in lines]


def test_the_same_scenario_gives_the_same_lines():
    """But for the planner's time, which is measured."""
    scenario = Scenario(replace(SMALL, zipf=(1.1, 1.1), mode="drifting", every=2), "djb", 6, guards=Guards(min_work=0))
    assert timeless(simulate(scenario)) == timeless(simulate(scenario))
    assert timeless(simulate(scenario)) != timeless(simulate(seeded(scenario, 2)))


def test_a_line_tells_what_happened():
    """As a value and as JSON."""
    lines = list(simulate(Scenario(replace(SMALL, zipf=(0.9, 0.9)), "fastjoin", 6, guards=Guards(min_work=0))))
    assert [line.batch for line in lines] == [0, 1, 2, 3, 4]
    assert lines[1].verdict == "rebalance"
    assert lines[2].moved > 0
    assert lines[2].records > 0
    assert json.loads(lines[2].to_json())["moved"] == lines[2].moved
    assert lines[-1].alive == pytest.approx(30_000, rel=0.05)


def test_a_static_strategy_has_an_imbalance_but_no_threshold():
    """Its own measure: the busiest over the mean."""
    line = list(simulate(Scenario(SMALL, "hash", 4)))[-1]
    assert (line.threshold, line.within) == (None, None)
    assert line.imbalance > 1


@pytest.mark.parametrize("strategy", ["fastjoin", "readj", "lsstream"])
def test_a_key_that_cannot_be_divided_sets_a_floor(strategy):
    """One key with most of the tuples: nobody comes below it; D-JB splits it and has none."""
    scenario = Scenario(replace(SMALL, zipf=(2.5, 2.5)), strategy, 8, guards=Guards(min_work=0))
    lines, found = run(scenario)
    assert found.floor > lines[-1].threshold
    assert found.last >= found.floor * 0.95
    assert run(replace(scenario, strategy="djb"))[1].floor is None


def test_where_keys_are_alike_the_floor_is_low():
    """Below the threshold, so that the planner has no excuse."""
    assert run(Scenario(replace(SMALL, zipf=(0.0, 0.0)), "fastjoin", 4))[1].floor < 1.5


def test_a_sweep_runs_every_point_on_every_seed():
    """And gives one summary a point, in order."""
    base = Scenario(replace(SMALL, batches=4))
    scenarios = points(base, ["hash", "fastjoin"], [2, 4], [0.5], ["stationary"])
    ticks = []
    found = list(sweep(scenarios, (1, 2), done=lambda: ticks.append(1)))
    assert [(one.strategy, one.instances, one.seeds) for one in found] == [
        ("hash", 2, 2), ("hash", 4, 2), ("fastjoin", 2, 2), ("fastjoin", 4, 2),
    ]  # fmt: skip
    assert len(ticks) == 8
    alone = [outcome(list(simulate(seeded(scenarios[3], seed)))) for seed in (1, 2)]
    assert found[3].rebalances == sum(one.rebalances for one in alone) / 2
    assert found[3].within == sum(one.within for one in alone) / 2


def test_growth_changes_the_number_of_tasks():
    """Square has more tasks as volumes grow, and what it copies is counted as moved."""
    stream = replace(SMALL, mode="growing", growth=1.5, batches=6)
    lines = list(simulate(Scenario(stream, "square", scaling=Scaling(4000, 4))))
    assert lines[-1].instances > 4
    assert sum(line.moved for line in lines) > 0


def test_windows_keep_the_state_bounded():
    """Two batches back, and the one that just came."""
    lines = list(simulate(Scenario(replace(SMALL, window=1, batches=6), "lsstream", 4)))
    assert lines[-1].alive < 2.2 * 6000


def test_three_sides_are_refused():
    """And so is a strategy that makes cubes."""
    with pytest.raises(SpecError, match="no batch was simulated"):
        _ = Simulation(Scenario(SMALL)).report


def test_the_number_of_instances_follows_the_state():
    """An elastic strategy has more instances as tuples come in; every change of size is a migration."""
    scenario = Scenario(SMALL, "fastjoin", scaling=Scaling(task_capacity=4000), guards=Guards(min_work=0))
    lines = list(simulate(scenario))
    assert lines[0].instances == 1
    assert lines[-1].instances >= 6
    assert all(line.moved for line, before in zip(lines[1:], lines, strict=False) if line.instances > before.instances)


def test_a_sweep_is_a_table_in_markdown():
    """The floor is named only where it is above the threshold, and a strategy without one has no share."""
    told = Summary("djb", 8, 0.4, "stationary", 2, 0.2, 0.975, 0.5, 1, 12_345.0, 0.071, 0.1, None, 3.0, 100.0)
    floor = replace(told, zipf=1.2, within=0.0, floor=2.936, moved=0.0, imbalance=1234.5)
    plain = replace(told, strategy="hash", threshold=None, within=None, most_rebalances=0, moved=0.0)
    assert markdown([told, floor, plain]).splitlines() == [
        "**`djb`: imbalance at most 0.2**, stationary, 2 seeds",
        "",
        "| instances | zipf 0.4 | zipf 1.2 |",
        "|---|---|---|",
        "| 8 | 98 %, 1, 12k, 0.07 | 0 %, 1, 0, 1,234.50 (floor 2.94) |",
        "",
        "**`hash`**, stationary, 2 seeds",
        "",
        "| instances | zipf 0.4 |",
        "|---|---|",
        "| 8 | 0, 0, 0.07 |",
    ]


def test_auto_is_compared_with_the_strategy_that_is_best_over_all_seeds():
    """Not with another one for each seed; and the worst seed is told."""
    point = Point("zipf 1 stationary", 8, 2, {"hash": (10.0, 30.0), "djb": (12.0, 14.0), "auto": (12.0, 15.4)}, (0, 1))
    assert point.best == "djb"
    assert point.over("djb") == (pytest.approx(27.4 / 26), pytest.approx(1.1))
    assert [cluster(cores).size for cores in (2, 4, 12, 25, 100)] == [2, 4, 12, 25, 100]


def test_auto_against_the_best_runs_a_stream_on_both_clusters(tmp_path):
    """As many cores as instances, and a quarter; every strategy and seed is in the file."""
    out = tmp_path / "best.json"
    small = [
        "--stream",
        "zipf 1.4",
        "--instances",
        "4",
        "--rows",
        "500",
        "--keys",
        "50",
        "--batches",
        "4",
        "--seeds",
        "2",
        "--out",
        str(out),
    ]
    found = CliRunner().invoke(main, small)
    assert found.exit_code == 0, found.output
    points = json.loads(out.read_text())
    assert {(point["instances"], point["cores"]) for point in points} == {(4, 4), (4, 2)}
    assert all(len(ms) == 2 and min(ms) > 0 for point in points for ms in point["batch_ms"].values())
    assert f"{len(points)} points, auto / best at most" in found.output
