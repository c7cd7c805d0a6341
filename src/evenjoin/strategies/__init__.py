"""One file per system of the papers. A strategy is an initial table and a planner, nothing else."""

from evenjoin.strategies.base import Strategy, resolve, strategies
from evenjoin.strategies.bistream import ContRand, Hash, Random
from evenjoin.strategies.djb import DJB
from evenjoin.strategies.fastjoin import FastJoin
from evenjoin.strategies.lsstream import LsStream
from evenjoin.strategies.readj import Readj

__all__ = ["DJB", "ContRand", "FastJoin", "Hash", "LsStream", "Random", "Readj", "Strategy", "resolve", "strategies"]
