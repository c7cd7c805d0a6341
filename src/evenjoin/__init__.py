"""EvenJoin: skew-aware, adaptive stream joins for PySpark.

    joined = evenjoin.join({"o": orders, "t": tracks}, on="o.cell = t.cell", strategy="hash", instances=8)
    query = joined.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ck").start()

`join` runs on Spark; `local` runs the same join in this process. Importing this package does not load pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenjoin import errors, strategies
from evenjoin.api import local
from evenjoin.errors import (
    CheckpointInUseError,
    CheckpointMismatchError,
    ConditionError,
    EvenJoinError,
    SpecError,
    StateCorruptionError,
    UnboundedStateWarning,
)
from evenjoin.runtime.settings import Guards
from evenjoin.runtime.watch import progress
from evenjoin.spec import sliding, tumbling
from evenjoin.strategies.elastic import Scaling
from evenjoin.version import VERSION

if TYPE_CHECKING:
    from evenjoin.runtime.spark.files import parquet
    from evenjoin.runtime.spark.join import join
    from evenjoin.runtime.spark.session import tune

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


def __getattr__(name: str) -> Any:
    """Names that need pyspark load it when they are first asked for."""
    if name == "join":
        from evenjoin.runtime.spark.join import join

        return join
    if name == "parquet":
        from evenjoin.runtime.spark.files import parquet

        return parquet
    if name == "tune":
        from evenjoin.runtime.spark.session import tune

        return tune
    raise AttributeError(f"module 'evenjoin' has no attribute {name!r}")
