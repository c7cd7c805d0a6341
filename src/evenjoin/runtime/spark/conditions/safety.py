"""Which expressions may fail for a row.

    l.k = r.k AND 100 / l.n > r.x        Spark divides only where the keys are equal; so must we, or not at all
    l.k = r.k AND year(l.s) <= r.y       under ANSI Spark casts the text to a date by itself, and fails for 'abc'

An expression that may fail is computed before dispatch only where Spark computes it for every row too. Nothing in
Spark's public API says whether an expression may fail. So this file knows what cannot: a list of functions, and without
ANSI also arithmetic and casts. Everything else, and each function that a user has registered, may fail.

Under ANSI Spark's own casts widen a type, but for those from text and for decimals that meet beyond 38 digits. So an
expression is taken apart (shapes.py), Spark is asked for the type of each argument, and

* text is safe only where a function takes text (`_TEXT`);
* values that become one type (`_MERGING`, CASE, comparisons) are safe if each of them can be cast to it.

Guarantee: a text that is called safe does not fail for any row (but for values at the very ends of the calendar).
Not here: what becomes of the others (split.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pyspark.sql.types import (
    ArrayType,
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
    MapType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from evenjoin.runtime.spark.conditions.shapes import Shape, shape
from evenjoin.spec.skeleton import SkeletonError, Slice, Tree, calls, skeleton, sql, tokens

TypeOf = Callable[[str], DataType | None]
_TEXTUAL = """upper ucase lower lcase trim ltrim rtrim length char_length character_length octet_length bit_length
    concat_ws initcap reverse replace translate instr startswith endswith contains ascii soundex md5 sha sha1 crc32 hash
    xxhash64 base64 hex like isnull isnotnull struct named_struct size cardinality map_keys map_values try_cast ."""
_TEXT_FIRST = "substring substr left right date_trunc"
_TEXT = {
    **dict.fromkeys(_TEXTUAL.split(), range(1_000)),
    **dict.fromkeys(_TEXT_FIRST.split(), range(1)),
    **dict.fromkeys(["locate", "position"], range(2)),
    **dict.fromkeys(["lpad", "rpad"], range(0, 3, 2)),
    "trunc": range(1, 2),
}
"""Functions that take text, and at which places."""
_OF_OTHERS = """year month day dayofmonth dayofweek dayofyear quarter weekday weekofyear hour minute second datediff
    date_diff date_add date_sub last_day unix_date unix_seconds unix_millis unix_micros
    sqrt cbrt exp ln log10 sign signum floor ceil ceiling degrees radians sin cos tan isnan
    try_add try_subtract try_multiply try_divide"""
"""Functions of numbers and times: they take no text."""
_TO_WHOLE = {"floor", "ceil", "ceiling"}
"""What they make of a double may be beyond 64 bits."""
_MERGING = {"coalesce": 0, "nvl": 0, "ifnull": 0, "concat": 0, "if": 1, "nvl2": 1, "array": 0}
"""Functions whose arguments, from this one on, are brought to the type of the result; of an array, of its elements."""
_CASTS = {"cast", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp",
          "string", "binary"}  # fmt: skip
SAFE = frozenset({*_TEXT, *_OF_OTHERS.split(), *_MERGING, "array_contains", "case", "[]", ""})
"""Functions that give a value or NULL for every row of the right types, whatever the mode."""
_WORDS = {"and", "or", "not", "in", "between", "when", "then", "else", "interval", "like", "ilike"}
SAFE_WITHOUT_ANSI = SAFE | _WORDS | _CASTS | {"abs", "negative", "round", "bround", "mod", "pmod", "div", "to_date"}
_ARITHMETIC = {"+", "-", "*", "/", "%", "DIV", "["}
_WIDENING = {ByteType: 1, ShortType: 2, IntegerType: 3, LongType: 4}
_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_CALM = (TimestampType, TimestampNTZType, DateType, DayTimeIntervalType, DoubleType, FloatType)


def may_fail(tree: Tree, ansi: bool, type_of: TypeOf) -> bool:
    """Whether the expression may fail for a row."""
    if isinstance(tree, Slice):
        fails = _slice_may_fail(tree.text, type_of) if ansi else _slice_may_fail_without_ansi(tree.text)
        return fails or _moves_by_intervals(tree.text, type_of)
    if any(may_fail(arg, ansi, type_of) for arg in tree.args):
        return True
    if tree.op in ("+", "-", "abs") and _moves_by_intervals(sql(tree), type_of):
        return True
    if not ansi:
        return False
    if tree.op in ("+", "-", "abs"):
        return not isinstance(type_of(sql(tree)), _CALM)
    return meeting_may_fail([sql(arg) for arg in tree.args], type_of)


def _slice_may_fail_without_ansi(text: str) -> bool:
    if any(name not in SAFE_WITHOUT_ANSI for name in calls(text)):
        return True
    found = [word.upper() for word, _, _ in tokens(text)]
    patterns = [k for k, word in enumerate(found) if word in ("LIKE", "ILIKE")]
    if any(not re.fullmatch(r"""'[^'\\]*'|"[^"\\]*\"""", "".join(found[k + 1 : k + 2])) for k in patterns):
        return True
    return bool({"RLIKE", "REGEXP", "ESCAPE", "::"} & set(found))


def _slice_may_fail(text: str, type_of: TypeOf) -> bool:
    """Under ANSI: by the function, the types of its arguments and of its result, and then each argument for itself."""
    found = shape(text)
    if found is None:
        return True
    if not found.name:
        return False
    if any(_text_may_fail(arg, type_of) for arg in found.args):
        return True
    types = [type_of(arg) for arg in found.args]
    if None in types:
        return True
    return call_may_fail(found, [t for t in types if t is not None], type_of(text), type_of)


def _text_may_fail(text: str, type_of: TypeOf) -> bool:
    try:
        return may_fail(skeleton(text), True, type_of)
    except SkeletonError:
        return True


def call_may_fail(found: Shape, types: list[DataType], result: DataType | None, type_of: TypeOf) -> bool:
    """Whether a call may fail for values of these types, though its arguments do not: it is unknown, or casts one."""
    if result is None or found.name not in SAFE | _CASTS:
        return True
    if found.name in _MERGING:
        target = result.elementType if found.name == "array" and isinstance(result, ArrayType) else result
        return any(cast_may_fail(t, target, True) for t in types[_MERGING[found.name] :])
    if found.name in _CASTS:
        return len(types) != 1 or cast_may_fail(types[0], result, True)
    if found.name == "case":
        return _case_may_fail(found, types, result, type_of)
    if found.name in _TO_WHOLE and (len(types) != 1 or isinstance(types[0], DoubleType | FloatType)):
        return True
    if found.name == "array_contains":
        return not isinstance(types[0], ArrayType) or types[0].elementType != types[1]
    if found.name == "[]":
        return not isinstance(types[0], MapType) or types[0].keyType != types[1]
    places = _TEXT.get(found.name, ())
    return any(isinstance(t, StringType) and k not in places for k, t in enumerate(types))


def _case_may_fail(found: Shape, types: list[DataType], result: DataType, type_of: TypeOf) -> bool:
    """CASE compares what follows it with each WHEN, and brings all its results to one type."""
    parts = list(zip(found.roles, found.args, types, strict=True))
    if any(cast_may_fail(type_, result, True) for role, _, type_ in parts if role in ("THEN", "ELSE")):
        return True
    role, base, _ = parts[0]
    compared = [text for role, text, _ in parts if role == "WHEN"] if role == "CASE" else []
    return any(meeting_may_fail([base, text], type_of) for text in compared)


def meeting_may_fail(texts: Sequence[str], type_of: TypeOf) -> bool:
    """Whether values may fail to become the type in which they are compared. Text that meets something else is cast to
    that."""
    types = [type_of(text) for text in texts]
    if None in types:
        return True
    if all(t == types[0] for t in types):
        return False
    known = [t for t in types if t is not None and not isinstance(t, NullType)]
    if len({isinstance(t, StringType) for t in known}) > 1:
        return True
    common = type_of(f"array({', '.join(texts)})[0]")
    return common is None or any(cast_may_fail(t, common, True) for t in known)


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


def cast_may_fail(source: DataType, target: DataType, ansi: bool) -> bool:
    """Whether the cast of a value may fail. Casts that keep every value, and those to text, do not."""
    if not ansi or source == target or isinstance(target, StringType) or isinstance(source, NullType):
        return False
    if isinstance(source, IntegralType) and isinstance(target, IntegralType):
        return _WIDENING[type(source)] > _WIDENING[type(target)]
    if isinstance(target, DoubleType | FloatType):
        return not isinstance(source, IntegralType | DoubleType | FloatType | DecimalType)
    if isinstance(target, DecimalType) and isinstance(source, IntegralType):
        return not widens(DecimalType(_DIGITS[type(source)], 0), target)
    if isinstance(target, DecimalType) and isinstance(source, DecimalType):
        return not widens(source, target)
    if isinstance(source, DayTimeIntervalType) and isinstance(target, DayTimeIntervalType):
        return False
    times = TimestampType | TimestampNTZType | DateType
    return not (isinstance(source, times) and isinstance(target, times))


def widens(source: DecimalType, target: DecimalType) -> bool:
    """Whether each value of a decimal type is one of the other."""
    return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
