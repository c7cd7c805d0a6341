"""Key columns -> one integer *code* per tuple, by which runs are sorted and tuples are placed.

A code is a pure function of the key's value, so equal keys always have equal codes:

* One fixed-width key (integer, boolean, date, time, timestamp, interval, float, decimal up to 18 digits) is its own
  code: an order-preserving int64. Such a codec is *exact*: equal codes are equal keys, ranges of codes are ranges of
  keys, and integer-like columns can be rebuilt from the code instead of being stored twice.
* Anything else (strings, binary, uint64, composite or null-safe keys) becomes a 32-bit hash, stored as int32. Two keys
  may share it, so the real keys are compared afterwards (instance/verify.py).
* Without any key the code of every tuple is 0.

As in Spark SQL -0.0 equals 0.0, and NaN equals NaN. Besides codes, `encode` returns a mask of the tuples that can match
at all: a key with a NULL under plain equality cannot.
Not here: what happens to tuples that cannot match (runtime/dispatch.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULL_HASH = np.uint64(0x6E756C6C6E756C6C)
_LONG_KEY_BYTES = 256


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """How the key of a join becomes a code. All sides of a join use the same codec, so equal keys get equal codes."""

    types: tuple[pa.DataType, ...]
    null_safe: tuple[bool, ...]

    @property
    def exact(self) -> bool:
        """Whether equal codes mean equal keys, and codes sort like keys."""
        return len(self.types) <= 1 and not any(self.null_safe) and all(map(is_fixed_width, self.types))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64) if self.exact else np.dtype(np.int32)

    def encode(self, columns: Sequence[pa.Array], rows: int) -> tuple[Codes, npt.NDArray[np.bool_] | None]:
        """The codes [rows] of the keys, and a mask of the tuples that can match at all (None: all can).

        A tuple whose key has a NULL under `=` matches nothing; under `<=>` NULL is a value.
        """
        valid: npt.NDArray[np.bool_] | None = None
        for column, safe in zip(columns, self.null_safe, strict=True):
            if column.null_count and not safe:
                ok = np.asarray(column.is_valid())
                valid = ok if valid is None else valid & ok
        if not columns:
            return np.zeros(rows, np.int64), None
        if self.exact:
            return ordered_int64(columns[0]), valid
        hashed = hash_column(columns[0])
        for column in columns[1:]:
            hashed = mix64(hashed * GOLDEN ^ hash_column(column))
        return (hashed >> np.uint64(32)).astype(np.uint32).view(np.int32), valid


def is_fixed_width(type_: pa.DataType) -> bool:
    """Whether values of this type have an order-preserving int64."""
    return (
        is_rebuildable(type_)
        or bool(pa.types.is_floating(type_))
        or bool(pa.types.is_decimal128(type_) and type_.precision <= 18)
    )


def ordered_int64(column: pa.Array) -> I64:
    """An int64 for each value of a fixed-width column, in the same order as the values. NULL gives any value. O(n)."""
    type_ = column.type
    if pa.types.is_decimal128(type_):
        words = np.frombuffer(column.buffers()[1], np.int64)
        return words[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    if pa.types.is_floating(type_):
        floats = np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0)) + 0.0
        floats = np.where(np.isnan(floats), np.nan, floats)
        bits = floats.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    if pa.types.is_boolean(type_):
        column = column.cast(pa.int8())
    if _is_32_bit_time(type_):
        column = column.cast(pa.int32())
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0))


def from_ordered_int64(codes: I64, type_: pa.DataType) -> pa.Array:
    """Inverse of `ordered_int64` for the types `is_rebuildable` accepts."""
    column = pa.array(codes)
    return (column.cast(pa.int32()) if _is_32_bit_time(type_) else column).cast(type_)


def is_rebuildable(type_: pa.DataType) -> bool:
    """Whether a column of this type can be rebuilt from its code alone."""
    return bool(
        (pa.types.is_integer(type_) and type_ != pa.uint64())
        or pa.types.is_boolean(type_)
        or (pa.types.is_temporal(type_) and not pa.types.is_interval(type_))
    )


def _is_32_bit_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date32(type_) or pa.types.is_time32(type_))


def to_time(x: Any) -> Any:
    """An array or a scalar of times as int64: microseconds of a timestamp (rounded down), of a date's midnight, of an
    interval; an integer."""
    if pa.types.is_dictionary(x.type):
        x = x.cast(x.type.value_type)
    type_ = x.type
    if pa.types.is_date(type_):
        return pc.multiply_checked(x.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        if type_.unit == "ns":
            return _floor_thousand(x.cast(pa.int64()))
        x = x.cast(pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else pa.duration("us"))
    return x.cast(pa.int64())


def _floor_thousand(nanos: Any) -> Any:
    if isinstance(nanos, pa.Scalar):
        return pa.scalar(None if not nanos.is_valid else nanos.as_py() // 1000, pa.int64())
    values = np.asarray(nanos.fill_null(0)) // 1000
    return pa.array(values, pa.int64(), mask=np.asarray(nanos.is_null()))


def mix64(values: npt.NDArray[Any]) -> U64:
    """The finaliser of splitmix64: a bijection on 64 bits in which every input bit affects every output bit."""
    x = values.astype(np.uint64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def hash_column(column: pa.Array) -> U64:
    """A 64-bit hash of each value. NULL has a hash of its own. O(bytes)."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type) and column.type.byte_width < 16:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    if is_fixed_width(column.type):
        hashed = mix64(ordered_int64(column).view(np.uint64) + GOLDEN)
    elif pa.types.is_decimal(column.type):
        width = column.type.byte_width // 8
        words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, width)
        words = words[column.offset : column.offset + len(column)]
        hashed = mix64(words[:, 0] + GOLDEN)
        for word in range(1, width):
            hashed = mix64(hashed ^ words[:, word])
    elif column.type == pa.uint64():
        hashed = mix64(np.asarray(pc.fill_null(column, 0)) + GOLDEN)
    else:
        hashed = _hash_bytes(column.cast(pa.large_binary()))
    if column.null_count:
        hashed = np.where(np.asarray(column.is_null()), _NULL_HASH, hashed)
    return hashed


def _hash_bytes(column: pa.LargeBinaryArray) -> U64:
    """A hash of each byte string, eight bytes a step for all values at once. What exceeds 256 bytes is hashed value by
    value."""
    rows = len(column)
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[column.offset : column.offset + rows + 1]
    if rows == 0 or data_buffer is None:
        return mix64(np.full(rows, GOLDEN, np.uint64))
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)
    data[:-8] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashed = mix64(lengths.view(np.uint64) + GOLDEN)
    for done in range(0, min(int(lengths.max()), _LONG_KEY_BYTES), 8):
        rows_left = np.flatnonzero(lengths > done)
        left = np.minimum(lengths[rows_left] - done, 8).astype(np.uint64)
        mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - left * np.uint64(8))
        hashed[rows_left] = mix64(hashed[rows_left] * GOLDEN ^ (words[starts[rows_left] + done] & mask))
    for row in np.flatnonzero(lengths > _LONG_KEY_BYTES):
        tail = data[starts[row] + _LONG_KEY_BYTES : starts[row] + lengths[row]].tobytes()
        hashed[row] ^= _hash_long(tail)
    return hashed


def _hash_long(tail: bytes) -> np.uint64:
    from hashlib import blake2b

    return np.uint64(int.from_bytes(blake2b(tail, digest_size=8).digest(), "little"))
