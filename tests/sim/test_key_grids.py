"""Keys that are divided by Grids: the simulator counts what the engine counts, under the same tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenjoin.placement import check
from evenjoin.placement.topology import Grid
from evenjoin.sim import Scenario, Stream
from evenjoin.strategies import Auto
from evenjoin.strategies.edit import Edit
from evenjoin.testing import Fixed
from sim.alike import both

STREAM = Stream(keys=60, rows=(1500, 900), zipf=(1.2, 1.2), batches=5)
GRIDS = {
    "a line": Grid(4, 1, (0, 1, 2, 3)),
    "a line by weight": Grid(1, 2, (3, 1), divisions=((), ((0, 2**31 + 2**30), (1, 2**30)), ())),
    "both ways": Grid(2, 2, (0, 2, 1, 3)),
}


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_the_simulator_counts_a_divided_key_as_the_engine_does(grid, window, monkeypatch):
    """Results, tuples stored, probes and messages of all instances are equal; of one they are within chance; what
    migrates when the key is divided and merged back is about the same."""
    stream = replace(STREAM, window=window)
    home = Auto().initial(4, 2, "shared")
    hot = int(stream.codes()[stream.weights(0, 0).argmax()])
    edit = Edit(home)
    edit.place_key(hot, grid)
    divided = check(edit.table())
    first = home if window is None else divided  # rows that agree in their times have one position while none is split
    tables = (first, divided, divided, replace(home, version=2), replace(home, version=2))
    scenario = Scenario(stream, Fixed(tables), 4)
    moved = []
    for mine, real, simulated, committed in both(scenario, monkeypatch, decides="engine"):
        assert simulated.table == committed.table
        for name in ("stored", "probes", "results", "messages"):
            one, other = (np.array([getattr(receipt, name) for receipt in some]) for some in (mine, real))
            assert one.sum(axis=0).tolist() == other.sum(axis=0).tolist(), name
            spread = np.sqrt(other.sum(axis=0)) if name != "results" else other.sum(axis=0) * 0.04
            assert (np.abs(one - other) <= 4 * spread + 5).all(), (name, one.tolist(), other.tolist())
        for one, other in zip(simulated.report.instances, committed.report.instances, strict=True):
            assert np.abs(np.subtract(one.stored, other.stored)).max() <= 4 * np.sqrt(max(other.stored)) + 5
        if committed.migration is not None:
            moved.append((simulated.migration.tuples, committed.migration.tuples))
    assert len(moved) == (2 if window is None else 1), "the premise: divided, and merged back"
    for mine, real in moved:
        assert mine == pytest.approx(real, abs=4 * np.sqrt(real) + 5)
