"""D-JB, as its decisions go: planner (eq. 4) -> s2sm (Alg. 2) -> ism (Alg. 1) -> moves (H1, H2, H3) -> draft."""

from evenjoin.strategies.djb.planner import DJB

__all__ = ["DJB"]
