"""FastJoin (Zhou et al.): keys move from the heaviest unit of a side to its lightest.

Here are the two ways to choose the keys (Algorithms 1 and 3) and the monitors that call for them. The load model is
load/fastjoin.py."""

from evenjoin.strategies.fastjoin.greedyfit import greedy_fit
from evenjoin.strategies.fastjoin.planner import FastJoin
from evenjoin.strategies.fastjoin.safit import Annealing, sa_fit

__all__ = ["Annealing", "FastJoin", "greedy_fit", "sa_fit"]
