"""Orders joined with the taxis seen in the same cell in the ten minutes before: parquet streams in, parquet files out.

Run it with ``python examples/ride_hailing.py [FOLDER]``; it makes its own small day of input there first.
"""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import evenjoin
from evenjoin.bench.ride_hailing import Day
from evenjoin.bench.workloads import write_batches

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="rides-")).resolve()
day = Day(orders=5_000, tracks=15_000, batches=4)
write_batches(folder / "orders", map(day.batch_orders, range(4)))
write_batches(folder / "tracks", map(day.batch_tracks, range(4)))

settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
spark = evenjoin.tune(SparkSession.builder.master("local[2]").config(map=settings)).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
reader = spark.readStream.option("maxFilesPerTrigger", 1)
orders = reader.schema("id LONG, cell LONG, ts TIMESTAMP, fare_cents LONG").parquet(f"{folder}/orders")
tracks = reader.schema("taxi LONG, cell LONG, ts TIMESTAMP, speed_kmh LONG").parquet(f"{folder}/tracks")

joined = evenjoin.join(
    {"o": orders, "t": tracks},
    on="o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts",
    event_time="ts",
    watermark="30 seconds",
    instances=4,
    select=["o.id AS order_id", "t.taxi AS taxi", "o.ts AS ordered", "t.ts AS seen"],
)
writer = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
query = writer.trigger(availableNow=True).start(f"{folder}/joined")
query.awaitTermination()
print(f"{query.lastProgress['evenjoin']['total']['results']:,} results in {folder / 'joined'}")
