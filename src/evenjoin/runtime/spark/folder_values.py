"""Columns that are names of folders: `orders/day=2024-05-01/city=a%2Fb/part-0.parquet` has day and city.

    folder_values(path, base)   {"city": "a/b", "day": "2024-05-01"}, from the folders between `base` and the file
    typed(text, field)          the value in the column's declared type

Guarantee: names and values are those that Spark's file source finds (`partitionBy` writes them): % and two digits is a
character, `__HIVE_DEFAULT_PARTITION__` is NULL, folders above `base` do not count, and a folder without "=" ends the
columns of those above it. A text that does not have the declared type is an error, never a NULL.
Not here: which folders a source reads, and what type a column should have (Spark infers it). Pure.
"""

from __future__ import annotations

import posixpath
import re

import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.errors import SpecError
from evenjoin.instance.folders import NOTHING

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


def folder_values(path: str, base: str) -> dict[str, str | None]:
    """The columns that the folders between `base` and a file name, as texts; None is NULL. Both are absolute."""
    whole, above = on_its_system(path), on_its_system(base).rstrip("/") + "/"
    if not whole.startswith(above):
        raise SpecError(f"{path} is not in {base}: give evenjoin.parquet the folder's absolute name")
    found: dict[str, str | None] = {}
    for part in reversed(whole.removeprefix(above).split("/")[:-1]):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(unescaped(name), None if value == NOTHING else unescaped(value))
        elif found:
            break
    return found


def on_its_system(path: str) -> str:
    """A path without the name of its file system: hdfs://host:9000/a/b is /a/b."""
    return posixpath.normpath("/" + SCHEME.sub("", path, count=1).lstrip("/"))


def unescaped(text: str) -> str:
    """A name as it was before Spark wrote it in a path."""
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def typed(text: str | None, field: pa.Field, path: str) -> pa.Scalar:
    """The value of a folder in the declared type of its column. Timestamps are read in the type's zone."""
    type_ = field.type
    if text is None:
        return pa.scalar(None, type_)
    try:
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            wall = pa.scalar(text).cast(pa.timestamp("us"))
            return pc.assume_timezone(wall, type_.tz, ambiguous="earliest").cast(type_)
        return pa.scalar(_plain(text, type_)).cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpecError(f"{path}: the folder's {field.name} = {text!r} is not {type_}: {error}") from error


def _plain(text: str, type_: pa.DataType) -> str:
    """The text, if Spark would read it as a value of this type too: Arrow takes 0x1F for a number, and 1 for true."""
    if pa.types.is_integer(type_) and not re.fullmatch("[+-]?[0-9]+", text):
        raise pa.ArrowInvalid("not a whole number")
    if pa.types.is_boolean(type_) and text.lower() not in ("true", "false"):
        raise pa.ArrowInvalid("neither true nor false")
    return text.removeprefix("+") if pa.types.is_integer(type_) else text
