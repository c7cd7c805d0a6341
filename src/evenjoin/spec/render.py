"""Expressions as SQL text: what error messages, output names and checkpoint fingerprints show.

Invariants: the text depends on the expression alone, not on the user's spelling;
two different expressions have different texts (every operator is in parentheses but the outermost);
what a user can write reads back as an expression with the same meaning. Functions that nobody can write (``time``,
``key``, ``capped``, ...), which condition.py, order.py and band.py add, do not.
Not here: reading it (reader.py).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ATOM = re.compile(
    r"([\w.]+|[\w.]*`[^`]*`|'[^'\\]*'|(?:INTERVAL|DATE|TIMESTAMP|TIMESTAMP_NTZ|X) ?'[^']*'(?: SECOND)?"
    r"|\w+\([^()'`]*\))\Z"
)
_INFIX = {"=", "<>", "<", ">", "<=", ">=", "<=>", "+", "-", "*"}
_SQL_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}


def name_sql(name: str) -> str:
    """An identifier, in backticks when it needs them."""
    return name if _SIMPLE.match(name) else "`" + name.replace("`", "``") + "`"


def type_sql(t: pa.DataType) -> str:
    """A type by its Spark name where it has one, else by its Arrow name."""
    if pt.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pt.is_timestamp(t) and t.unit == "us":
        return "TIMESTAMP_NTZ" if t.tz is None else "TIMESTAMP"
    return _SQL_TYPES.get(t, str(t))


def literal_sql(value: Any, t: pa.DataType) -> str:
    """A constant."""
    if value is None:
        return "NULL"
    if pt.is_duration(t):
        return f"INTERVAL '{format((Decimal(value) / 1_000_000).normalize(), 'f')}' SECOND"
    if pt.is_timestamp(t):
        text = pa.scalar(value, pa.timestamp(t.unit)).cast(pa.string()).as_py()
        return f"{type_sql(t)} '{text}{'' if t.tz is None else 'Z'}'"
    if pt.is_date(t):
        return f"DATE '{value}'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{value!r}{'F' if t == pa.float32() else 'D'}"
    if pt.is_decimal(t):
        text = format(value, "f")
        return text if "." in text else f"{text}BD"
    if pt.is_integer(t) and t != pa.int32():
        return f"{value}{ {8: 'Y', 16: 'S', 64: 'L'}[t.bit_width] }"
    return str(value)


def call_sql(name: str, args: list[str]) -> str:
    """A call, given its arguments as text."""
    if name in ("AND", "OR"):
        return f" {name} ".join(map(_nested, args))
    if name == "IN":
        return f"{_nested(args[0])} IN ({', '.join(args[1:])})"
    if name in _INFIX:
        return f"{_nested(args[0])} {name} {_nested(args[1])}"
    if name == "NOT":
        return f"NOT {_nested(args[0])}"
    if name == "IS NULL":
        return f"{_nested(args[0])} IS NULL"
    if name == "negate":
        return f"-{_nested(args[0])}"
    return f"{name}({', '.join(args)})"


def _nested(text: str) -> str:
    """An operand: in parentheses unless it is one word, one simple call or one quoted thing."""
    return text if _ATOM.match(text) else f"({text})"
