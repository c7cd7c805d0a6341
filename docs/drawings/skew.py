"""Skew: how much of a stream its hottest keys are, what hash placement makes of it, and a hot key that is divided."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from keyed import STREAM, arriving, bars
from matplotlib import pyplot
from matplotlib.figure import Figure

from evenjoin.bench.workloads import zipf_weights
from evenjoin.placement.table import RoutingTable
from evenjoin.sim import Scenario, Simulation, Stream
from evenjoin.strategies import resolve

KEYS = 100_000
COLOURS = ("#9ecae1", "#4292c6", "#08519c", "#d94801", "#8c2d04")


def shares() -> Figure:
    """The share of the hottest keys, by the exponent of zipf."""
    figure, axes = pyplot.subplots(figsize=(5.2, 2.8))
    for exponent, colour in zip((0.4, 0.6, 0.8, 1.0, 1.2), COLOURS, strict=True):
        weights = np.sort(zipf_weights(KEYS, exponent))[::-1]
        axes.plot(np.arange(1, KEYS + 1), np.cumsum(weights) / weights.sum(), color=colour, label=f"zipf {exponent}")
    axes.set_xscale("log")
    axes.set_xlabel(f"the hottest keys, of {KEYS:,}")
    axes.set_ylabel("share of the stream")
    axes.legend(fontsize=8, frameon=False)
    axes.grid(alpha=0.25)
    return figure


def by_hash() -> Figure:
    """The fullest instance over the mean, by hash, on more and more instances."""
    figure, axes = pyplot.subplots(figsize=(5.2, 2.8))
    sizes = (2, 4, 8, 16, 32, 64, 128)
    for exponent, colour in zip((0.4, 0.6, 0.8, 1.0, 1.2), COLOURS, strict=True):
        stream = Stream(keys=KEYS, rows=(100_000, 100_000), zipf=(exponent, exponent), batches=2)
        ratios = [fullest(resolve("hash").initial(size, 2, "shared"), stream) for size in sizes]
        axes.plot(sizes, ratios, marker="o", markersize=3, color=colour, label=f"zipf {exponent}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_yticks((1, 2, 4, 8, 16, 32), ("1", "2", "4", "8", "16", "32"))
    axes.set_xlabel("instances")
    axes.set_ylabel("fullest instance / mean")
    axes.legend(fontsize=8, frameon=False)
    axes.grid(alpha=0.25)
    return figure


def fullest(table: RoutingTable, stream: Stream) -> float:
    counts = arriving(table, stream).sum(axis=1)
    return float(counts.max() / counts.mean())


def over_batches() -> Figure:
    """A hot key appears: how busy each of sixteen instances is, batch by batch, with hash and with djb."""
    stream = Stream(keys=10_000, rows=(50_000, 50_000), zipf=(1.0, 1.0), batches=16)
    figure, panels = pyplot.subplots(1, 2, figsize=(8, 3), sharey=True)
    times = {strategy: busy(strategy, stream) for strategy in ("hash", "djb")}
    most = max(float(found.max()) for found in times.values())
    for axes, (strategy, found) in zip(panels, times.items(), strict=True):
        shown = axes.imshow(found.T, aspect="auto", cmap="magma_r", vmin=0, vmax=most, interpolation="nearest")
        axes.set_title(strategy, fontsize=9)
        axes.set_xlabel("batch")
    panels[0].set_ylabel("instance")
    figure.colorbar(shown, ax=panels, label="busy, ms")
    return figure


def busy(strategy: str, stream: Stream) -> np.ndarray:
    """[batches, instances] the milliseconds that each instance is busy."""
    simulation = Simulation(Scenario(source=stream, strategy=strategy, instances=16))
    rows = []
    for _ in range(stream.batches):
        simulation.step()
        rows.append([load.busy_ms for load in simulation.report.instances])
    return np.array(rows)


def one_hot_key() -> Figure:
    """The hash table of the drawings of keyed.py, by itself."""
    figure, axes = pyplot.subplots(figsize=(3.6, 2.6))
    bars(axes, resolve("hash").initial(4, 2, "shared"), "four instances, by hash")
    axes.set_ylabel(f"of {int(sum(STREAM.rows)):,} tuples a batch")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "shares": shares,
    "by-hash": by_hash,
    "over-batches": over_batches,
    "one-hot-key": one_hot_key,
}
