"""EvenJoin in the same harness as its peers: same files, session, trigger, sink and way to count.

The results go through ``foreachBatch`` to Spark's ``noop`` source with ``observe`` in front: every row with every
selected column is made and handed to the JVM, as for the peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenjoin.bench.cpu import Clock
from evenjoin.bench.jobs import Job, Outcome
from evenjoin.bench.peers import outcome_of, stream
from evenjoin.bench.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_evenjoin(job: Job) -> Outcome:
    """EvenJoin over the job's files, until they are all read."""
    import evenjoin

    spark = open_session(job.cores, job.settings)
    counted: dict[int, int] = {}
    joined = evenjoin.join(
        {alias: stream(spark, folder) for alias, folder in job.folders.items()},
        on=job.condition,
        event_time=dict.fromkeys(job.folders, job.event_time),
        watermark=dict.fromkeys(job.folders, job.watermark),
        strategy=job.strategy,
        instances=job.instances,
        select=list(job.select),
    )
    writer = joined.writeStream.foreachBatch(lambda df, batch: counted.update({batch: count_into_noop(df)}))
    clock = Clock()
    query = writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return outcome_of(job, query, sum(counted.values()), clock.read())


def count_into_noop(df: DataFrame) -> int:
    """Write every row to ``noop`` and return how many there were, in one pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    df.observe(seen, F.count(F.lit(1)).alias("n")).write.format("noop").mode("overwrite").save()
    return int(seen.get["n"])
