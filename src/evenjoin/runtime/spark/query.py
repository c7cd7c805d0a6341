"""The handle of a running join: Spark's StreamingQuery, and what EvenJoin knows besides.

Everything StreamingQuery offers is passed through. An error of the engine (for example a StateCorruptionError) is
raised as itself, with Spark's own exception as its cause.
The handle gives the checkpoint back when it learns that the query has ended: by `stop`, or while it waits for the
query. Not here: the loop that runs in the query (driver.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from evenjoin import errors
from evenjoin.errors import EvenJoinError
from evenjoin.events import Migration, Progress
from evenjoin.load.report import LoadReport
from evenjoin.page.extra import require
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.reports import migrations, progress
from evenjoin.shown import Printer, Shown, together

if TYPE_CHECKING:
    from evenjoin.page.server import Page


class JoinQuery:
    """A running join. `load`, `table` and `migrations` say what it does; the rest is StreamingQuery's."""

    def __init__(self, query: StreamingQuery, driver: Driver, batches: Any) -> None:
        self._query, self._driver, self._batches = query, driver, batches

    def load(self) -> LoadReport | None:
        """The load of every instance in the last batch; None before the first."""
        return self._driver.last.report if self._driver.last else None

    def table(self) -> RoutingTable:
        """The routing table that the next batch will use."""
        return self._driver.next_table()

    def migrations(self) -> list[Migration]:
        """The migrations of the batches whose commits are still kept (the last 512), oldest first."""
        return migrations(self._driver)

    def ui(self, host: str = "127.0.0.1", port: int = 0, token: str = "", names: Sequence[str] = ()) -> Page:
        """Serve the live page of this join from a thread of its own, at any free port unless one is given. Returns a
        handle with its `url` and `stop()`. Another address than a loopback one needs a token of at least 8 characters.
        On `0.0.0.0` the page answers to this machine's own names and addresses; `names` are others by which browsers
        call it, such as `driver.example.org`, and the first of them is in `url`. Needs `pip install 'evenjoin[ui]'`."""
        require("bokeh", "prometheus_client")
        from evenjoin.page.server import Address, open_page

        return open_page(self._driver.folder, Address(host, port, token, tuple(names)))

    def progress(self) -> Progress | None:
        """Counts of the last batch and since the first one; None before the first batch."""
        return progress(self._driver)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """Spark's progress, with a section `evenjoin`: an `events.Progress` as JSON, empty before the first batch.
        In it `evaluated` is what Spark evaluates of the join, if anything: a filter or an output there sends results
        through the JVM, and `results` counts what the engine has found before the filter. `output` says who writes
        the files, where the sink is one of files. `execution` says where the last batch ran and why, and how many have
        run in either place since the start."""
        spark = self._query.lastProgress
        ours = progress(self._driver)
        where, output, evaluated = self._batches.where, self._driver.output, self._driver.spec.evaluated
        more = {
            **({"evaluated": dict(evaluated)} if evaluated else {}),
            **({"output": output.how} if output else {}),
            **({"execution": {**where.last._asdict(), "batches": dict(where.batches)}} if where.last else {}),
        }
        return None if spark is None else {**spark, "evenjoin": {**ours.to_json(), **more} if ours else {}}

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

    def _shown(self) -> list[Shown]:
        """What it joins and whether it runs; the totals; and the load of the last batch."""
        spec, last, load = self._driver.spec, self.progress(), self.load()
        state = "running" if self._query.isActive else "ended"
        if last is None or load is None:
            return [Shown(f"EvenJoin, {state}", notes=("No batch is committed yet.",))]
        counts = zip(last.total.rows, last.total.late, last.stored, strict=True)
        rows = tuple((side.alias, *(f"{n:,}" for n in some)) for side, some in zip(spec.sides, counts, strict=True))
        notes = (f"{last.total.results:,} results, {len(self.migrations())} rebalances",)
        return [Shown(f"EvenJoin, {state}", ("side", "rows", "late", "stored"), rows, notes), load.shown()]

    def __str__(self) -> str:
        return together(self._shown())[0]

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return together(self._shown())[1]

    def release(self) -> None:
        """Give the checkpoint back, so that another query may use it. Only for a query that has ended."""
        self._driver.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def _own(self, error: StreamingQueryException) -> EvenJoinError | None:
        """The engine's error behind Spark's. One raised in the driver was kept; one raised in a task is known by its
        text."""
        if self._batches.error is not None:
            return self._batches.error  # type: ignore[no-any-return]
        match = re.search(r"evenjoin\.errors\.(\w+): (.+)", str(error))
        kind = getattr(errors, match[1], None) if match else None
        return kind(match[2]) if match and kind else None
