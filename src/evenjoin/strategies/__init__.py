"""One file per system of the papers. A strategy is an initial table and a planner, nothing else."""

from evenjoin.strategies.base import Strategy, resolve, strategies
from evenjoin.strategies.bistream import ContRand, Hash, Random

__all__ = ["ContRand", "Hash", "Random", "Strategy", "resolve", "strategies"]
