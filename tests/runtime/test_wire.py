"""What travels between the stages comes back as it was, in fewer bytes where numbers lie close together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.runtime.spark import tasks
from evenjoin.runtime.spark.wire import FEW, narrowed, pack, packed_rows, unpack, widened
from thorough import examples

LONGS = [pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("us"), pa.time64("us"), pa.date64()]
OTHERS = [pa.int32(), pa.uint64(), pa.float64(), pa.string(), pa.decimal128(18, 2), pa.month_day_nano_interval()]
ENDS = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2**32, 1_700_000_000_000_000, 2**62, 2**63 - 2**34])
SPANS = st.sampled_from([1, 1000, 2**31, 2**32 - 1, 2**32, 2**33])


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """A column of 64 bits: some values at the ends of a span, NULLs or none, cut out of a longer one."""
    low, span = draw(ENDS), draw(SPANS)
    seed, skipped = draw(st.integers(0, 2**16)), draw(st.integers(0, 9))
    values = low + np.random.default_rng(seed).integers(0, span, FEW + skipped, np.int64, endpoint=True)
    values[skipped], values[-1] = low, low + span
    valid = np.random.default_rng(seed + 1).random(len(values)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    column = pa.array(values, mask=None if draw(st.booleans()) else ~valid)
    return pa.Array.from_buffers(draw(st.sampled_from(LONGS)), len(column), column.buffers()).slice(skipped)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(columns(), min_size=1, max_size=3))
def test_what_is_packed_comes_back(some):
    """Values, NULLs, types, names and metadata of fields, whatever the span of the values and the offset of a slice."""
    fields = [pa.field(f"c{k}", column.type, metadata={"a": "b"}) for k, column in enumerate(some)]
    batch = pa.RecordBatch.from_arrays(some, schema=pa.schema(fields))
    (back,) = unpack(pa.scalar(pack(batch).to_pybytes(), pa.binary()))
    back.validate()
    assert back.schema.equals(batch.schema, check_metadata=True)
    assert [column.view(pa.int64()) for column in back.columns] == [column.view(pa.int64()) for column in some]


@pytest.mark.parametrize("span", [2**32 - 1, 2**32])
def test_a_column_is_narrow_up_to_32_bits(span):
    """A span of 2^32 - 1 fits, one more does not. Both ends of int64 are far enough from wrapping."""
    for low in (-(2**63), 0, 2**63 - 1 - span):
        values = np.full(FEW, low, np.int64)
        values[1] = low + span
        batch = pa.record_batch([pa.array(values)], names=["k"])
        assert narrowed(batch).column(0).type == (pa.uint32() if span < 2**32 else pa.int64())
        assert widened(narrowed(batch)).equals(batch)


@pytest.mark.parametrize("type_", OTHERS, ids=str)
def test_other_columns_travel_as_they_are(type_):
    """Only whole numbers and times of 64 bits are narrowed."""
    batch = pa.record_batch([pa.nulls(FEW, type_), pa.array([None] * FEW, pa.int64())], names=["a", "b"])
    assert narrowed(batch) is batch


def test_few_rows_travel_as_they_are():
    """A small batch is not worth the work."""
    batch = pa.record_batch([pa.array([1] * (FEW - 1))], names=["k"])
    assert narrowed(batch) is batch


def test_four_longs_take_half_the_bytes():
    """A key, a time, a value and an id of 64 bits each."""
    rng = np.random.default_rng(1)
    times = pa.array(1_767_225_600_000_000 + rng.integers(0, 1_000_000, 10_000)).cast(pa.timestamp("us"))
    longs = [pa.array(rng.integers(0, 1_000_000, 10_000)) for _ in range(3)]
    batch = pa.record_batch([longs[0], times, longs[1], longs[2]], names=["k", "ts", "v", "id"])
    assert len(pack(batch)) < 0.52 * batch.nbytes


def test_packed_rows_are_a_batch():
    """One row for each destination, with its blob; an empty blob too."""
    rows = packed_rows(
        [(1, 0, 2**64 - 1, pa.py_buffer(b"ab")), (0, 2, 7, pa.py_buffer(b"")), (1, -1, 0, pa.py_buffer(b"c"))]
    )
    rows.validate(full=True)
    assert rows.column("blob").to_pylist() == [b"ab", b"", b"c"]
    assert rows.column("lines").to_pylist() == [-1, 7, 0]


def test_wide_rows_are_sent_in_parts(monkeypatch):
    """A part is at most about FLUSH_BYTES, however wide the rows are: 2^31 bytes are too many for one array."""
    monkeypatch.setattr(tasks, "FLUSH_BYTES", 1 << 16)
    wide = pa.record_batch([pa.array([b"x" * (1 << 13)] * 20)], names=["k"])
    parts = list(tasks._cut(wide))
    assert pa.Table.from_batches(parts).combine_chunks().to_batches() == [wide]
    assert max(part.nbytes for part in parts) <= 1 << 16
    assert len(list(tasks._cut(wide.slice(0, 3)))) == 1
    assert list(tasks._cut(wide.slice(0, 0))) == []
