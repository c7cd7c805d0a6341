"""The same engine in this process, without Spark: one call per micro-batch, pyarrow tables in and out.

Run it with ``python examples/embedded.py``. With ``checkpoint="folder"`` a new process goes on where this one stopped.
The sink gets each batch's results before the batch is committed. What ``process`` returns comes after the commit: a
process that dies in between has lost it.
"""

import pyarrow as pa

import evenjoin

CLICKS = pa.schema([("ad", pa.string()), ("ts", pa.timestamp("s", "UTC")), ("user", pa.int64())])
VIEWS = pa.schema([("ad", pa.string()), ("ts", pa.timestamp("s", "UTC")), ("page", pa.string())])

join = evenjoin.local(
    {"v": VIEWS, "c": CLICKS},
    on="v.ad = c.ad AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 30 SECONDS",
    event_time="ts",
    watermark="5 seconds",
    select=["v.ad", "v.page", "c.user", "v.ts AS viewed", "c.ts AS clicked"],
    instances=2,
)
batches = [
    {"v": pa.table([["shoes", "tea"], [0, 2], ["home", "news"]], schema=VIEWS)},
    {"c": pa.table([["tea", "shoes"], [9, 40], [17, 18]], schema=CLICKS)},  # 40 s is too long after 0 s
    {"v": pa.table([["shoes"], [45], ["sport"]], schema=VIEWS), "c": pa.table([["shoes"], [60], [19]], schema=CLICKS)},
]
written = {}


def write(results: pa.Table, number: int) -> None:
    """After a crash it is called again with the same number: replace what is there."""
    written[number] = results.to_pylist()


for number, batch in enumerate(batches):
    join.process(batch, batch=number, sink=write)
    print(written[number])
print(f"tuples stored by each instance: {[sum(load.stored) for load in join.load().instances]}")
