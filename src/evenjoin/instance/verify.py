"""Real keys behind hashed codes: equal codes do not prove equal keys, so the keys themselves are compared.

Comparing every candidate pair would double the cost of a hot key. Instead a run records the few codes that more
than one of its keys shares (*dirty* codes). For a clean code one comparison per (code, run) decides all its pairs;
pairs of dirty codes are compared one by one. Spark's equality: NaN = NaN, -0.0 = 0.0, NULL only under `<=>`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.band import float_of
from evenjoin.kernels.hashing import from_ordered_int64, is_fixed_width, is_rebuildable, ordered_int64
from evenjoin.spec import JoinSpec
from evenjoin.state.layout import Tuples

Mask = npt.NDArray[np.bool_]


def key_values(spec: JoinSpec, side: int, tuples: Tuples, rows: npt.NDArray[Any]) -> list[pa.Array]:
    """The real keys of some tuples."""
    alias = spec.sides[side].alias
    used = {name for key in spec.sides[side].keys for name in key.columns}
    columns = {name: tuples.column(name[len(alias) + 1 :], rows) for name in used}
    return [key.evaluate(columns, len(rows)) for key in spec.sides[side].keys]


def same_keys(spec: JoinSpec, left: list[pa.Array], right: list[pa.Array]) -> Mask:
    """Whether the keys of each pair are equal."""
    same = np.ones(len(left[0]), np.bool_)
    for one, two, safe in zip(left, right, spec.null_safe, strict=True):
        if is_fixed_width(one.type):
            equal = ordered_int64(one) == ordered_int64(two)
        else:
            equal = np.asarray(pc.fill_null(pc.equal(one, two), False))
        if one.null_count or two.null_count:
            null_one, null_two = np.asarray(one.is_null()), np.asarray(two.is_null())
            equal = np.where(null_one | null_two, null_one & null_two if safe else False, equal)
        same &= equal
    return same


def dirty_codes(spec: JoinSpec, side: int, tuples: Tuples) -> tuple[int, ...]:
    """Codes of a sorted run that more than one key shares. Equal neighbours make a whole group equal."""
    if tuples.layout.codec.exact:
        return ()
    neighbours = np.flatnonzero(tuples.codes[1:] == tuples.codes[:-1])
    if len(neighbours) == 0:
        return ()
    before = key_values(spec, side, tuples, neighbours)
    after = key_values(spec, side, tuples, neighbours + 1)
    different = neighbours[~same_keys(spec, before, after)]
    return tuple(np.unique(tuples.codes[different]).tolist())


def key_names(spec: JoinSpec, side: int, tuples: Tuples, rows: npt.NDArray[np.int64]) -> list[str]:
    """Printable keys of some tuples."""
    values: list[list[Any]]
    if spec.sides[side].keys and not tuples.layout.codec.exact:
        values = [column.to_pylist() for column in key_values(spec, side, tuples, rows)]
    elif spec.key_types and is_rebuildable(spec.key_types[0]):
        values = [from_ordered_int64(tuples.codes[rows], spec.key_types[0]).to_pylist()]
    elif spec.key_types and pa.types.is_floating(spec.key_types[0]):
        values = [float_of(tuples.codes[rows]).tolist()]
    elif spec.key_types and pa.types.is_decimal(spec.key_types[0]):
        scale = spec.key_types[0].scale
        values = [[Decimal(code).scaleb(-scale) for code in tuples.codes[rows].tolist()]]
    else:
        values = [tuples.codes[rows].tolist()]
    return [", ".join(map(str, key)) for key in zip(*values, strict=True)]
