"""One file or folder per system of the papers. A strategy is an initial table and a planner, nothing else: it moves no
tuple, and it decides on no migration (runtime/rebalance.py does)."""

from evenjoin.strategies.adsp import Adsp
from evenjoin.strategies.auto import Auto
from evenjoin.strategies.base import Strategy, resolve, strategies
from evenjoin.strategies.bistream import ContRand, Hash, Random
from evenjoin.strategies.djb import DJB
from evenjoin.strategies.dynamic import Dynamic
from evenjoin.strategies.fastjoin import FastJoin
from evenjoin.strategies.hypercube import Hypercube
from evenjoin.strategies.lsstream import LsStream
from evenjoin.strategies.readj import Readj
from evenjoin.strategies.square import Square
from evenjoin.strategies.tree import Tree
from evenjoin.strategies.trijoin import TriJoin

__all__ = [
    "DJB",
    "Adsp",
    "Auto",
    "ContRand",
    "Dynamic",
    "FastJoin",
    "Hash",
    "Hypercube",
    "LsStream",
    "Random",
    "Readj",
    "Square",
    "Strategy",
    "Tree",
    "TriJoin",
    "resolve",
    "strategies",
]
