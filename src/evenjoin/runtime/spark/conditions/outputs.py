"""The output of a join on Spark: what the engine emits, and what Spark makes of it.

    select=["o.id", "t.taxi AS taxi"]              the engine emits these columns; Spark has nothing to do
    select=["o.id", "upper(t.name) AS name"]       the engine emits structs o and t; Spark applies the expressions
    a Spark filter (split.py)                      the engine emits structs o and t; Spark applies the filter to them

With one struct column per alias the user's text resolves as it stands: `t.name` is then a field of a struct. Columns
that are named without an alias are lifted out of their struct. The structs hold the columns that the texts name, found
as words of the text, so there may be more than needed but never fewer.

Guarantee: the columns, their names and types are those that Spark gives the same select list over its own join.
Expressions that depend on the clock, on chance or on several rows are refused.
Not here: which part of the condition is the filter (split.py), and where results go (sinks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from evenjoin.errors import ConditionError, SpecError
from evenjoin.runtime.spark.conditions.analyst import Analyst, refusal
from evenjoin.runtime.spark.conditions.clocks import check_clock_texts
from evenjoin.runtime.spark.conditions.objects import column_sql
from evenjoin.runtime.spark.conditions.split import Split, check_names
from evenjoin.spec.expr import Column, Expr, Literal, Struct
from evenjoin.spec.scope import WINDOW, Scope, pointing
from evenjoin.spec.select import Outputs, apart, check_unique, stars, struct_of
from evenjoin.spec.skeleton import COMPARISONS, identifiers, names, tokens

Select = str | SparkColumn | Sequence[str | SparkColumn] | None
"""What a user gives as `select`."""


@dataclass(frozen=True, slots=True)
class Finish:
    """What Spark does with the results of the engine: columns to lift out of their struct, as (alias, name); the
    filter; and the output, as (SQL, name)."""

    lifted: tuple[tuple[str, str], ...]
    filter: str | None
    columns: tuple[tuple[str, str], ...]

    def apply(self, frame: DataFrame) -> DataFrame:
        if self.lifted:
            frame = frame.select("*", *(sf.col(_path(alias, name)).alias(name) for alias, name in self.lifted))
        if self.filter is not None:
            frame = frame.where(self.filter)
        return frame.select(*(sf.expr(text).alias(name) for text, name in self.columns))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a select list: its SQL, the name of its output, and its column if it is no more than that."""

    text: str
    name: str
    column: Column | None


def read_outputs(select: Select, made: Split, scope: Scope) -> tuple[Outputs, Finish | None]:
    """What the engine has to emit, and what Spark does with it (None: nothing). `scope` has the user's columns."""
    entries = _entries(select, made.analyst, scope)
    if entries is not None:
        check_unique([entry.name for entry in entries])
    _check_chars([made.spark_filter or "", *(e.text for e in entries or [] if e.column is None)], made.analyst)
    if made.spark_filter is None and (entries is None or all(entry.column is not None for entry in entries)):
        if entries is None:
            return Outputs(tuple(_structs(scope, None))), None
        return Outputs(tuple((e.name, e.column) for e in entries if e.column is not None)), None
    if entries is None:
        whole = tuple(_structs(scope, None))
        columns = tuple((_quoted(alias), alias) for alias, _ in whole)
        return Outputs(whole), Finish(_lifted([made.spark_filter or ""], scope), made.spark_filter, columns)
    texts = [entry.text for entry in entries] + [made.spark_filter or ""]
    finish = Finish(_lifted(texts, scope), made.spark_filter, tuple((e.text, e.name) for e in entries))
    return Outputs(tuple(_structs(scope, texts)) or (("~", Literal(True, pa.bool_())),)), finish


def _check_chars(texts: Sequence[str], analyst: Analyst) -> None:
    """Refuse comparisons of CHAR columns in results: there they are fields, which Spark does not pad."""
    for text in texts:
        words = {word.upper() for word, _, _ in tokens(text)}
        named = sorted(analyst.padded() & {word.lower() for word in identifiers(text)})
        if named and words & {*COMPARISONS, "IN", "BETWEEN", "LIKE", "CASE"}:
            raise ConditionError(f"{named[0]} is a CHAR column, which Spark pads in some comparisons only: CAST it to "
                                 "STRING before the join", text)  # fmt: skip


def engine_schema(schema: pa.Schema, outputs: Outputs, analyst: Analyst) -> StructType:
    """The schema of what the engine emits, in Spark's types: Arrow does not know collations."""
    plain = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    fields = []
    for (name, expr), known in zip(outputs.pairs, plain.fields, strict=True):
        fields.append(StructField(name, _spark_type(expr, known, analyst), known.nullable))
    return StructType(fields)


def finished_schema(schema: StructType, finish: Finish, analyst: Analyst) -> StructType:
    """The schema of what Spark makes of it. ConditionError if the user's text does not resolve there."""
    try:
        return finish.apply(analyst.spark.createDataFrame([], schema)).schema
    except PySparkException as error:
        raise ConditionError(
            f"Spark cannot apply this to the results of the join: {str(error).splitlines()[0]}", finish.filter or ""
        ) from None


def _spark_type(expr: Expr, known: StructField, analyst: Analyst) -> Any:
    if isinstance(expr, Column):
        return _field(expr, analyst).dataType
    if isinstance(expr, Struct):
        inner = [(name, _field(arg, analyst)) for name, arg in zip(expr.names, expr.args, strict=True)]
        return StructType([StructField(name, field.dataType, field.nullable) for name, field in inner])
    return known.dataType


def _field(expr: Expr, analyst: Analyst) -> StructField:
    assert isinstance(expr, Column)
    alias, _, name = expr.name.partition(".")
    return analyst.schemas[alias][name]


def _entries(select: Select, analyst: Analyst, scope: Scope) -> list[_Entry] | None:
    if select is None:
        return None
    given = [select] if isinstance(select, str | SparkColumn) else list(select)
    listed = [column_sql(c, analyst.same_output) if isinstance(c, SparkColumn) else c for c in given]
    if not listed or not all(isinstance(entry, str) for entry in listed):
        raise SpecError(f"select must be a list of SQL expressions, not {select!r}; leave it out for all columns")
    return [entry for text in listed for entry in _entry(text, analyst, scope)]


def _entry(text: str, analyst: Analyst, scope: Scope) -> list[_Entry]:
    listed = stars(text, scope)
    if listed:
        return [_Entry(_path(*c.name.split(".", 1)), n, c) for n, c in listed if isinstance(c, Column)]
    inner, name = apart(text)
    column = scope.plain(inner)
    if column is not None and (name is not None or analyst.field(inner) is not None):
        return [_Entry(inner, name or column.name.partition(".")[2], column)]
    check_names(text, analyst)
    known = _check(text, inner, analyst, scope)
    check_clock_texts(inner, analyst)
    return [_Entry(inner, name or known, None)]


def _check(text: str, inner: str, analyst: Analyst, scope: Scope) -> str:
    """Let Spark check an output expression, as if it were in the condition. Returns Spark's name for it."""
    try:
        schema = analyst.select(inner).schema
    except PySparkException as error:
        if names(inner) is not None:
            with pointing(text):
                scope.resolve([(part, None) for part in names(inner) or []])
        raise _in_select(refusal(error, text)) from None
    try:
        analyst.check(f"({_without_stars(inner, scope)}) IS NOT NULL")
    except ConditionError as error:
        raise _in_select(error) from None
    return str(schema.names[0])


def _without_stars(text: str, scope: Scope) -> str:
    """The text with columns in place of `l.*`, which Spark takes in a select list only."""

    def columns(found: re.Match[str]) -> str:
        alias = next((a for a in scope.aliases if a.lower() == found[1].lower()), None)
        return found[0] if alias is None else ", ".join(_path(alias, name) for name in scope.schemas[alias].names)

    return re.sub(r"(?<![\w.])`?(\w+)`?\.\*", columns, text)


def _in_select(error: ConditionError) -> ConditionError:
    return ConditionError(str(error).splitlines()[0].replace("the condition", "this in select", 1), error.text)


def _structs(scope: Scope, texts: Iterable[str] | None) -> list[tuple[str, Expr]]:
    """A struct for each alias and the window: of all their columns, or of those that the texts name."""
    words: set[str] | None = None
    if texts is not None:
        listed = list(texts)
        words = {word.lower() for text in listed for word in identifiers(text)}
        if any(word == "*" for text in listed for word, _, _ in tokens(text)):
            words = None  # it may be l.* within a function
    pairs: list[tuple[str, Expr]] = []
    columns = {alias: schema.names for alias, schema in scope.schemas.items()}
    if scope.window is not None and (words is None or WINDOW in words):
        columns[WINDOW] = ["start", "end"]
    for alias, known in columns.items():
        used = [name for name in known if words is None or alias == WINDOW or name.lower() in words]
        if used:
            pairs.append((alias, struct_of(alias, used)))
    return pairs


def _lifted(texts: Sequence[str], scope: Scope) -> tuple[tuple[str, str], ...]:
    """Columns of exactly one side that a text may name without the alias."""
    loose: set[str] = set()
    for text in texts:
        found = tokens(text)
        for k, (word, _, _) in enumerate(found):
            if k == 0 or found[k - 1][0] != ".":
                loose.add(word.strip("`").lower())
    loose -= {alias.lower() for alias in scope.aliases} | {WINDOW}
    lifted = []
    for alias, schema in scope.schemas.items():
        for name in schema.names:
            owners = [a for a, s in scope.schemas.items() if name.lower() in map(str.lower, s.names)]
            if name.lower() in loose and owners == [alias]:
                lifted.append((alias, name))
    return tuple(lifted)


def _path(alias: str, name: str) -> str:
    return f"{_quoted(alias)}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
