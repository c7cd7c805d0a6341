"""The spec of a join, read back from what `join.json` says of it: its condition, and the types of its columns.

Guarantee: keys, codes and time bounds are those of the join that wrote it. A condition that cannot be read back is a
SpecError.
Not here: the output and the filter of the join, and what may change on a restart. That is why the watermark's delay is
0 here; neither keys nor what is bounded at all depend on it.
"""

from __future__ import annotations

import re

import pyarrow as pa

from evenjoin.commit.history import RecordedJoin
from evenjoin.errors import EvenJoinError
from evenjoin.spec import JoinSpec, Window, build_spec


def unbounded_sides(join: RecordedJoin) -> tuple[str, ...]:
    """The aliases of the sides whose state no watermark would let expire; none, if the condition cannot be read
    back."""
    try:
        return spec_of(join).unbounded_sides()
    except EvenJoinError:
        return ()


def spec_of(join: RecordedJoin) -> JoinSpec:
    """The spec of a recorded join, as far as its keys are concerned. SpecError if its condition cannot be read back."""
    schemas = {
        alias: pa.schema([(name, type_of(text)) for name, text in columns.items()])
        for alias, columns in join.schema.items()
    }
    times = {alias: column for alias, column in join.event_time.items() if column is not None}
    window = None if join.window is None else Window(*(_units(length, join) for length in join.window))
    return build_spec(
        schemas, join.condition, event_time=times or None, window=window, watermark=_units(0, join) if times else None
    )


def _units(length: int, join: RecordedJoin) -> str | int:
    """A length in time units (spec/window.py) as a user would write it."""
    return f"{length} microseconds" if join.has_timestamps else length


def type_of(text: str) -> pa.DataType:
    """The Arrow type of a text that Arrow made of one. A nested type, which is never part of a key, becomes binary."""
    timestamp = re.fullmatch(r"timestamp\[(\w+)(?:, tz=(.+))?\]", text)
    if timestamp:
        return pa.timestamp(timestamp[1], timestamp[2])
    decimal = re.fullmatch(r"decimal(128|256)\((\d+), (-?\d+)\)", text)
    if decimal:
        return (pa.decimal128 if decimal[1] == "128" else pa.decimal256)(int(decimal[2]), int(decimal[3]))
    fixed = re.fullmatch(r"fixed_size_binary\[(\d+)\]", text)
    if fixed:
        return pa.binary(int(fixed[1]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return pa.binary()
