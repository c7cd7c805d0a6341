"""Functions of one row's strings, numbers and calendar fields; FUNCTIONS has them and the operators of functions.py.

    upper lower length concat substring LIKE    floor ceil round    year month day hour minute second

Invariant: as in functions.py, the result type depends on the argument types alone.
Not here: functions with state, of several rows, of the clock, or not deterministic: the condition refuses them.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from evenjoin.spec import coercion
from evenjoin.spec.coercion import Datum, is_numeric, is_temporal, plain
from evenjoin.spec.functions import OPERATORS, TypeMismatch
from evenjoin.spec.membership import is_one_of


def on_text(name: str, kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    def apply(x: Datum) -> Datum:
        return kernel(text(name, x))

    return apply


def text(name: str, x: Datum) -> Datum:
    """``x`` as text; NULL passes, other types do not."""
    x = plain(x)
    if not pt.is_string(x.type) and not pt.is_null(x.type):
        raise TypeMismatch(f"{name} takes text, not {x.type}; CAST it to STRING")
    return x.cast(pa.string())


def literal(name: str, x: Datum) -> object:
    """The value of an argument that must be a constant."""
    if not isinstance(x, pa.Scalar) or not x.is_valid:
        raise TypeMismatch(f"this argument of {name} must be a constant")
    return x.as_py()


def concat(*values: Datum) -> Datum:
    pieces = [text("concat", coercion.cast(v, pa.string())) for v in values]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()), null_handling="emit_null")


def substring(x: Datum, start: Datum, length: Datum | None = None) -> Datum:
    """Spark's substring: the first character is 1, 0 means 1, a negative start counts from the end."""
    x = text("substring", x)
    begin, count = literal("substring", start), None if length is None else literal("substring", length)
    if not isinstance(begin, int) or not (count is None or isinstance(count, int)):
        raise TypeMismatch("substring takes integers")
    if count is not None and count <= 0:
        return pc.utf8_slice_codeunits(x, 0, 0)
    if begin < 0:
        return _from_the_end(x, -begin, count)
    first = max(begin - 1, 0)
    return pc.utf8_slice_codeunits(x, first, None if count is None else first + count)


def _from_the_end(x: Datum, back: int, count: int | None) -> Datum:
    """The characters at -back .. -back+count; those before the text's beginning are cut away, as Spark does."""
    tail = pc.utf8_slice_codeunits(x, -back, None)
    if count is None:
        return tail
    if count >= back:
        return tail
    return pc.utf8_slice_codeunits(x, -back, -back + count)


def like(x: Datum, pattern: Datum) -> Datum:
    value = literal("LIKE", pattern)
    if not isinstance(value, str):
        raise TypeMismatch("LIKE takes a text pattern")
    return pc.match_like(text("LIKE", x), value)


def whole(name: str, kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """floor and ceil: a bigint for integers and floats, a decimal without fraction for decimals."""

    def apply(x: Datum) -> Datum:
        x = number(name, x)
        if pt.is_decimal(x.type):
            return kernel(x).cast(pa.decimal128(min(x.type.precision - x.type.scale + 1, 38), 0))
        return (x if pt.is_integer(x.type) else kernel(x)).cast(pa.int64())

    return apply


def number(name: str, x: Datum) -> Datum:
    x = plain(x)
    if not is_numeric(x.type) and not pt.is_null(x.type):
        raise TypeMismatch(f"{name} takes a number, not {x.type}")
    return x.cast(pa.int32()) if pt.is_null(x.type) else x


def rounded(x: Datum, digits: Datum | None = None) -> Datum:
    """round, halves away from zero."""
    places = 0 if digits is None else literal("round", digits)
    if not isinstance(places, int):
        raise TypeMismatch("round takes an integer number of digits")
    x = number("round", x)
    if pt.is_integer(x.type) and places >= 0:
        return x
    return pc.round(x, places, "half_towards_infinity").cast(x.type)


def field(name: str, kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """A calendar field as a 32-bit integer; a timestamp is read in UTC."""

    def apply(x: Datum) -> Datum:
        x = plain(x)
        if pt.is_string(x.type) and isinstance(x, pa.Scalar):
            x = coercion.cast(x, pa.timestamp("us"))
        if not is_temporal(x.type):
            raise TypeMismatch(f"{name} takes a timestamp or date, not {x.type}")
        return kernel(coercion.convert(x, pa.timestamp("ns" if x.type == pa.timestamp("ns") else "us"))).cast(
            pa.int32()
        )

    return apply


FUNCTIONS: dict[str, Callable[..., Datum]] = OPERATORS | {
    "upper": on_text("upper", pc.utf8_upper),
    "lower": on_text("lower", pc.utf8_lower),
    "length": on_text("length", lambda x: pc.utf8_length(x)),
    "concat": concat,
    "substring": substring,
    "LIKE": like,
    "IN": is_one_of,
    "floor": whole("floor", pc.floor),
    "ceil": whole("ceil", pc.ceil),
    "round": rounded,
    "year": field("year", pc.year),
    "month": field("month", pc.month),
    "day": field("day", pc.day),
    "hour": field("hour", pc.hour),
    "minute": field("minute", pc.minute),
    "second": field("second", pc.second),
}
