"""A-DSP: the ordered matrix is covered with areas, and each area is a (varietal) grid of as few tasks as its volume
needs. planner.py says in which order the other files are used. The cost model and the matrix are load/adsp.py."""

from evenjoin.strategies.adsp.planner import Adsp

__all__ = ["Adsp"]
