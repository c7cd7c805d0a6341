"""One file per system of the papers. A strategy is an initial table and a planner, nothing else."""

from evenjoin.strategies.base import Strategy, resolve, strategies
from evenjoin.strategies.bistream import ContRand, Hash, Random
from evenjoin.strategies.fastjoin import FastJoin
from evenjoin.strategies.lsstream import LsStream

__all__ = ["ContRand", "FastJoin", "Hash", "LsStream", "Random", "Strategy", "resolve", "strategies"]
