"""Which expressions may fail for a row.

    l.k = r.k AND 100 / l.n > r.x        Spark divides only where the keys are equal; so must we, or not at all

An expression that may fail is computed before dispatch only where Spark computes it for every row too. Nothing in
Spark's public API says whether an expression may fail. So this file knows what cannot: a list of functions, and without
ANSI also arithmetic and casts. Everything else, and each function that a user has registered, may fail.

Guarantee: a text that is called safe does not fail for any row (but for values at the very ends of the calendar).
Not here: what becomes of the others (split.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from evenjoin.spec.skeleton import Slice, Tree, calls, sql, tokens

TypeOf = Callable[[str], DataType | None]
_SAFE = """and or not in between like when then else case if ifnull nvl nvl2 coalesce isnull isnotnull isnan
    upper ucase lower lcase trim ltrim rtrim length char_length character_length octet_length bit_length concat
    concat_ws substring substr left right initcap reverse replace translate instr locate position lpad rpad startswith
    endswith contains ascii soundex md5 sha sha1 crc32 hash xxhash64 base64 hex
    year month day dayofmonth dayofweek dayofyear quarter weekday weekofyear hour minute second date_trunc trunc
    datediff date_diff date_add date_sub last_day unix_date unix_seconds unix_millis unix_micros unix_timestamp_ntz
    sqrt cbrt exp ln log10 sign signum floor ceil ceiling degrees radians sin cos tan
    struct named_struct array map map_keys map_values size cardinality array_contains
    try_cast try_add try_subtract try_multiply try_divide try_element_at interval date timestamp"""
SAFE = frozenset(_SAFE.split())
"""Functions that give a value or NULL for every row, whatever the mode."""
SAFE_WITHOUT_ANSI = SAFE | {"cast", "abs", "negative", "round", "bround", "mod", "pmod", "div", "to_date", "int",
                            "bigint", "double", "float", "decimal", "string"}  # fmt: skip
_ARITHMETIC = {"+", "-", "*", "/", "%", "DIV", "["}
_WIDENING = {ByteType: 1, ShortType: 2, IntegerType: 3, LongType: 4}
_CALM = (TimestampType, TimestampNTZType, DateType, DayTimeIntervalType, DoubleType, FloatType)


def may_fail(tree: Tree, ansi: bool, type_of: TypeOf) -> bool:
    """Whether the expression may fail for a row."""
    if isinstance(tree, Slice):
        return _slice_may_fail(tree.text, ansi) or _moves_by_intervals(tree.text, type_of)
    if any(may_fail(arg, ansi, type_of) for arg in tree.args):
        return True
    if tree.op in ("+", "-", "abs") and _moves_by_intervals(sql(tree), type_of):
        return True
    if not ansi:
        return False
    if tree.op in ("+", "-", "abs"):
        return not isinstance(type_of(sql(tree)), _CALM)
    texts = {isinstance(type_of(sql(arg)), StringType) for arg in tree.args}
    return len(texts) > 1  # text that is compared with something else is cast, and may not be a number or a time


def _slice_may_fail(text: str, ansi: bool) -> bool:
    known = SAFE if ansi else SAFE_WITHOUT_ANSI
    if any(name not in known for name in calls(text)):
        return True
    words = [word.upper() for word, _, _ in tokens(text)]
    if {"RLIKE", "REGEXP", "::"} & set(words):
        return True
    if not ansi:
        return False
    if len(words) == 2 and words[0] in "+-":
        return not words[1][0].isdigit()
    return any(w in _ARITHMETIC and not _is_look_up(words, k) for k, w in enumerate(words))


def _moves_by_intervals(text: str, type_of: TypeOf) -> bool:
    """Whether there is arithmetic with a column of intervals. Its sums fail where they leave the calendar or 64 bits,
    in every mode. Constants do that only at the very ends of the calendar."""
    found = [word for word, _, _ in tokens(text)]
    if not {word.upper() for word in found} & _ARITHMETIC:
        return False
    named = {found[k] for k in range(len(found))} | {"".join(found[k : k + 3]) for k in range(len(found) - 2)}
    return any(
        isinstance(type_of(name), DayTimeIntervalType)
        for name in sorted(named)
        if re.fullmatch(r"\w+(\.\w+)?", name) and not name[0].isdigit()
    )


def _is_look_up(words: list[str], at: int) -> bool:
    """Whether a bracket looks up a key of a map by a string: NULL if it is not there. An index of an array may fail."""
    return words[at] == "[" and at + 1 < len(words) and words[at + 1][0] in "'\""


def cast_may_fail(source: DataType, target: DataType, ansi: bool) -> bool:
    """Whether the cast of a value may fail. Casts that keep every value, and those to text, do not."""
    if not ansi or source == target or isinstance(target, StringType):
        return False
    if isinstance(source, IntegralType) and isinstance(target, IntegralType):
        return _WIDENING[type(source)] > _WIDENING[type(target)]
    if isinstance(target, DoubleType | FloatType):
        return not isinstance(source, IntegralType | DoubleType | FloatType | DecimalType)
    if isinstance(target, DecimalType) and isinstance(source, DecimalType):
        return not widens(source, target)
    times = TimestampType | TimestampNTZType | DateType
    return not (isinstance(source, times) and isinstance(target, times))


def widens(source: DecimalType, target: DecimalType) -> bool:
    """Whether each value of a decimal type is one of the other."""
    return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
