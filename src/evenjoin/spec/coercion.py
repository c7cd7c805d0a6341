"""Arrow types under Spark's rules: which type two operands meet in, and how a value gets there.

    plain(x)            the type arithmetic is done in: dictionaries decoded, unsigned widened, timestamps in us (or ns)
    common_type(a, b)   the type in which a and b are compared, or None when they cannot be
    convert(x, type)    a value to a common type (fails only for a string literal that does not parse)
    cast(x, type)       SQL CAST under ANSI: 1.7 -> 1, a timestamp -> its seconds; what does not fit is an ArrowInvalid

Invariant: ``plain`` is idempotent, and ``common_type`` is symmetric but for the time zone (the first one wins).
A timestamp without a zone is read as UTC. Nothing here knows about expressions or columns.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Datum: TypeAlias = "pa.Array | pa.Scalar"

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


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
    """The type both sides of a comparison (or all branches of a CASE) are brought to; None when there is none."""
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
    a, b = (t if pt.is_decimal(t) else pa.decimal128(_DIGITS[t], 0) for t in (a, b))
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def convert(x: Datum, target: pa.DataType) -> Datum:
    """``x`` in a type that came out of ``common_type``; a string literal is parsed."""
    x = plain(x)
    if x.type == target:
        return x
    if pt.is_string(x.type) and not pt.is_string(target):
        return cast(x, target)
    if pt.is_timestamp(target) and pt.is_timestamp(x.type):
        return x.cast(pa.timestamp(target.unit, x.type.tz)).cast(pa.int64()).cast(target)
    if pt.is_floating(target):
        return as_double(x).cast(target)
    return x.cast(target)


def as_double(x: Datum) -> Datum:
    """A number as float64; a 64-bit integer beyond 2**53 is rounded, as Spark rounds it."""
    return pc.cast(plain(x), pa.float64(), safe=False)


def cast(x: Datum, target: pa.DataType) -> Datum:
    """SQL CAST. Raises ArrowInvalid for a value that does not fit, ArrowNotImplementedError for a pair of types."""
    x = plain(x)
    source = x.type
    if source == target or pt.is_null(source):
        return x.cast(target)
    if pt.is_timestamp(source) or pt.is_date(source):
        return _cast_temporal(x, target)
    if pt.is_string(source) and is_temporal(target):
        return _parse_time(pc.utf8_trim_whitespace(x), target)
    if pt.is_string(source) and (is_numeric(target) or pt.is_boolean(target)):
        return pc.utf8_trim_whitespace(x).cast(target)
    if pt.is_integer(source) and pt.is_timestamp(target):
        return pc.multiply_checked(x.cast(pa.int64()), 1_000_000).cast(pa.timestamp("us")).cast(target)
    if is_numeric(source) and pt.is_integer(target) and not pt.is_integer(source):
        return pc.trunc(x).cast(target)
    if pt.is_decimal(target) and is_numeric(source):
        return _to_decimal(x, target)
    if pt.is_floating(target) and is_numeric(source):
        return pc.cast(as_double(x), target, safe=False)
    if pt.is_string(target) and pt.is_floating(source):
        raise pa.ArrowNotImplementedError("a floating-point number has no agreed text; cast it to a decimal first")
    return x.cast(target)


def _to_decimal(x: Datum, target: pa.DataType) -> Datum:
    if pt.is_integer(x.type):
        x = x.cast(pa.decimal128(_DIGITS[x.type], 0))
    if pt.is_decimal(x.type):
        x = pc.round(x, target.scale, "half_towards_infinity") if x.type.scale > target.scale else x
    return x.cast(target)


def _cast_temporal(x: Datum, target: pa.DataType) -> Datum:
    if pt.is_integer(target) and pt.is_timestamp(x.type):
        seconds = pc.divide(
            pc.floor_temporal(x, unit="second").cast(pa.int64()), 10 ** (9 if x.type.unit == "ns" else 6)
        )
        return seconds.cast(target)
    if pt.is_date(target) and pt.is_timestamp(x.type):
        return pc.floor_temporal(x, unit="day").cast(pa.timestamp(x.type.unit)).cast(pa.date32())
    if pt.is_timestamp(target):
        return convert(x, target)
    if pt.is_string(target) and pt.is_timestamp(x.type):
        text = x.cast(pa.timestamp(x.type.unit)).cast(pa.string())
        return pc.replace_substring_regex(text, r"\.?0*$", "") if x.type.unit in ("us", "ns") else text
    if pt.is_string(target):
        return x.cast(target)
    raise pa.ArrowNotImplementedError(f"cannot cast {x.type} to {target}")


def _parse_time(x: Datum, target: pa.DataType) -> Datum:
    """ISO text to a date or timestamp, with or without an offset (none means UTC)."""
    if pt.is_date(target):
        return x.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    try:
        return convert(x.cast(pa.timestamp("us")), target)
    except pa.ArrowInvalid:
        return convert(x.cast(pa.timestamp("us", "UTC")), target)


def normal_key(x: Datum) -> Datum:
    """A floating key with one NaN and one zero, so that equal keys have equal bits; any other key as it is."""
    if not pt.is_floating(x.type):
        return x
    x = pc.if_else(pc.is_nan(x), pa.scalar(float("nan"), x.type), x)
    return pc.if_else(pc.equal(x, pa.scalar(0.0, x.type)), pa.scalar(0.0, x.type), x)
