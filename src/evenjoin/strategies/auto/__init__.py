"""`auto`, the default strategy: the table that saves most time, made when it repays itself."""

from evenjoin.strategies.auto.planner import Auto

__all__ = ["Auto"]
