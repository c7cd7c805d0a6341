"""A-DSP: areas of the ordered matrix, each a (varietal) grid of as few tasks as its volume needs."""

from evenjoin.strategies.adsp.planner import Adsp

__all__ = ["Adsp"]
