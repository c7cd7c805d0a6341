"""Strategies for any condition: the matrix of all pairs of two streams, and the instance at which each pair meets.

A row is a tuple of r and a column one of s. A pair has the colour of the instance where the one is stored and the other
probes, by `place`; it is white where they never meet. Grids do not look at keys, so their tuples are drawn in the order
of `u`, by which they are placed. Areas do: there tuples are in the order of their keys, and the pairs between the two
lines are those that the band allows to match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenjoin import Scaling
from evenjoin.placement.place import At, place
from evenjoin.placement.slots import Role
from evenjoin.placement.table import RoutingTable
from evenjoin.sim import Scenario, Simulation, Stream

KEYS, BAND, TUPLES = 400, 10, 240
STREAM = Stream(keys=KEYS, rows=(1000, 1000), zipf=(0.0, 0.0), band=(-BAND, BAND), batches=6)
Order = Literal["key", "u"]
ROOM = Scaling(task_capacity=3000, max_instances=64)


def simulated(strategy: str) -> RoutingTable:
    """The table of a strategy after six batches, on as many tasks as it takes."""
    simulation = Simulation(Scenario(source=STREAM, strategy=strategy, scaling=ROOM))
    for _ in range(STREAM.batches):
        simulation.step()
    return simulation.table


def held(table: RoutingTable, side: int, codes: np.ndarray, role: Role, by: Order) -> np.ndarray:
    """[tuples, instances]: whether a tuple has a role at an instance."""
    u = np.random.default_rng(side).integers(0, 2**32, len(codes), dtype=np.uint32)
    order = np.lexsort((u, codes) if by == "key" else (codes, u))
    sent = place(table, side, At(codes[order], u[order])).only(role)
    out = np.zeros((len(codes), table.instances), bool)
    out[sent.row, sent.instance] = True
    return out


def matrix(axes: Axes, table: RoutingTable, title: str, by: Order) -> None:
    """Every pair in the colour of the instance where it meets."""
    known = STREAM.codes()
    codes = np.sort(np.random.default_rng(5).choice(known, TUPLES))
    stores, probes = held(table, 0, codes, Role.STORE, by), held(table, 1, codes, Role.PROBE, by)
    meets = stores[:, None, :] & probes[None, :, :]
    where = np.where(meets.any(axis=2), meets.argmax(axis=2), -1).astype(float)
    where[where < 0] = np.nan
    shuffled = np.random.default_rng(3).permutation(table.instances)
    colours = np.where(np.isnan(where), np.nan, shuffled[np.nan_to_num(where).astype(int)])
    axes.imshow(colours, cmap="tab20", interpolation="nearest", vmin=0, vmax=max(table.instances - 1, 1))
    low, high = (np.searchsorted(codes, codes + shift) for shift in (-BAND, BAND + 1))
    for edge in (low, high) if by == "key" else ():
        axes.plot(edge - 0.5, np.arange(TUPLES), color="black", linewidth=1)
    copies = sum(held(table, side, codes, Role.STORE, by).sum() for side in (0, 1)) / (2 * TUPLES)
    axes.set_title(f"{title}\n{table.instances} tasks, each tuple kept {copies:.1f} times", fontsize=9)
    axes.set_xlim(-0.5, TUPLES - 0.5)
    axes.set_ylim(TUPLES - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(f"s, by {by}")
    axes.set_ylabel(f"r, by {by}")


def bands() -> Figure:
    """The three matrix schemes on the same stream."""
    figure, panels = pyplot.subplots(1, 3, figsize=(9, 3))
    orders: dict[str, Order] = {"square": "u", "dynamic": "u", "adsp": "key"}
    for axes, (strategy, by) in zip(panels, orders.items(), strict=True):
        matrix(axes, simulated(strategy), strategy, by)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {"bands": bands}
