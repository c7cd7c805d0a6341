"""Constants as they are written in SQL -> literals of the engine, in the types that Spark gives them.

    5 INT    5L BIGINT    0.3 DECIMAL(1,1)    0.3D DOUBLE    1e3 DOUBLE    'text'    TRUE    NULL    X'61'
    INTERVAL 1 DAY 2 HOURS   DATE '2026-03-08'   TIMESTAMP '2026-03-08 02:30:00'    TIMESTAMP_NTZ '2026-03-08 02:30:00'

A time is text too where it is compared with a time (`moment`): '2026-03-08 02:30:00'.

Guarantee: the value is Spark's. What is written in a way that is not listed in this file is refused or not a literal.
Not here: arithmetic on constants (reader.py).
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

from evenjoin.spec.expr import Literal
from evenjoin.spec.refusals import refusal
from evenjoin.spec.skeleton import tokens
from evenjoin.spec.window import unit_micros
from evenjoin.spec.zone import Zone, micros, offset_micros

_NUMBER = re.compile(r"([+-]?)\s*(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(BD|[YSLDF])?\Z", re.I)
_WHOLE = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64()}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?)?\Z")
_PIECE = re.compile(r"([+-]?\d+)(\.\d{1,6})?\s+(\w+)\s*")
_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
_ESCAPED = re.compile(r"\\(.)|(['\"])\2", re.S)
UTC = "UTC"
DAY = 86_400_000_000
"""Microseconds."""


def literal(text: str, zone: Zone | None, at: int | None) -> Literal | None:
    """The constant that a text is; None if it is something else."""
    words = [word for word, _, _ in tokens(text)]
    first = words[0].upper()
    if len(words) == 1 and first in ("TRUE", "FALSE"):
        return Literal(first == "TRUE", pa.bool_(), at)
    if len(words) == 1 and first == "NULL":
        return Literal(None, pa.null(), at)
    if len(words) == 1 and len(first) > 1 and first[0] in "'\"":
        return Literal(_string(text, at), pa.string(), at)
    if first == "INTERVAL" and len(words) > 1:
        return _interval(text, at)
    if (
        len(words) == 2
        and words[1][0] in "'\""
        and first in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "X")
    ):
        return _typed(text, first, _string(words[1], at), zone, at)
    return _number(text, at)


def whole_days(text: str) -> int | None:
    """The days of an INTERVAL that is written in days and weeks, so that a date moved by it stays a date; else None."""
    units = {word.upper().removesuffix("S") for word in re.findall(r"[A-Za-z]+", text)}
    return int(_interval(text, None).value) // DAY if "INTERVAL" in units <= {"INTERVAL", "DAY", "WEEK"} else None


def moment(text: str, target: pa.DataType, zone: Zone | None, at: int | None) -> Literal:
    """The date or timestamp that a text is, as the target type has it. What has a zone of its own needs none."""
    found = _MOMENT.match(text)
    try:
        day = date.fromisoformat(found[1]) if found else None
        wall = datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}") if found else None
    except ValueError:
        day = wall = None
    if found is None or day is None or wall is None or (pa.types.is_date(target) and found[2] is not None):
        how = "write 'yyyy-mm-dd'" if pa.types.is_date(target) else "write 'yyyy-mm-dd hh:mm:ss', with Z or +hh:mm"
        raise refusal("literal", at, what=repr(text), how=how)
    if pa.types.is_date(target):
        return Literal(day, pa.date32(), at)
    wall = wall.replace(microsecond=int((found[3] or "0").ljust(6, "0")))
    if target.tz is None:
        if found[4] is not None:
            raise refusal("literal", at, what=repr(text), how="a timestamp without time zone has no offset")
        return Literal(micros(wall), pa.timestamp("us"), at)
    return Literal(_instant(text, wall, found[4], zone, at), pa.timestamp("us", UTC), at)


def _instant(text: str, wall: datetime, offset: str | None, zone: Zone | None, at: int | None) -> int:
    if offset is not None:
        own = 0 if offset == "Z" else offset_micros(offset)
        if own is None:
            raise refusal("literal", at, what=repr(text), how="its offset is not one of a clock")
        return micros(wall) - own
    if zone is None:
        raise refusal("zone needed", at, what=repr(text))
    found = zone.instant(wall)
    if found is None:
        raise refusal("clock changes", at, what=repr(text), zone=zone.name)
    return found


def _typed(text: str, kind: str, value: str, zone: Zone | None, at: int | None) -> Literal:
    if kind == "X":
        try:
            return Literal(bytes.fromhex(value), pa.binary(), at)
        except ValueError:
            raise refusal("literal", at, what=text, how="write two hexadecimal digits for each byte") from None
    target = {"DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us")}.get(kind, pa.timestamp("us", UTC))
    return moment(value, target, zone, at)


def _string(quoted: str, at: int | None) -> str:
    if quoted[-1] != quoted[0] or len(quoted) < 2:
        raise refusal("literal", at, what=quoted[:20], how="write it in quotes, without a prefix")

    def plain(found: re.Match[str]) -> str:
        if found[1] is not None and found[1] not in "'\"\\":
            raise refusal("literal", at, what=f"\\{found[1]}", how="write the character itself")
        return found[1] or (found[2] if found[2] == quoted[0] else found[0])

    return _ESCAPED.sub(plain, quoted[1:-1])


def _number(text: str, at: int | None) -> Literal | None:
    found = _NUMBER.match(text)
    if found is None:
        return None
    sign, digits, exponent, suffix = found[1], found[2], found[3] or "", (found[4] or "").upper()
    value = Decimal(f"{sign}{digits}{exponent}")
    if suffix == "D" or (exponent and not suffix):
        return Literal(float(value), pa.float64(), at)
    if suffix == "F":
        if not Decimal(float(np.float32(float(value)))) == value:
            raise refusal("literal", at, what=text, how="write it as a DOUBLE, such as 0.1D")
        return Literal(float(value), pa.float32(), at)
    if suffix in _WHOLE and not exponent and digits.isdigit() and _fits(int(value), _WHOLE[suffix]):
        return Literal(int(value), _WHOLE[suffix], at)
    if suffix in _WHOLE:
        raise refusal("literal", at, what=text, how="its type does not have such numbers")
    types = (pa.int32(), pa.int64()) if not suffix and digits.isdigit() else ()
    whole = next((t for t in types if _fits(int(value), t)), None)
    return Literal(value, _decimal(value, text, at), at) if whole is None else Literal(int(value), whole, at)


def _fits(value: int, t: pa.DataType) -> bool:
    return bool(-(2 ** (t.bit_width - 1)) <= value < 2 ** (t.bit_width - 1))


def _decimal(value: Decimal, text: str, at: int | None) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > 38:
        raise refusal("literal", at, what=text, how="a decimal has at most 38 digits")
    return pa.decimal128(precision, scale)


def _interval(text: str, at: int | None) -> Literal:
    """Weeks to microseconds; only seconds have a fraction."""
    inner = " ".join(word.strip("'\"") for word, _, _ in tokens(text)[1:])
    inner = re.sub(r"([+-]) (?=\d)", r"\1", inner)
    total, position = Decimal(0), 0
    while position < len(inner):
        piece = _PIECE.match(inner, position)
        unit = piece[3].upper().removesuffix("S") if piece else ""
        if piece is None or unit not in _UNITS or (piece[2] and unit != "SECOND"):
            calendar = re.search(r"\b(MONTH|YEAR)S?\b", inner, re.I)
            if calendar:
                raise refusal("months", at, what=text)
            raise refusal("literal", at, what=text, how="write INTERVAL 1 DAY 10 MINUTES, in weeks to microseconds")
        total += Decimal(piece[1] + (piece[2] or "")) * (unit_micros(unit) or 0)
        position = piece.end()
    if not _fits(int(total), pa.int64()):
        raise refusal("literal", at, what=text, how="an interval has at most 2^63 - 1 microseconds")
    return Literal(int(total), pa.duration("us"), at)
