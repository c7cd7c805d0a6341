"""Rows by the folders that their values name, as Spark names them for `partitionBy`.

    k = 'a/b', d = 2024-01-02      k=a%2Fb/d=2024-01-02
    k = NULL or ''                 k=__HIVE_DEFAULT_PARTITION__

Guarantee: rows with equal values come to one folder, whose name is Spark's, for strings, whole numbers, booleans and
dates (`can_be_folders`). As in Spark NULL and the empty string share a folder: a reader finds NULL there.
Cost: a sort of the rows by folder; names are made once for each folder. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NOTHING = "__HIVE_DEFAULT_PARTITION__"
ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\{[]^", "\x7f"}
"""The characters that Spark writes as % and two digits."""


def can_be_folders(type_: pa.DataType) -> bool:
    """Whether values of this type become folders here."""
    kinds = (pa.types.is_string, pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_date32)
    return any(is_kind(type_) for is_kind in kinds)


def by_folder(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder. All columns stay."""
    encoded = [_codes(table.column(name)) for name in columns]
    whole = np.zeros(table.num_rows, np.int64)
    for codes, names in encoded:
        whole = np.unique(whole * len(names) + codes, return_inverse=True)[1]
    order = np.argsort(whole, kind="stable")
    starts = np.flatnonzero(np.diff(whole[order], prepend=-1))
    ordered = table.take(pa.array(order)).combine_chunks()
    for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        row = order[start]
        parts = [f"{escaped(name)}={names[codes[row]]}" for name, (codes, names) in zip(columns, encoded, strict=True)]
        yield "/".join(parts), ordered.slice(start, end - start)


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A number for each row's value, and the name of the folder by number."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    values: list[Any] = encoded.dictionary.to_pylist() if not _is_date(encoded) else _dates(encoded.dictionary)
    return np.asarray(encoded.indices, np.int64), [_folder(value) for value in values]


def _is_date(encoded: pa.DictionaryArray) -> bool:
    return bool(pa.types.is_date32(encoded.dictionary.type))


def _dates(days: pa.Array) -> list[str | None]:
    """Dates as Spark writes them: four digits for the year, or a sign and more."""
    known = pc.fill_null(days.cast(pa.int32()), 0)
    texts = np.datetime_as_string(np.asarray(known).astype("datetime64[D]"))
    named = [f"+{text}" if len(text) > 10 and text[0] != "-" else str(text) for text in texts]
    return [name if valid else None for name, valid in zip(named, days.is_valid().to_pylist(), strict=True)]


def _folder(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    return escaped(str(value).lower() if isinstance(value, bool) else str(value))


def escaped(text: str) -> str:
    """A name as Spark writes it in a path."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in text)
