"""Real keys behind hashed codes: equal codes do not prove equal keys, so the keys themselves are compared.

Comparing every candidate pair would double the cost of a hot key. Instead a run records the few codes that more
than one of its keys shares (*dirty* codes). For a clean code one comparison per (code, run) decides all its pairs.
Tuples with dirty codes are matched by a second hash of their keys (`key_checks`), and only the pairs that are left are
compared one by one. So n keys that share a code cost O(n log n), not n^2 comparisons.

Equality is Spark's: NaN = NaN, -0.0 = 0.0, and NULL equals NULL only under `<=>`.
Not here: joins with exact codes, where equal codes are equal keys and nothing is compared (kernels/hashing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.hashing import I64, is_fixed_width, ordered_int64
from evenjoin.spec import JoinSpec
from evenjoin.spec.expr import Expr
from evenjoin.state.tuples import InOrder, Tuples

Mask = npt.NDArray[np.bool_]


def key_values(spec: JoinSpec, side: int, index: int, tuples: Tuples, rows: npt.NDArray[Any]) -> list[pa.Array]:
    """The real keys of some tuples, those of an index of their side: one column for each part of the key."""
    return values_of(spec.sides[side].indexes[index].exprs, spec.sides[side].alias, tuples, rows)


def values_of(exprs: Sequence[Expr], alias: str, tuples: Tuples, rows: npt.NDArray[Any]) -> list[pa.Array]:
    """What expressions over the columns of a side are for some of its tuples."""
    used = {name for expr in exprs for name in expr.columns}
    columns = {name: tuples.column(name[len(alias) + 1 :], rows) for name in used}
    return [expr.evaluate(columns, len(rows)) for expr in exprs]


def key_checks(spec: JoinSpec, side: int, index: int, tuples: Tuples, rows: npt.NDArray[Any]) -> I64:
    """A second hash of the real keys of some tuples, independent of their codes."""
    return tuples.schema.codecs[index].checks(key_values(spec, side, index, tuples, rows))


def same_keys(null_safe: Sequence[bool], left: list[pa.Array], right: list[pa.Array]) -> Mask:
    """Whether the keys of each pair are equal; `null_safe` says for each part of a key whether NULL equals NULL."""
    same = np.ones(len(left[0]), np.bool_)
    for one, two, safe in zip(left, right, null_safe, strict=True):
        if is_fixed_width(one.type):
            equal = ordered_int64(one) == ordered_int64(two)
        elif pa.types.is_null(one.type):  # all are NULL, and what that means is said below
            equal = np.zeros(len(one), np.bool_)
        else:
            equal = np.asarray(pc.fill_null(pc.equal(one, two), False))
        if one.null_count or two.null_count:
            null_one, null_two = np.asarray(one.is_null()), np.asarray(two.is_null())
            equal = np.where(null_one | null_two, null_one & null_two if safe else False, equal)
        same &= equal
    return same


def dirty_codes(spec: JoinSpec, side: int, index: int, tuples: Tuples, ordered: InOrder) -> tuple[int, ...]:
    """The codes of an index that more than one key of these tuples shares. `ordered` are the tuples in the order of
    the index. Comparing each with the next is enough: if all neighbours within a code have equal keys, then all its
    keys are equal."""
    if tuples.schema.codecs[index].exact:
        return ()
    codes, _, at = ordered
    neighbours = np.flatnonzero(codes[1:] == codes[:-1])
    if len(neighbours) == 0:
        return ()
    one, two = (rows if at is None else at[rows] for rows in (neighbours, neighbours + 1))
    before = key_values(spec, side, index, tuples, one)
    after = key_values(spec, side, index, tuples, two)
    different = neighbours[~same_keys(spec.sides[side].indexes[index].null_safe, before, after)]
    return tuple(np.unique(codes[different]).tolist())
