"""Spark's own join of batch frames, and ours of the same rows: split, computed columns, our kernels, Spark's filter.

`ours` runs everything that a stream would run but for the streams: the embedded engine takes the spec that was prepared
for Spark, joins the rows that Spark computed, and Spark finishes what it found. So hundreds of conditions a minute can
be compared. The rows of each side need a column `id`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

from pyspark.sql import functions as sf

from evenjoin.runtime.local import LocalJoin
from evenjoin.runtime.settings import Asked, read_settings
from evenjoin.runtime.spark.prepare import prepare

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"


@contextmanager
def session(spark, zone="UTC", ansi=True):
    """The session in another zone and mode."""
    before = {key: spark.conf.get(key) for key in (ZONE, ANSI)}
    try:
        spark.conf.set(ZONE, zone)
        spark.conf.set(ANSI, str(ansi).lower())
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def rows(spark, columns: str, *values: str):
    """A frame of an `id` and these columns ("a int, ts timestamp"), a row for each text of SQL values. NULLs last."""
    fields = [part.strip().split(" ", 1) for part in _apart(columns)]
    lines = []
    for number, text in enumerate([*values, ", ".join(["NULL"] * len(fields))]):
        cells = zip(fields, _apart(text), strict=True)
        lines.append(f"SELECT {number} AS id, " + ", ".join(f"CAST({v} AS {t}) AS {n}" for (n, t), v in cells))
    return spark.sql(" UNION ALL ".join(lines))


def _apart(text: str) -> list[str]:
    """The text at its commas, but for those in brackets or quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, c in enumerate(text):
        quoted ^= c == "'"
        depth += 0 if quoted else (c in "(<[") - (c in ")>]")
        if c == "," and not depth and not quoted:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def sparks(sides, on, select) -> Counter:
    """The rows of Spark's own join."""
    frames = [frame.alias(alias) for alias, frame in sides.items()]
    joined = frames[0]
    for frame in frames[1:-1]:
        joined = joined.crossJoin(frame)
    return Counter(map(str, joined.join(frames[-1], sf.expr(on)).selectExpr(*select).collect()))


def ours(sides, on, select, **options) -> tuple[Counter, object]:
    """The rows of our join, and how it was prepared."""
    ready = prepare(sides, on, select=select, **options)
    engine = LocalJoin(ready.spec, read_settings(ready.spec, Asked(instances=2)), None, None)
    found = engine.process(
        {alias: ready.sides[alias].select(*_used(ready, k)).toArrow() for k, alias in enumerate(sides)}
    )
    spark = next(iter(sides.values())).sparkSession
    if ready.finish is None:
        frame = spark.createDataFrame(found, ready.emitted)
    else:
        frame = ready.finish.apply(spark.createDataFrame(found, ready.emitted))
    return Counter(map(str, frame.collect())), ready


def _used(ready, side):
    names = ready.spec.sides[side].columns or ready.spec.sides[side].schema.names[:1]
    return [f"`{name}`" for name in names]


def same(sides, on, select=None, **options):
    """Whether both give the same rows; returns how it was prepared."""
    listed = select or [f"{alias}.id AS {alias}_id" for alias in sides]
    mine, ready = ours(sides, on, listed, **options)
    assert mine == sparks(sides, on, listed), f"{on}: {ready.split}"
    return ready
