"""The functions an expression may call, on Arrow values, with Spark's semantics.

    OPERATORS[name](*values) -> value          each value is an Array or a Scalar; all arrays have one length

* Three-valued logic: NULL in, NULL out, except for ``<=>``, IS NULL, coalesce and Kleene AND / OR.
* NaN = NaN, NaN is greater than everything, -0.0 = 0.0.
* Arithmetic is checked (ANSI): overflow and division by zero are an ArrowInvalid. For moved keys there are try_add,
  which gives NULL instead, and the ``wrap_`` forms on int64, which are right modulo 2**64. For bands: capped,
  finite, steps.
* A string *literal* meets any type by being parsed; a string column meets only strings.

Invariant: a function's result type depends on its arguments' types alone (so zero rows are enough to learn it).
Not here: that CASE, AND, OR and coalesce do not fail for rows that they do not need (expr.py, lazy.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from evenjoin.kernels.band import capped_sum
from evenjoin.kernels.hashing import to_time
from evenjoin.kernels.steps import Steps, step_codes
from evenjoin.spec import coercion
from evenjoin.spec.coercion import Datum, common_type, convert, is_numeric, is_temporal, plain

DAY = 86_400_000_000
"""A day in microseconds."""


class TypeMismatch(Exception):
    """An operator is not defined for the types of its operands."""


def together(*values: Datum) -> tuple[Datum, ...]:
    """The values, converted to their common type. String literals are parsed as the type of the others."""
    target = pa.null()
    adaptive = [isinstance(v, pa.Scalar) and pt.is_string(plain(v).type) for v in values]
    for value, adapts in sorted(zip(values, adaptive, strict=True), key=lambda pair: pair[1]):
        merged = common_type(target, value.type)
        if merged is None and not (adapts and not pt.is_nested(target)):
            raise TypeMismatch(f"{target} and {value.type} do not compare; CAST one of them")
        target = target if merged is None else merged
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
    def apply(*values: Datum) -> Datum:
        for value in values:
            if not pt.is_boolean(value.type) and not pt.is_null(value.type):
                raise TypeMismatch(f"a condition is needed here, not a value of type {value.type}")
        return kernel(*(v.cast(pa.bool_()) for v in values))

    return apply


def arithmetic(name: str, kernel: Callable[[Datum, Datum], Datum]) -> Callable[[Datum, Datum], Datum]:
    def apply(a: Datum, b: Datum) -> Datum:
        a, b = plain(a), plain(b)
        if pt.is_null(a.type):
            a = a.cast(b.type)
        elif pt.is_null(b.type):
            b = b.cast(a.type)
        if is_temporal(a.type) or is_temporal(b.type) or pt.is_duration(a.type) or pt.is_duration(b.type):
            return _temporal(name, a, b)
        if not (is_numeric(a.type) and is_numeric(b.type)):
            raise TypeMismatch(f"{a.type} {name} {b.type} is not defined")
        if pt.is_floating(a.type) or pt.is_floating(b.type):
            a, b = together(a, b)
        elif pt.is_decimal(a.type) or pt.is_decimal(b.type):
            return _narrow(kernel(_wide(a), _wide(b)))
        return kernel(a, b)

    return apply


def _wide(x: Datum) -> Datum:
    """A decimal with room for the result's digits."""
    return (
        x.cast(pa.decimal256(x.type.precision, x.type.scale)) if pt.is_decimal(x.type) and x.type.precision > 18 else x
    )


def _narrow(x: Datum) -> Datum:
    """A decimal in at most Spark's 38 digits; a value that needs more is an ArrowInvalid."""
    return x.cast(pa.decimal128(min(x.type.precision, 38), x.type.scale)) if pt.is_decimal256(x.type) else x


def _temporal(name: str, a: Datum, b: Datum) -> Datum:
    """Timestamp or date +- interval, their differences, interval * integer. A date moved by whole days stays a date."""
    ta, tb = a.type, b.type
    if name == "+" and is_temporal(tb):
        a, b, ta, tb = b, a, tb, ta
    if pt.is_date(ta) and pt.is_integer(tb) and name in "+-":
        days = pc.add_checked if name == "+" else pc.subtract_checked
        return days(a.cast(pa.int32()), b.cast(pa.int32())).cast(pa.date32())
    if is_temporal(ta) and is_temporal(tb) and name == "-":
        a, b = (convert(x, common_type(common_type(ta, tb) or ta, pa.timestamp("us"))) for x in (a, b))
        return pc.subtract_checked(a, b)
    if is_temporal(ta) and pt.is_duration(tb) and name in "+-":
        moved = (pc.add_checked if name == "+" else pc.subtract_checked)(
            convert(a, common_type(ta, pa.timestamp("us"))), b
        )
        whole = pt.is_date(ta) and isinstance(b, pa.Scalar) and b.is_valid and not b.cast(pa.int64()).as_py() % DAY
        return moved.cast(pa.date32()) if whole else moved
    if pt.is_duration(ta) and pt.is_duration(tb) and name in "+-":
        return (pc.add_checked if name == "+" else pc.subtract_checked)(*together(a, b))
    if name == "*" and pt.is_integer(ta) and pt.is_duration(tb):
        a, b, ta, tb = b, a, tb, ta
    if name == "*" and pt.is_duration(ta) and pt.is_integer(tb):
        return pc.multiply_checked(a.cast(pa.int64()), b.cast(pa.int64())).cast(ta)
    raise TypeMismatch(f"{ta} {name} {tb} is not defined; add or subtract an INTERVAL")


def _divide(a: Datum, b: Datum) -> Datum:
    return pc.divide_checked(coercion.as_double(a), coercion.as_double(b))


def _remainder(a: Datum, b: Datum) -> Datum:
    """The remainder, with the sign of the dividend. Costs two passes."""
    if pt.is_floating(a.type):
        pc.divide_checked(a, b)
        rows = len(a) if isinstance(a, pa.Array) else len(b) if isinstance(b, pa.Array) else None
        arrays = [pa.repeat(x, 1 if rows is None else rows) if isinstance(x, pa.Scalar) else x for x in (a, b)]
        with np.errstate(all="ignore"):
            values = np.fmod(*(x.to_numpy(zero_copy_only=False) for x in arrays))
        empty = np.asarray(pc.or_(arrays[0].is_null(), arrays[1].is_null()))
        result = pa.array(values.astype(np.float64), pa.float64(), mask=empty)
        return result if rows is not None else result[0]
    if pt.is_decimal(a.type) or pt.is_decimal(b.type):
        raise TypeMismatch("% is defined for integers and floating-point numbers; CAST the decimal")
    return pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))


def _integer_divide(a: Datum, b: Datum) -> Datum:
    if not (pt.is_integer(a.type) and pt.is_integer(b.type)):
        raise TypeMismatch(f"{a.type} DIV {b.type} is not defined; DIV takes integers")
    return pc.divide_checked(a.cast(pa.int64()), b.cast(pa.int64()))


def try_add(a: Datum, b: Datum) -> Datum:
    """int64 + int64, NULL where it overflows: such a key can equal no int64 key."""
    try:
        return pc.add_checked(a, b)
    except pa.ArrowInvalid:
        total = pc.add(a, b)
        down = pc.less(total, a)
        return pc.if_else(pc.equal(down, pc.less(b, 0)), total, pa.scalar(None, pa.int64()))


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


def _negate(x: Datum) -> Datum:
    return pc.negate_checked(_signed(x, "-"))


def _absolute(x: Datum) -> Datum:
    return pc.abs_checked(_signed(x, "abs"))


def _signed(x: Datum, name: str) -> Datum:
    x = plain(x)
    if not (is_numeric(x.type) or pt.is_duration(x.type) or pt.is_null(x.type)):
        raise TypeMismatch(f"{name} is not defined for {x.type}")
    return x.cast(pa.int32()) if pt.is_null(x.type) else x


def _coalesce(*values: Datum) -> Datum:
    return pc.coalesce(*together(*values))


def case(*args: Datum) -> Datum:
    """CASE with its parts in a row: condition, value, condition, value, ..., default."""
    *values, result = together(*args[1::2], args[-1])
    for condition, value in reversed(list(zip(args[0:-1:2], values, strict=True))):
        if not pt.is_boolean(condition.type) and not pt.is_null(condition.type):
            raise TypeMismatch(f"WHEN takes a condition, not a value of type {condition.type}")
        result = pc.if_else(pc.coalesce(condition.cast(pa.bool_()), pa.scalar(False)), value, result)
    return result


OPERATORS: dict[str, Callable[..., Datum]] = {
    "=": equal,
    "<>": lambda a, b: pc.invert(equal(a, b)),
    "<": less,
    ">": lambda a, b: less(b, a),
    "<=": lambda a, b: pc.invert(less(b, a)),
    ">=": lambda a, b: pc.invert(less(a, b)),
    "<=>": null_safe_equal,
    "AND": logical(pc.and_kleene),
    "OR": logical(pc.or_kleene),
    "NOT": logical(pc.invert),
    "IS NULL": lambda x: pc.is_null(x),
    "+": arithmetic("+", pc.add_checked),
    "-": arithmetic("-", pc.subtract_checked),
    "*": arithmetic("*", pc.multiply_checked),
    "/": arithmetic("/", _divide),
    "%": arithmetic("%", _remainder),
    "DIV": arithmetic("DIV", _integer_divide),
    "try_add": try_add,
    "wrap_add": pc.add,
    "wrap_subtract": pc.subtract,
    "wrap_multiply": pc.multiply,
    "wrap_negate": pc.negate,
    "capped": capped,
    "finite": finite,
    "steps": steps,
    "negate": _negate,
    "abs": _absolute,
    "coalesce": _coalesce,
    "CASE": case,
    "time": to_time,
    "key": coercion.normal_key,
}
