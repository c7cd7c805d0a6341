"""EvenJoin in the same harness as its peers: same files, session, trigger and sink.

The results go to ``noop``: every row with every selected column is made, as for the peer. A batch on the executors
hands them to Spark's ``noop`` source in the JVM; one in the driver drops them as Arrow. (With ``output`` they go to
parquet files, as the peer's do.) Results are counted by the engine itself, as the peer's are by its sink. ``evenjoin``
runs every batch on executors, ``evenjoin-driver`` in the driver's process. The files are read by EvenJoin's own parquet
source (``source="evenjoin"``), or by Spark's, as the peer reads them
(``source="spark"``).

``embedded`` is the engine in this process, without Spark: a file of each side is a batch, and its instances run one
after the other. A batch's time is then all the work there is, whatever the number of cores.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evenjoin.bench.cpu import Clock
from evenjoin.bench.jobs import Job, Outcome
from evenjoin.bench.peers import outcome_of, stream, sunk
from evenjoin.bench.session import open_session

PLACES = {"evenjoin": "executors", "evenjoin-driver": "driver"}


def run_evenjoin(job: Job) -> Outcome:
    """EvenJoin over the job's files, until they are all read."""
    import evenjoin

    spark = open_session(job.cores, job.settings)
    sides = {
        alias: evenjoin.parquet(spark, folder, maxFilesPerTrigger=1)
        if job.source == "evenjoin"
        else stream(spark, folder)
        for alias, folder in job.folders.items()
    }
    joined = evenjoin.join(sides, on=job.condition, **arguments(job))
    clock = Clock()
    query = sunk(joined.writeStream, job).trigger(availableNow=True).start()
    query.awaitTermination()
    used = clock.read()
    last = query.lastProgress
    assert last is not None, "nothing was read"
    total = last["evenjoin"]["total"]
    return outcome_of(job, query, sum(total["rows"]), total["results"], used)


def run_embedded(job: Job) -> Outcome:
    """The embedded engine over the job's files, batch by batch."""
    import evenjoin

    files = {alias: sorted(Path(folder).glob("*.parquet")) for alias, folder in job.folders.items()}
    schemas = {alias: pq.read_schema(paths[0]) for alias, paths in files.items()}
    rows, results, batch_ms = 0, 0, []
    clock = Clock()
    with evenjoin.local(schemas, job.condition, checkpoint=job.checkpoint, **arguments(job)) as join:
        for paths in zip(*files.values(), strict=True):
            tables = {alias: pq.read_table(path) for alias, path in zip(files, paths, strict=True)}
            rows += sum(table.num_rows for table in tables.values())
            began = time.perf_counter()
            results += join.process(tables).num_rows
            batch_ms.append(1000 * (time.perf_counter() - began))
    return Outcome(job.system, rows, results, clock.read(), tuple(batch_ms))


def arguments(job: Job) -> dict[str, Any]:
    """What `evenjoin.join` and `evenjoin.local` are given beside the sides and the condition."""
    options = job.options
    return {
        "select": list(job.select),
        "event_time": job.event_time,
        "watermark": job.watermark if job.event_time else None,
        "strategy": job.strategy,
        "instances": job.instances if options.scaling is None else "auto",
        "layout": job.layout,
        "guards": options.guards,
        "scaling": options.scaling,
        "track": options.track,
        **({"execution": PLACES[job.system]} if job.system in PLACES else {}),
    }
