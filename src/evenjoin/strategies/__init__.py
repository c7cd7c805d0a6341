"""One file per system of the papers. A strategy is an initial table and a planner, nothing else."""

from evenjoin.strategies.base import Strategy, resolve, strategies
from evenjoin.strategies.bistream import ContRand, Hash, Random
from evenjoin.strategies.fastjoin import FastJoin

__all__ = ["ContRand", "FastJoin", "Hash", "Random", "Strategy", "resolve", "strategies"]
