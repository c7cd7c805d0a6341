"""The TPC-H and band workloads are what they say, and every strategy that sizes itself answers them as DuckDB does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.bench import bands, tpch
from evenjoin.bench.bands import EACH, RATIOS
from evenjoin.bench.catalog import NAMES, workload
from evenjoin.bench.compare import Plan, fewest, job_of, read_trace
from evenjoin.bench.jobs import Job
from evenjoin.bench.join_workload import JoinWorkload, Size
from evenjoin.bench.peers import run_duckdb
from evenjoin.errors import SpecError

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SMALL = {"Band": Size(12_000, 4), "Q3": Size(6_000, 4), "Q5": Size(5_000, 4), "stock": Size(3_000, 4)}


def sides_of(found: JoinWorkload) -> dict[str, list]:
    return {alias: list(found.streams.side(number)) for number, alias in enumerate(found.aliases)}


Answered = tuple[JoinWorkload, dict[str, str], int]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Answered]:
    """A small workload by name, the folders of its sides, and how many results DuckDB finds; made once for all."""

    @cache
    def ask(name: str) -> Answered:
        found = workload(name, SMALL.get(name, Size(800, 4)))
        written = found.write(tmp_path_factory.mktemp(name.replace("/", "-")))
        folders = {alias: str(path) for alias, path in written.items()}
        return found, folders, run_duckdb(Job("duckdb", folders, found.condition, found.select, "", 2, 1)).results

    return ask


@pytest.mark.parametrize("name", [*tpch.NAMES, *bands.NAMES])
@pytest.mark.parametrize(
    "strategy", ["adsp", *(pytest.param(s, marks=pytest.mark.slow) for s in ("square", "dynamic"))]
)
def test_every_strategy_answers_as_duckdb_does(
    name: str, strategy: str, answered: Callable[[str], Answered], tmp_path: Path
) -> None:
    """With tasks so small that schemes change on the way, on a small workload."""
    found, folders, expected = answered(name)
    plan = Plan(found, (strategy,), 1, tmp_path)
    sides = sides_of(found)
    rows = sum(table.num_rows for tables in sides.values() for table in tables)
    options = job_of(plan, strategy, folders, tmp_path).options
    assert options.scaling is not None
    times = {"event_time": found.event_time, "watermark": found.watermark} if found.event_time else {}
    schemas = {alias: tables[0].schema for alias, tables in sides.items()}
    checkpoint = str(tmp_path / "ck")
    with evenjoin.local(
        schemas,
        found.condition,
        select=list(found.select),
        strategy=strategy,
        checkpoint=checkpoint,
        instances="auto",
        guards=options.guards,
        scaling=replace(options.scaling, task_capacity=rows / 8, max_instances=32),
        track=options.track,
        **times,
    ) as join:
        results = sum(join.process({a: t[b] for a, t in sides.items()}).num_rows for b in range(found.batches))
    assert results == expected > 0
    trace = read_trace(checkpoint, strategy, (strategy,))
    assert len(trace.tasks) == len(trace.requests) == len(trace.stored) == found.batches
    assert trace.alive[-1] <= 1.01 * rows  # rounded
    if name in ("E_Q5", "B_MR", "social", "ratio"):
        assert trace.tasks[0] == 1 < max(trace.tasks)
        assert trace.migrations


@pytest.mark.parametrize(("name", "key"), [("E_Q5", "suppkey"), ("B_NCI", "orderkey")])
def test_the_join_attribute_follows_zipf(name: str, key: str) -> None:
    """The most frequent key has the share of zipf 1 over as many keys as the table it refers to has."""
    found = workload(name, Size(20_000, 2))
    assert isinstance(found.streams, tpch.TpchStreams)
    drawn = np.concatenate([table[key].to_numpy() for table in found.streams.side(1)])
    there = tpch.tpch_table("supplier" if key == "suppkey" else "orders", found.streams.scale)[key].to_numpy()
    assert np.isin(drawn, there).all()
    _, counts = np.unique(drawn, return_counts=True)
    assert counts.max() / len(drawn) == pytest.approx(1 / np.sum(1 / np.arange(1, len(there) + 1)), rel=0.1)


def test_both_sides_of_a_band_have_the_same_hot_keys() -> None:
    found = workload("B_NCI", Size(20_000, 1))
    hottest = []
    for number in (0, 1):
        values, counts = np.unique(next(found.streams.side(number))["orderkey"].to_numpy(), return_counts=True)
        hottest.append(values[counts.argmax()])
    assert hottest[0] == hottest[1]


@pytest.mark.parametrize("name", ["Band", "B_NCI", "B_MR"])
def test_a_band_is_a_self_join(name: str) -> None:
    """Both sides are the same lineitems, batch by batch. Band has D-JB's clause on the quantity, of the left one."""
    found = workload(name, Size(2_000, 2))
    assert list(found.streams.side(0)) == list(found.streams.side(1))
    assert ("a.quantity > 48" in found.condition) == (name == "Band")


def test_q5_has_the_nations_of_customers_and_suppliers() -> None:
    """The orders have the nation and region of their customer, the lineitems the nation of their supplier."""
    found = workload("Q5", Size(2_000, 2))
    assert isinstance(found.streams, tpch.TpchStreams)
    scale, (orders, lines) = found.streams.scale, (pa.concat_tables(found.streams.side(n)) for n in (0, 1))
    suppliers, customers = (tpch.tpch_table(name, scale) for name in ("supplier", "customer"))
    for table, whose, key in ((lines, suppliers, "suppkey"), (orders, customers, "custkey")):
        nation = dict(zip(whose[key].to_pylist(), whose["nationkey"].to_pylist(), strict=True))
        assert [nation[one] for one in table[key].to_pylist()] == table["nationkey"].to_pylist()
    assert len(set(orders["nation"].to_pylist())) == 25
    assert len(set(orders["region"].to_pylist())) == 5


def test_every_lineitem_has_its_supplier() -> None:
    """The supplier's side is all suppliers, with nation and region by name."""
    found = workload("E_Q5", Size(3_000, 3))
    sides = sides_of(found)
    suppliers = np.concatenate([table["suppkey"].to_numpy() for table in sides["s"]])
    assert len(set(suppliers)) == len(suppliers)
    assert set(np.concatenate([table["suppkey"].to_numpy() for table in sides["l"]])) <= set(suppliers)
    assert {value.as_py() for table in sides["s"] for value in table["region"]} <= {
        "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST",
    }  # fmt: skip


def test_the_ratio_changes_and_the_volume_does_not() -> None:
    """|R| / |S| is 1, 2, 4, 8, ... for a few batches each; R and S together stay the same."""
    sides = sides_of(workload("ratio"))
    rows = np.array([[table.num_rows for table in tables] for tables in sides.values()])
    assert (rows.sum(axis=0) == rows.sum(axis=0)[0]).all()
    assert (rows[0] / rows[1])[::EACH][: len(RATIOS)] == pytest.approx(RATIOS, rel=0.01)


def test_the_same_seed_gives_the_same_batches() -> None:
    for name in (*tpch.NAMES, *bands.NAMES):
        one, two, other = (sides_of(workload(name, Size(300, 2, seed))) for seed in (7, 7, 8))
        assert one == two != other


@pytest.mark.parametrize(("strategy", "least"), [("random", 1), ("adsp", 1), ("contrand(groups=6)", 6)])
def test_a_strategy_starts_with_the_fewest_instances_it_can(strategy: str, least: int) -> None:
    assert fewest(workload("ratio"), strategy) == least


def test_the_catalog_knows_all() -> None:
    assert {"ride-hailing", "E_Q5", "stock"} <= set(NAMES)
    assert len(set(NAMES)) == len(NAMES)
    with pytest.raises(SpecError, match=r"unknown workload 'Q4'; known: ride-hailing, .*ratio-all"):
        workload("Q4")
