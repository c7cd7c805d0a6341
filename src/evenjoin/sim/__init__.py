"""The cluster simulator: the production tables, planners, guards and load report under virtual time."""

from evenjoin.sim.scenario import Line, Scenario
from evenjoin.sim.scripted import Scripted
from evenjoin.sim.simulation import Simulation, simulate
from evenjoin.sim.stream import Stream

__all__ = ["Line", "Scenario", "Scripted", "Simulation", "Stream", "simulate"]
