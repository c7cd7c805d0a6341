"""The skewed workloads are what their papers say: shares, drift, bounded windows, and the same files for a seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from evenjoin.bench.jobs import Job, run_job
from evenjoin.bench.join_workload import OWN, Drift, JoinWorkload, Size
from evenjoin.bench.ride_hailing import ORDERS_SCHEMA, TRACKS_SCHEMA, Day
from evenjoin.bench.skewed import (
    KEYS,
    NAMES,
    RESULTS,
    SPAN_US,
    TASKS,
    SkewedStreams,
    key_of_rank,
    skewed_batch,
    swapped,
    workload,
)
from evenjoin.bench.workloads import EPOCH_US, ZIPF_SCHEMA, zipf_weights
from evenjoin.errors import SpecError
from evenjoin.placement.place import bucket_of
from evenjoin.spec import build_spec


def streams_of(name: str, size: Size = OWN) -> SkewedStreams:
    streams = workload(name, size).streams
    assert isinstance(streams, SkewedStreams)
    return streams


def keys_of(streams: SkewedStreams, side: str, batches: range) -> np.ndarray:
    return np.concatenate([skewed_batch(streams, side, batch)["k"].to_numpy() for batch in batches])


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [("G00", 1 / 16_000, 1 / 16_000), ("G01", 1 / 16_000, 0.0975), ("G21", 0.608, 0.0975), ("G22", 0.608, 0.608)],
)
def test_the_most_frequent_key_has_the_share_of_its_zipf(name: str, left: float, right: float) -> None:
    """Zipf 2 puts 61 % on one key, zipf 1 over 16,000 keys 10 %. x is left, y right."""
    streams = streams_of(name)
    hottest = int(key_of_rank(streams, 0)[0])
    for side, share in (("l", left), ("r", right)):
        keys = keys_of(streams, side, range(3))
        assert np.mean(keys == hottest) == pytest.approx(share, rel=0.05, abs=0.0004)
        if share > 0.01:
            assert np.bincount(keys).argmax() == hottest


def test_every_exponent_has_the_same_keys() -> None:
    """So the skew is the exponent's: the share of the hottest key rises from one workload to the next."""
    names = [f"zipf{z / 10}" for z in (2, 4, 6, 8, 10)]
    assert {streams_of(name).keys for name in (*names, "G00", "G01", "G11", "G22", "drift-zipf1.0")} == {KEYS}
    hottest = [zipf_weights(streams_of(name).keys, streams_of(name).exponents[0])[0] for name in names]
    assert hottest == sorted(hottest)
    assert hottest == pytest.approx([0.00035, 0.0018, 0.0085, 0.034, 0.0975], rel=0.06)


def test_zipf_workloads_follow_their_exponent_on_both_sides() -> None:
    """The first ranks of zipf0.8 have the shares of the law."""
    streams = streams_of("zipf0.8")
    law = zipf_weights(KEYS, 0.8)
    for side in "lr":
        counts = np.bincount(keys_of(streams, side, range(5)), minlength=KEYS)
        assert counts[key_of_rank(streams, 0)[:5]] / counts.sum() == pytest.approx(law[:5], rel=0.08)


def test_the_hot_key_is_another_one_in_every_interval_and_the_same_inside_it() -> None:
    """drift-zipf1.0 with every=3: batches 0-2 agree on the hottest key, 3-5 on another, 6-8 on a third."""
    streams = streams_of("drift-zipf1.0", Size(batches=9, drift=Drift(every=3, f=1.0)))
    for side in "lr":
        hottest = [int(np.bincount(keys_of(streams, side, range(b, b + 1))).argmax()) for b in range(9)]
        assert all(hottest[b] == hottest[b - b % 3] for b in range(9))
        assert len(set(hottest)) == 3


@pytest.mark.parametrize("f", [0.2, 1.0, 1.5, 3.0])
def test_a_task_rises_by_f_with_no_more_swaps_than_that_takes(f: float) -> None:
    """A-DSP 5.5: (L_i(d) - L_(i-1)(d)) / mean >= f for a task d; without the last swap it would be less."""
    keys, shares = np.arange(2000), zipf_weights(2000, 1.0)
    after = swapped(keys, shares, f, np.random.default_rng(1))
    assert sorted(after) == list(range(2000))
    assert after[0] != 0
    assert risen(keys, after, shares) >= f
    last = int(np.flatnonzero(after[:1000] != keys[:1000])[-1])
    other = int(np.flatnonzero(after == last)[0])
    after[[last, other]] = after[[other, last]]
    assert risen(keys, after, shares) < f


def risen(keys: np.ndarray, after: np.ndarray, shares: np.ndarray) -> float:
    """The largest rise of a task's load, in means."""
    old, new = (np.bincount(bucket_of(order, TASKS), shares, TASKS) for order in (keys, after))
    return float((new - old).max() / new.mean())


def test_a_drift_beyond_reach_ends() -> None:
    """No task can rise by 100 means: it takes what its cold keys can, and that is that."""
    after = swapped(np.arange(50), zipf_weights(50, 1.0), 100.0, np.random.default_rng(1))
    assert sorted(after) == list(range(50))
    assert after[0] >= 25


def test_each_batch_covers_its_own_span() -> None:
    """No row is late under any watermark."""
    streams = replace(streams_of("G11"), rows_per_batch=500)
    for batch in range(3):
        ts = skewed_batch(streams, "l", batch)["ts"].cast("int64").to_numpy() - EPOCH_US
        assert batch * SPAN_US <= ts.min()
        assert ts.max() < (batch + 1) * SPAN_US


def test_the_same_seed_gives_the_same_files_and_another_seed_others(tmp_path: Path) -> None:
    """File by file, byte by byte."""
    size = Size(rows=200, batches=3)
    for name in ("G21", "drift-zipf1.0", "ride-hailing"):
        ticks: list[int] = []
        folders = workload(name, size).write(tmp_path / f"{name}-a", lambda ticks=ticks: ticks.append(1))
        again = workload(name, size).write(tmp_path / f"{name}-b")
        other = workload(name, replace(size, seed=8)).write(tmp_path / f"{name}-c")
        assert len(ticks) == 6
        for alias, folder in folders.items():
            files = sorted(path.name for path in folder.iterdir())
            assert len(files) == 3
            for file in files:
                assert (folder / file).read_bytes() == (again[alias] / file).read_bytes()
            assert pq.read_table(folder) != pq.read_table(other[alias])


@pytest.mark.parametrize("name", NAMES)
def test_every_workload_is_a_join_whose_state_is_bounded(name: str) -> None:
    """The engine accepts condition, select and watermark, and would drop old tuples of both sides."""
    found = workload(name)
    schemas = (ORDERS_SCHEMA, TRACKS_SCHEMA) if isinstance(found.streams, Day) else (ZIPF_SCHEMA, ZIPF_SCHEMA)
    sides = dict(zip(found.aliases, schemas, strict=True))
    spec = build_spec(
        sides, found.condition, event_time="ts", watermark=found.watermark, select=list(found.select)
    )  # fmt: skip
    assert not spec.unbounded_sides()
    assert max(abs(spec.edges[0].low or 0), abs(spec.edges[0].high or 0)) == found.reach_us


def test_a_batch_gives_about_as_many_results_as_promised(tmp_path: Path) -> None:
    """The window makes up for the skew: G22 and zipf0.8 both give 2M a batch. DuckDB's slices lose nothing."""
    for name in ("G22", "zipf0.8"):
        found = workload(name, Size(batches=4))
        job = duckdb_job(found, tmp_path / name)
        results = run_job(job, tmp_path).results
        assert results / 4 == pytest.approx(RESULTS, rel=0.15)
    small = duckdb_job(workload("zipf1.0", Size(rows=500, batches=4)), tmp_path / "small")
    assert run_job(small, tmp_path).results == run_job(replace(small, reach_us=0), tmp_path).results > 0


def duckdb_job(found: JoinWorkload, folder: Path) -> Job:
    sides = {alias: str(path) for alias, path in found.write(folder).items()}
    return Job("duckdb", sides, found.condition, found.select, "", 2, 8, reach_us=found.reach_us)


@pytest.mark.parametrize("name", ["G33", "zipf", "drift-G11", "zipf1.0 ", ""])
def test_an_unknown_workload_is_told_with_the_known_ones(name: str) -> None:
    """The message lists what there is."""
    with pytest.raises(SpecError, match=r"known: ride-hailing, G00"):
        workload(name)
