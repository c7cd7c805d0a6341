"""The embedded engine and the simulator on the same stream: rows are made of the counts that the simulator takes."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

import evenjoin
from evenjoin.runtime import advance as production
from evenjoin.runtime import driver
from evenjoin.sim import Simulation


def rows_of(slices):
    """The rows of a side, one for each tuple; they differ in `v`, so that their positions do."""
    codes = np.concatenate([np.repeat(one.codes, one.counts) for one in slices]) if slices else np.zeros(0, np.int64)
    times = [np.full(one.tuples, one.high) for one in slices]
    return pa.table({"k": codes, "t": np.concatenate(times) if times else np.zeros(0, np.int64)})


@contextmanager
def engine(scenario):
    """The embedded engine for a scenario's stream."""
    stream, spec = scenario.source, scenario.source.spec
    timed = {} if stream.window is None else {"event_time": "t", "watermark": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        join = evenjoin.local(
            {side.alias: side.schema for side in spec.sides}, spec.text, strategy=scenario.strategy,
            instances=scenario.instances, layout=scenario.layout, guards=scenario.guards, select=["r.k"], **timed,
        )  # fmt: skip
    with join:
        yield join


def both(scenario, monkeypatch, decides="each"):
    """Both on every batch: yields (simulated receipts, real receipts, simulated commit, real commit). If the `engine`
    decides, the simulation takes the tables that the engine decided on."""
    seen = []

    def spy(last, work, migration, receipts, settings, clocks):
        seen.append(receipts)
        return production.advance(last, work, migration, receipts, settings, clocks)

    monkeypatch.setattr(driver, "advance", spy)
    monkeypatch.setattr("evenjoin.sim.simulation.advance", spy)
    simulation = Simulation(scenario)
    with engine(scenario) as join:
        for batch in range(scenario.source.batches):
            arrivals = scenario.source.arrivals(batch)
            join.process({"r": rows_of(arrivals[0]), "s": rows_of(arrivals[1])})
            simulation.step()
            yield seen[-1], seen[-2], simulation.last, join._driver.last
            if decides == "engine":
                simulation.table = join.table()
