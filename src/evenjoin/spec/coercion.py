"""Arrow types of the engine: the type in which two values meet, and how a value gets there.

    plain(x)            in the type that is compared: dictionaries decoded, unsigned widened, timestamps in us (or ns)
    common_type(a, b)   the type in which a and b are compared, or None when they cannot be
    convert(x, type)    a value in a common type

Invariant: ``plain`` is idempotent, ``common_type`` is symmetric but for the time zone (the first one wins), and
``convert`` changes no value but for the rounding of numbers to doubles. A timestamp without a zone is read as UTC.
Not here: Spark's casts. Spark makes them before the engine sees a value, and without Spark they are refused.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Datum: TypeAlias = "pa.Array | pa.Scalar"

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


def plain_type(t: pa.DataType) -> pa.DataType:
    """The type values of type ``t`` are computed in."""
    if pt.is_dictionary(t):
        return plain_type(t.value_type)
    if pt.is_unsigned_integer(t):
        return _SIGNED[t]
    if pt.is_timestamp(t):
        return pa.timestamp("ns" if t.unit == "ns" else "us", t.tz)
    if pt.is_duration(t):
        return pa.duration("ns" if t.unit == "ns" else "us")
    if pt.is_date(t):
        return pa.date32()
    if pt.is_large_string(t) or pt.is_string_view(t):
        return pa.string()
    if pt.is_large_binary(t) or pt.is_fixed_size_binary(t) or pt.is_binary_view(t):
        return pa.binary()
    if pt.is_float16(t):
        return pa.float32()
    if pt.is_decimal(t) and t.bit_width < 128:
        return pa.decimal128(t.precision, t.scale)
    return t


def plain(x: Datum) -> Datum:
    """``x`` in its plain type."""
    target = plain_type(x.type)
    return x if x.type == target else x.cast(target)


def is_numeric(t: pa.DataType) -> bool:
    return bool(pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t))


def is_temporal(t: pa.DataType) -> bool:
    """A point in time: a timestamp or a date."""
    return bool(pt.is_timestamp(t) or pt.is_date(t))


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type both sides of a comparison are brought to; None when there is none."""
    a, b = plain_type(a), plain_type(b)
    if a == b or pt.is_null(b):
        return a
    if pt.is_null(a):
        return b
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if is_temporal(a) and is_temporal(b):
        nanos = any(pt.is_timestamp(t) and t.unit == "ns" for t in (a, b))
        zones = [t.tz for t in (a, b) if pt.is_timestamp(t) and t.tz is not None]
        return pa.timestamp("ns" if nanos else "us", zones[0] if zones else None)
    if pt.is_duration(a) and pt.is_duration(b):
        return pa.duration("ns")
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    if pt.is_integer(a) and pt.is_integer(b):
        return a if a.bit_width >= b.bit_width else b
    a, b = as_decimal_type(a), as_decimal_type(b)
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def as_decimal_type(t: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer type; a decimal type itself."""
    return t if pt.is_decimal(t) else pa.decimal128(_DIGITS[t], 0)


def convert(x: Datum, target: pa.DataType) -> Datum:
    """``x`` in a type that came out of ``common_type``."""
    x = plain(x)
    if x.type == target:
        return x
    if pt.is_timestamp(target) and pt.is_timestamp(x.type):
        return x.cast(pa.timestamp(target.unit, x.type.tz)).cast(pa.int64()).cast(target)
    if pt.is_floating(target):
        return pc.cast(pc.cast(x, pa.float64(), safe=False), target, safe=False)
    return x.cast(target)


def normal_key(x: Datum) -> Datum:
    """A floating key with one NaN and one zero, so that equal keys have equal bits; any other key as it is."""
    if not pt.is_floating(x.type):
        return x
    x = pc.if_else(pc.is_nan(x), pa.scalar(float("nan"), x.type), x)
    return pc.if_else(pc.equal(x, pa.scalar(0.0, x.type)), pa.scalar(0.0, x.type), x)
