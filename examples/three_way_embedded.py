"""A join of three sides without any equality, in this process: quotes of three exchanges whose prices are near.

Run it with ``python examples/three_way_embedded.py``. No two sides have a key in common. A cube of instances joins them
in one step (`strategy="hypercube"`, the default for such joins); `"trijoin"` and `"tree"` give the same rows.
"""

import pyarrow as pa

import evenjoin

QUOTES = pa.schema([("symbol", pa.string()), ("cents", pa.int64()), ("ts", pa.timestamp("s", "UTC"))])


def quotes(*rows: tuple[str, int, int]) -> pa.Table:
    return pa.table([*map(list, zip(*rows, strict=True))], schema=QUOTES)


join = evenjoin.local(
    {"a": QUOTES, "b": QUOTES, "c": QUOTES},
    on="""abs(a.cents - b.cents) <= 1 AND abs(b.cents - c.cents) <= 1 AND abs(a.cents - c.cents) <= 1
      AND b.ts BETWEEN a.ts - INTERVAL 30 SECONDS AND a.ts + INTERVAL 30 SECONDS
      AND c.ts BETWEEN b.ts - INTERVAL 30 SECONDS AND b.ts + INTERVAL 30 SECONDS""",
    event_time="ts",
    watermark="5 seconds",
    select=["a.symbol AS a", "b.symbol AS b", "c.symbol AS c", "a.cents"],
    instances=8,
)
batches = [
    {"a": quotes(("oil", 720, 0), ("tea", 310, 2)), "b": quotes(("tea", 311, 5))},
    {"c": quotes(("tea", 310, 20), ("oil", 720, 21))},  # "oil" has no quote in b yet
    {"b": quotes(("oil", 721, 25))},
]
for batch in batches:
    print(join.process(batch).to_pylist())
print(f"tuples stored by each instance: {[sum(load.stored) for load in join.load().instances]}")
