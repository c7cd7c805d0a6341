"""D-JB: hash partitioning that moves keys and splits the hot ones. Read the files in the order of its decisions:
planner (eq. 4) -> s2sm (Alg. 2) -> ism (Alg. 1) -> moves (H1, H2, H3) -> draft (with division and index), and together
for three and more sides.
The load model is load/djb.py."""

from evenjoin.strategies.djb.planner import DJB

__all__ = ["DJB"]
