"""The handle of a running join: Spark's StreamingQuery, and what EvenJoin knows besides.

Everything StreamingQuery offers is passed through. Errors of the engine come out as themselves (for example
StateCorruptionError), with Spark's own exception as their cause.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from evenjoin import errors
from evenjoin.errors import EvenJoinError
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.local import migrations, progress


class JoinQuery:
    """A running join. `load`, `table` and `migrations` say what it does; the rest is StreamingQuery's."""

    def __init__(self, query: StreamingQuery, driver: Driver, batches: Any) -> None:
        self._query, self._driver, self._batches = query, driver, batches

    def load(self) -> LoadReport | None:
        """The load of every instance in the last batch."""
        return self._driver.last.report if self._driver.last else None

    def table(self) -> RoutingTable:
        """The routing table of the next batch."""
        return self._driver.next_table()

    def migrations(self) -> list[dict[str, Any]]:
        """Every migration so far, oldest first."""
        return migrations(self._driver)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """Spark's progress, with a section `evenjoin`: results, late tuples, imbalance, stored tuples, watermark."""
        spark = self._query.lastProgress
        return None if spark is None else {**spark, "evenjoin": progress(self._driver)}

    @property
    def isActive(self) -> bool:
        return self._query.isActive

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        try:
            ended = self._query.awaitTermination(timeout)
        except StreamingQueryException as error:
            self.release()
            raise self._own(error) or error from error
        if timeout is None or ended:
            self.release()
        return ended

    def processAllAvailable(self) -> None:
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            self.release()
            raise self._own(error) or error from error

    def stop(self) -> None:
        self._query.stop()
        self.release()

    def release(self) -> None:
        """Give the checkpoint back, once the query has ended."""
        self._driver.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def _own(self, error: StreamingQueryException) -> EvenJoinError | None:
        """The engine's error behind Spark's: raised in the driver, or by a task (then known by its text)."""
        if self._batches.error is not None:
            return self._batches.error  # type: ignore[no-any-return]
        match = re.search(r"evenjoin\.errors\.(\w+): (.+)", str(error))
        kind = getattr(errors, match[1], None) if match else None
        return kind(match[2]) if match and kind else None
