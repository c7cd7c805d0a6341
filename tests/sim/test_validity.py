"""The simulator against the embedded engine, on the same rows: receipts, reports and verdicts, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest

from evenjoin import Guards
from evenjoin.sim import Scenario, Stream
from sim.alike import both

EAGER = Guards(min_work=0)
SMALL = {"keys": 60, "rows": (1200, 700), "batches": 5}

WHOLE = {
    "hash, shared": Scenario(Stream(**SMALL), "hash", 4),
    "hash, split": Scenario(Stream(**SMALL), "hash", 5, layout="split"),
    "fastjoin, which rebalances": Scenario(Stream(**SMALL, zipf=(1.0, 1.0)), "fastjoin(theta=1.5)", 5, guards=EAGER),
    "fastjoin, split, windowed": Scenario(
        Stream(**SMALL, window=2), "fastjoin(theta=1.5)", 5, layout="split", guards=EAGER
    ),
    "lsstream, windowed, other orders": Scenario(Stream(**SMALL, window=1, order="own"), "lsstream", 4, guards=EAGER),
    "readj, drifting": Scenario(Stream(**SMALL, mode="drifting", every=2), "readj", 4, guards=EAGER),
}


@pytest.mark.parametrize("scenario", WHOLE.values(), ids=WHOLE)
def test_receipts_are_equal_where_no_key_is_divided(scenario, monkeypatch):
    """Counts per instance, cell and heavy key, what is stored and what expires: all equal, rebalances included."""
    for mine, real, simulated, committed in both(scenario, monkeypatch):
        for one, other in zip(mine, real, strict=True):
            for name in ("stored", "probes", "results", "messages", "cells"):
                assert getattr(one, name) == getattr(other, name), (one.batch, one.instance, name)
            assert [_counts(key) for key in one.heavy] == [_counts(key) for key in other.heavy]
            assert [i.rows for i in one.intake] == [0, 0] or [i.rows for i in one.intake] == _rows(real)
        for one, other in zip(simulated.report.instances, committed.report.instances, strict=True):
            assert one.stored == other.stored
        assert simulated.report.expired == committed.report.expired
        assert simulated.watermark.value == committed.watermark.value


VERDICTS = ("fastjoin, which rebalances", "fastjoin, split, windowed", "readj, drifting")


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_and_tables_are_the_same_batch_by_batch(name, monkeypatch):
    """Planners that go by counts decide alike, and at least one of these runs rebalances."""
    moves = 0
    for _, _, simulated, committed in both(WHOLE[name], monkeypatch):
        assert (simulated.verdict.imbalance, simulated.verdict.sentence) == (
            committed.verdict.imbalance, committed.verdict.sentence,
        )  # fmt: skip
        assert simulated.next_table == committed.next_table
        if committed.migration is not None:
            assert simulated.migration.tuples == committed.migration.tuples
            moves += 1
    assert moves or name != "fastjoin, which rebalances"


DIVIDED = {
    "djb with a split key": Scenario(Stream(**SMALL, zipf=(1.5, 1.5)), "djb(theta_max=0.3)", 5, guards=EAGER),
    "adsp, which makes areas": Scenario(
        Stream(keys=400, rows=(1500, 1500), zipf=(0.2, 0.2), band=(-2, 2), batches=5),
        "adsp(task_capacity=2500)",
        4,
        guards=EAGER,
    ),
    "random": Scenario(Stream(**SMALL), "random", 4),
    "random, a band": Scenario(Stream(**SMALL, band=(-2, 1)), "random", 4),
    "square grid": Scenario(Stream(**SMALL), "square(task_capacity=100000,least=6)", 6),
    "square grid, windowed band": Scenario(
        Stream(**SMALL, band=(-1, 3), window=1), "square(task_capacity=100000,least=4)", 4
    ),
}


@pytest.mark.parametrize("scenario", DIVIDED.values(), ids=DIVIDED)
def test_divided_keys_have_what_is_expected_of_them(scenario, monkeypatch):
    """Under the engine's tables, whatever it decides, all results are there, each once. What an instance has of them is
    within the chance of `u`, and what all have of a cell is exact."""
    for mine, real, simulated, committed in both(scenario, monkeypatch, decides="engine"):
        assert simulated.table == committed.table
        for name in ("stored", "probes", "results", "messages"):
            one, other = (np.array([getattr(receipt, name) for receipt in some]) for some in (mine, real))
            if name == "results" or (name == "stored" and "adsp" not in scenario.strategy):  # its copies vary with u
                assert one.sum(axis=0).tolist() == other.sum(axis=0).tolist(), name
            spread = np.sqrt(other.sum(axis=0)) if name != "results" else other.sum(axis=0) * 0.04
            assert (np.abs(one - other) <= 4 * spread + 5).all(), (name, one.tolist(), other.tolist())
        stored = [_cells(receipts, 3) for receipts in (mine, real)]
        assert stored[0] == (
            stored[1] if "adsp" not in scenario.strategy else pytest.approx(stored[1], rel=0.2, abs=20)
        )


def test_areas_store_copies_and_find_every_result_once(monkeypatch):
    """A-DSP changes its scheme by samples, which are other ones here; results and copies are those of its own table."""
    scenario = Scenario(
        Stream(keys=400, rows=(1500, 1500), zipf=(0.2, 0.2), band=(-2, 2), batches=5), "adsp(task_capacity=2500)", 4,
        guards=EAGER,
    )  # fmt: skip
    ranged = 0
    for mine, real, simulated, _ in both(scenario, monkeypatch):
        assert _total(mine, "results") == _total(real, "results")
        ranged += "ranges" in str(simulated.report.cells) or len({cell[1] for cell in simulated.report.cells}) > 1
    assert ranged, "the premise: areas came to be"


def _total(receipts, name):
    return np.sum([getattr(receipt, name) for receipt in receipts], axis=0).tolist()


def _cells(receipts, column):
    """By (side, cell) what all instances stored of it."""
    out: dict[tuple[int, int], int] = {}
    for receipt in receipts:
        for cell in receipt.cells:
            out[cell[:2]] = out.get(cell[:2], 0) + cell[column]
    return out


def _counts(key):
    return key.code, key.arrived, key.probed, key.stored, key.results


def _rows(receipts):
    return np.sum([[i.rows for i in receipt.intake] for receipt in receipts if receipt.intake], axis=0).tolist()
