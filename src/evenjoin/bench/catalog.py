"""The workloads of ``evenjoin compare`` by name, from the modules that make them.

Invariant: a name means one workload, and what no module knows is refused with all the names there are.
"""

from __future__ import annotations

from evenjoin.bench import bands, city, scripts, skewed, three_keys, tpch, trijoin
from evenjoin.bench.join_workload import OWN, JoinWorkload, Size
from evenjoin.errors import SpecError

NAMES = (*skewed.NAMES, *scripts.NAMES, *city.NAMES, *tpch.NAMES, *bands.NAMES, *trijoin.NAMES, *three_keys.NAMES)


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    if name.partition("(")[0] in trijoin.NAMES:
        return trijoin.workload(name, size)
    if name in scripts.NAMES:
        return scripts.workload(name, size)
    if name in tpch.NAMES:
        return tpch.workload(name, size)
    if name in city.NAMES:
        return city.workload(name, size)
    if name in bands.NAMES:
        return bands.workload(name, size)
    if name in three_keys.NAMES:
        return three_keys.workload(name, size)
    try:
        return skewed.workload(name, size)
    except SpecError:
        raise SpecError(f"unknown workload {name!r}; known: {', '.join(NAMES)}") from None
