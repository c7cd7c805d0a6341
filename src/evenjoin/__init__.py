"""EvenJoin: skew-aware, adaptive stream joins for PySpark.

    joined = evenjoin.join({"o": orders, "t": tracks}, on="o.cell = t.cell", strategy="hash", instances=8)
    query = joined.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ck").start()

`join` runs on Spark; `local` runs the same join in this process.

A name is loaded when it is first asked for. So importing this package does not load pyspark, and a Spark task, which
imports a few modules below it, loads neither the strategies nor the parser of conditions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenjoin import errors
from evenjoin.errors import (
    CheckpointInUseError,
    CheckpointMismatchError,
    ConditionError,
    EvenJoinError,
    SpecError,
    StateCorruptionError,
    UnboundedStateWarning,
)
from evenjoin.version import VERSION

if TYPE_CHECKING:
    from evenjoin import strategies
    from evenjoin.api import local
    from evenjoin.runtime.settings import Guards
    from evenjoin.runtime.spark.files import parquet
    from evenjoin.runtime.spark.join import join
    from evenjoin.runtime.spark.session import tune
    from evenjoin.runtime.watch import progress
    from evenjoin.spec import sliding, tumbling
    from evenjoin.strategies.elastic import Scaling

__version__ = VERSION

__all__ = [
    "CheckpointInUseError",
    "CheckpointMismatchError",
    "ConditionError",
    "EvenJoinError",
    "Guards",
    "Scaling",
    "SpecError",
    "StateCorruptionError",
    "UnboundedStateWarning",
    "errors",
    "join",
    "local",
    "parquet",
    "progress",
    "sliding",
    "strategies",
    "tumbling",
    "tune",
]

_LOADED_LATER = {
    "Guards": "evenjoin.runtime.settings",
    "Scaling": "evenjoin.strategies.elastic",
    "join": "evenjoin.runtime.spark.join",
    "local": "evenjoin.api",
    "parquet": "evenjoin.runtime.spark.files",
    "progress": "evenjoin.runtime.watch",
    "sliding": "evenjoin.spec",
    "tumbling": "evenjoin.spec",
    "tune": "evenjoin.runtime.spark.session",
}
"""The module that each of these names is in."""


def __getattr__(name: str) -> Any:
    """Load a name that was not asked for before. From then on it is an attribute like any other."""
    if name == "strategies":
        return import_module("evenjoin.strategies")
    if name not in _LOADED_LATER:
        raise AttributeError(f"module 'evenjoin' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LOADED_LATER[name]), name)
    return found
