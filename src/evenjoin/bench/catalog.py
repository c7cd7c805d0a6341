"""The workloads of ``evenjoin compare`` by name, from the modules that make them."""

from __future__ import annotations

from evenjoin.bench import bands, skewed, tpch
from evenjoin.bench.join_workload import JoinWorkload, Size
from evenjoin.errors import SpecError

NAMES = (*skewed.NAMES, *tpch.NAMES, *bands.NAMES)


def workload(name: str, size: Size = Size()) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    for module in (tpch, bands):
        if name in module.NAMES:
            return module.workload(name, size)
    try:
        return skewed.workload(name, size)
    except SpecError:
        raise SpecError(f"unknown workload {name!r}; known: {', '.join(NAMES)}") from None
