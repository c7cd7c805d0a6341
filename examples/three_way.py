"""Who rewards a live video after a click on it and a review: clicks, reviews and rewards, three streams in one join.

Run it with ``python examples/three_way.py [FOLDER]``; it makes its own small input there first. All three have the
video and the user in common, so they meet in one shuffle: no second join waits for the first.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import evenjoin
from evenjoin.bench.workloads import write_batches

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="videos-")).resolve()
random, names = np.random.default_rng(1), ("click", "review", "reward")
for name, rows in zip(names, (4_000, 2_000, 800), strict=True):
    times = [pa.array(np.sort(random.integers(600 * ten, 600 * ten + 600, rows))) for ten in range(3)]
    videos = {"video": random.zipf(1.5, rows) % 500, "user": random.integers(0, 200, rows)}
    write_batches(folder / name, [pa.table({**videos, "ts": ts.cast(pa.timestamp("s", "UTC"))}) for ts in times])
settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
spark = evenjoin.tune(SparkSession.builder.master("local[2]").config(map=settings)).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
joined = evenjoin.join(
    {name: evenjoin.parquet(spark, f"{folder}/{name}", maxFilesPerTrigger=1) for name in names},
    on="""click.video = review.video AND review.video = reward.video AND click.user = review.user
      AND review.user = reward.user AND review.ts BETWEEN click.ts AND click.ts + INTERVAL 5 MINUTES
      AND reward.ts BETWEEN review.ts AND review.ts + INTERVAL 5 MINUTES""",
    event_time="ts", watermark="30 seconds", instances=4, select=["click.video", "click.user", "reward.ts AS rewarded"],
)  # fmt: skip
writer = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
query = writer.trigger(availableNow=True).start(f"{folder}/joined")
query.awaitTermination()
print(f"{spark.read.parquet(f'{folder}/joined').count():,} rewards by users who clicked and reviewed; the last batch:")
for load in query.load().instances:
    print(f"instance {load.instance}: stored {load.stored}, came {load.probes}, results {load.matches}")
print(f"the heaviest video and user: {query.load().heavy[0].name}")
