"""`x IN (v1, ..., vn)` where the values are constants: one look-up in a set instead of n comparisons.

Guarantee: the result is that of `x = v1 OR ... OR x = vn`, with every rule of `=` (functions.py): NULL if x is NULL, or
if nothing matches and a value is NULL; NaN equals NaN and -0.0 equals 0.0; a string literal is parsed as the type of x.
The time taken grows with rows + values, not with their product.

Values of one type meet x in one common type, so the values are looked up type by type; a list has few types.
Not here: values that read columns, which stay comparisons (parse.py).
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from evenjoin.spec.coercion import Datum, convert, normal_key
from evenjoin.spec.functions import equal, together


def is_one_of(x: Datum, *values: Datum) -> Datum:
    """Whether x equals one of the values."""
    by_type: dict[pa.DataType, list[Datum]] = {}
    for value in values:
        by_type.setdefault(value.type, []).append(value)
    return reduce(pc.or_kleene, [_among(x, group) for group in by_type.values()])


def _among(x: Datum, values: list[Datum]) -> Datum:
    """`is_one_of` for values of one type."""
    same, first = together(x, values[0])
    if isinstance(x, pa.Scalar) or isinstance(first, pa.Array) or pt.is_null(same.type) or pt.is_nested(same.type):
        return reduce(pc.or_kleene, [equal(x, value) for value in values])
    converted = [convert(value, same.type) for value in values]
    known = [value for value in converted if value.is_valid]
    found = pc.is_in(normal_key(same), value_set=normal_key(pa.array(known, same.type)))
    undecided = pc.is_null(same) if len(known) == len(values) else pc.invert(found)
    return pc.if_else(undecided, pa.scalar(None, pa.bool_()), found)
