"""What an expression may call, on Arrow values: comparisons, logic, sums, and what keys and bands are made with.

    FUNCTIONS[name](*values) -> value          each value is an Array or a Scalar; all arrays have one length

* Three-valued logic: NULL in, NULL out, except for ``<=>``, IS NULL and Kleene AND / OR.
* NaN = NaN, NaN is greater than everything, -0.0 = 0.0.
* Sums of integers and times are in 64 bits, and NULL where they leave them: Spark fails there. Sums of floats are made
  in the order written. Those of decimals keep all digits. For moved keys there are ``wrap_`` forms, right modulo 2**64.
  For bands: capped, finite, steps.

Invariant: a function's result type depends on its arguments' types alone (so zero rows are enough to learn it), and it
does not fail for a value, but for unsigned integers beyond 63 bits and times beyond 64 bits of nanoseconds.
Not here: any other function of SQL. Spark evaluates those, and without Spark they are refused (reader.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from evenjoin.kernels.band import capped_sum
from evenjoin.kernels.hashing import to_time
from evenjoin.kernels.steps import Steps, step_codes
from evenjoin.spec import coercion
from evenjoin.spec.coercion import Datum, as_decimal_type, common_type, convert, is_numeric, is_temporal, plain

DAY = 86_400_000_000
"""Microseconds."""


class TypeMismatch(Exception):
    """An operator is not defined for the types of its operands."""


def together(*values: Datum) -> tuple[Datum, ...]:
    """The values, converted to their common type."""
    target = pa.null()
    for value in values:
        merged = common_type(target, value.type)
        if merged is None:
            raise TypeMismatch(f"{target} and {value.type} do not compare")
        target = merged
    return tuple(convert(v, target) for v in values)


def equal(a: Datum, b: Datum) -> Datum:
    a, b = together(a, b)
    same = _compare(pc.equal, a, b)
    if pt.is_floating(a.type):
        same = pc.or_kleene(same, pc.and_kleene(pc.is_nan(a), pc.is_nan(b)))
    return same


def less(a: Datum, b: Datum) -> Datum:
    a, b = together(a, b)
    below = _compare(pc.less, a, b)
    if pt.is_floating(a.type):
        below = pc.or_kleene(below, pc.and_kleene(pc.invert(pc.is_nan(a)), pc.is_nan(b)))
    return below


def _compare(kernel: Callable[[Datum, Datum], Datum], a: Datum, b: Datum) -> Datum:
    if pt.is_null(a.type):
        return pc.and_kleene(a.cast(pa.bool_()), b.cast(pa.bool_()))
    return kernel(a, b)


def null_safe_equal(a: Datum, b: Datum) -> Datum:
    a, b = together(a, b)
    either = pc.or_(pc.is_null(a), pc.is_null(b))
    return pc.if_else(either, pc.and_(pc.is_null(a), pc.is_null(b)), pc.coalesce(equal(a, b), pa.scalar(False)))


def logical(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    return lambda *values: kernel(*(v.cast(pa.bool_()) for v in values))


def is_one_of(x: Datum, *values: Datum) -> Datum:
    """`x = v1 OR ... OR x = vn` for constants of one type, which is that of x: one look-up in a set instead of n
    comparisons. NULL if x is NULL, or if nothing matches and a value is NULL."""
    if isinstance(x, pa.Scalar):
        return reduce(pc.or_kleene, [equal(x, value) for value in values])
    same = plain(x)
    converted = [convert(value, same.type) for value in values]
    known = [value for value in converted if value.is_valid]
    found = pc.is_in(coercion.normal_key(same), value_set=coercion.normal_key(pa.array(known, same.type)))
    undecided = pc.is_null(same) if len(known) == len(values) else pc.invert(found)
    return pc.if_else(undecided, pa.scalar(None, pa.bool_()), found)


def added(a: Datum, b: Datum) -> Datum:
    return _sum("+", *_typed(a, b))


def subtracted(a: Datum, b: Datum) -> Datum:
    return _sum("-", *_typed(a, b))


def _typed(a: Datum, b: Datum) -> tuple[Datum, Datum]:
    """Both plain; a NULL without a type has that of the other one."""
    a, b = plain(a), plain(b)
    a = a.cast(b.type) if pt.is_null(a.type) else a
    return a, b.cast(a.type) if pt.is_null(b.type) else b


def _sum(name: str, a: Datum, b: Datum) -> Datum:
    ta, tb = a.type, b.type
    if not (is_numeric(ta) and is_numeric(tb)):
        return _moved(name, a, b)
    kernel = pc.add if name == "+" else pc.subtract
    if pt.is_integer(ta) and pt.is_integer(tb):
        return _whole_sum(name, a.cast(pa.int64()), b.cast(pa.int64()))
    if pt.is_floating(ta) or pt.is_floating(tb):
        return kernel(*together(a, b))
    return kernel(a.cast(as_decimal_type(ta)), b.cast(as_decimal_type(tb)))


def _whole_sum(name: str, a: Datum, b: Datum) -> Datum:
    """int64 +- int64, NULL where it overflows."""
    try:
        return (pc.add_checked if name == "+" else pc.subtract_checked)(a, b)
    except pa.ArrowInvalid:
        total = (pc.add if name == "+" else pc.subtract)(a, b)
        downwards = pc.less(b, 0) if name == "+" else pc.greater(b, 0)
        return pc.if_else(pc.equal(pc.less(total, a), downwards), total, pa.scalar(None, pa.int64()))


def _moved(name: str, a: Datum, b: Datum) -> Datum:
    """Times +- intervals, their differences, sums of intervals. A date moved by whole days stays a date."""
    if name == "+" and is_temporal(b.type):
        a, b = b, a
    ta, tb = a.type, b.type
    if pt.is_date(ta) and pt.is_integer(tb):
        return (pc.add if name == "+" else pc.subtract)(a.cast(pa.int32()), b.cast(pa.int32())).cast(pa.date32())
    if is_temporal(ta) and is_temporal(tb) and name == "-":
        target = _as_timestamp(ta, tb)
        return _units(name, convert(a, target), convert(b, target), pa.duration(target.unit))
    if is_temporal(ta) and pt.is_duration(tb):
        target = _as_timestamp(ta, pa.timestamp(tb.unit))
        moved = _units(name, convert(a, target), b.cast(pa.duration(target.unit)), target)
        days = pt.is_date(ta) and isinstance(b, pa.Scalar) and b.is_valid and not b.cast(pa.int64()).as_py() % DAY
        return moved.cast(pa.date32()) if days else moved
    if pt.is_duration(ta) and pt.is_duration(tb):
        a, b = together(a, b)
        return _units(name, a, b, a.type)
    raise TypeMismatch(f"{ta} {name} {tb} is not defined")


def _as_timestamp(*types: pa.DataType) -> pa.DataType:
    """The timestamp type that holds values of these dates and timestamps."""
    return reduce(lambda a, b: common_type(a, b) or a, [*types, pa.timestamp("us")])


def _units(name: str, a: Datum, b: Datum, target: pa.DataType) -> Datum:
    """A sum of times that are counted in one unit."""
    return _whole_sum(name, a.cast(pa.int64()), b.cast(pa.int64())).cast(target)


def absolute(x: Datum) -> Datum:
    x = plain(x)
    if not pt.is_integer(x.type):
        return pc.abs(x)
    size = pc.abs(x.cast(pa.int64()))
    return pc.if_else(pc.less(size, 0), pa.scalar(None, pa.int64()), size)


def capped(*args: Datum) -> Datum:
    """value * coefficient + ..., as int64, or 2**62 with its sign where the sum is beyond that. For sums by which a
    band sorts."""
    values = args[0::2]
    rows = next((len(v) for v in values if isinstance(v, pa.Array)), 0)
    arrays = [v if isinstance(v, pa.Array) else pa.repeat(v, rows) for v in values]
    total = capped_sum([(np.asarray(v.fill_null(0)), c.as_py()) for v, c in zip(arrays, args[1::2], strict=True)])
    missing = np.zeros(rows, np.bool_)
    for array in arrays:
        missing |= np.asarray(array.is_null())
    return pa.array(total, pa.int64(), mask=missing)


def finite(x: Datum) -> Datum:
    """The float itself; NULL where it is NaN or infinite."""
    return pc.if_else(pc.is_finite(x), x, pa.scalar(None, x.type))


def steps(x: Datum, exponent: Datum, bits: Datum) -> Datum:
    """The steps of floats (kernels/steps.py), as int64."""
    array = x if isinstance(x, pa.Array) else pa.array([x.as_py()], pa.float64())
    codes = step_codes(np.asarray(array.fill_null(0.0)), Steps(exponent.as_py(), bits.as_py()))
    return pa.array(codes, pa.int64(), mask=np.asarray(array.is_null()))


FUNCTIONS: dict[str, Callable[..., Datum]] = {
    "=": equal,
    "<>": lambda a, b: pc.invert(equal(a, b)),
    "<": less,
    ">": lambda a, b: less(b, a),
    "<=": lambda a, b: pc.invert(less(b, a)),
    ">=": lambda a, b: pc.invert(less(a, b)),
    "<=>": null_safe_equal,
    "IN": is_one_of,
    "AND": logical(pc.and_kleene),
    "OR": logical(pc.or_kleene),
    "NOT": logical(pc.invert),
    "IS NULL": lambda x: pc.is_null(x),
    "+": added,
    "-": subtracted,
    "abs": absolute,
    "wrap_add": pc.add,
    "wrap_subtract": pc.subtract,
    "wrap_multiply": pc.multiply,
    "wrap_negate": pc.negate,
    "*": lambda a, b: pc.multiply(*together(a, b)),
    "negate": lambda x: pc.negate(plain(x)),
    "capped": capped,
    "finite": finite,
    "steps": steps,
    "time": to_time,
    "key": coercion.normal_key,
}
