"""The same engine in this process, without Spark: one call per micro-batch, pyarrow tables in and out.

Run it with ``python examples/embedded.py``.
"""

import pyarrow as pa

import evenjoin

CLICKS = pa.schema([("ad", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("user", pa.int64())])
VIEWS = pa.schema([("ad", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("page", pa.string())])


def at(second: int) -> int:
    return second * 1_000_000


join = evenjoin.local(
    {"v": VIEWS, "c": CLICKS},
    on="v.ad = c.ad AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 30 SECONDS",
    event_time="ts",
    watermark="5 seconds",
    select=["v.ad", "v.page", "c.user", "c.ts - v.ts AS waited"],
    instances=2,
)
batches = [
    {"v": pa.table([["shoes", "tea"], [at(0), at(2)], ["home", "news"]], schema=VIEWS)},
    {"c": pa.table([["tea", "shoes"], [at(9), at(40)], [17, 18]], schema=CLICKS)},  # 40 s is too long after 0 s
    {
        "v": pa.table([["shoes"], [at(45)], ["sport"]], schema=VIEWS),
        "c": pa.table([["shoes"], [at(60)], [19]], schema=CLICKS),
    },
]
for batch in batches:
    print(join.process(batch).to_pylist())
for load in join.load().instances:
    print(f"instance {load.instance}: {sum(load.stored)} tuples stored, {load.matches} results in the last batch")
