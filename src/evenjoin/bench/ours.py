"""EvenJoin in the same harness as its peers: same files, session, trigger and sink.

The results go to Spark's ``noop`` source: every row with every selected column is made and handed to the JVM, as for
the peer. Results are counted by the engine itself, as the peer's are by its sink. The files are read by EvenJoin's own
parquet source (``source="evenjoin"``), or by Spark's, as the peer reads them (``source="spark"``).
"""

from __future__ import annotations

from evenjoin.bench.cpu import Clock
from evenjoin.bench.jobs import Job, Outcome
from evenjoin.bench.peers import outcome_of, stream
from evenjoin.bench.session import open_session


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
    options = job.options
    joined = evenjoin.join(
        sides,
        on=job.condition,
        select=list(job.select),
        event_time=job.event_time,
        watermark=job.watermark if job.event_time else None,
        strategy=job.strategy,
        instances=job.instances if options.scaling is None else "auto",
        guards=options.guards,
        scaling=options.scaling,
        track=options.track,
    )
    clock = Clock()
    writer = joined.writeStream.format("noop").option("checkpointLocation", job.checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    used = clock.read()
    last = query.lastProgress
    assert last is not None, "nothing was read"
    total = last["evenjoin"]["total"]
    return outcome_of(job, query, sum(total["rows"]), total["results"], used)
