"""Questions to Spark's analyser about pieces of SQL, over empty frames with the schemas of the sides.

    analyst.field("upper(l.s)")                      type and metadata, or None where Spark refuses the text
    analyst.sides("l.a + 1")                         frozenset({"l"}); of a constant frozenset()
    analyst.same("l.a = r.b", "cast(l.a as bigint) = r.b")     True is a proof; False means only: not proved
    analyst.meet("l.a", "=", "r.b")                  the type in which two operands are compared, and their casts
    analyst.constant("INTERVAL 1 DAY", type)         its value

Analysis only, no job, except for `constant`. Public API only, so it works on Spark Connect as well. The frames come
from `createDataFrame([], schema)`, because `sameSemantics` compares analysed plans and a source may spoil it.

Guarantee: what `meet` returns is proved, or follows from equal types. What is not proved is never returned.
Not here: what the answers are used for (split.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, DayTimeIntervalType, StructField, StructType

from evenjoin.errors import ConditionError
from evenjoin.spec.expr import Literal
from evenjoin.spec.scope import WINDOW
from evenjoin.spec.skeleton import identifiers, tokens

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
KERNEL = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(.*\)|string|binary|date|timestamp|timestamp_ntz"
    r"|interval (day|hour|minute|second).*"
)
"""Types that the engine compares as Spark does. Not here: collated strings, structs, arrays, intervals of months."""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FIXED_ZONE = re.compile(r"(UTC|GMT|Z|UT|Etc/(UTC|GMT|UCT|Zulu|Universal)|Etc/GMT[+-]\d+|(UTC|GMT|UT)?[+-]\d.*)\Z")
_SPARKS_OWN = "org.apache.spark.sql.catalyst."
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class Meeting:
    """The type in which two operands are compared, and the SQL that brings each of them there."""

    type: DataType
    left: str
    right: str


class Analyst:
    """Answers questions about texts over the sides; remembers what it has asked. A join with a window has one more
    frame, with the bounds of the window."""

    def __init__(self, spark: SparkSession, schemas: Mapping[str, StructType], window: DataType | None = None) -> None:
        self.spark, self.schemas = spark, dict(schemas)
        self.zone, self.ansi = session_mode(spark.conf)
        self.fixed_zone = _FIXED_ZONE.match(self.zone) is not None
        if window is not None:
            self.schemas[WINDOW] = StructType([StructField("start", window), StructField("end", window)])
        self._frames = {alias: spark.createDataFrame([], schema).alias(alias) for alias, schema in self.schemas.items()}
        self._nothing = spark.createDataFrame([], StructType([]))
        *first, self._last = self._frames.values()
        self._first = reduce(lambda one, two: one.crossJoin(two), first)
        self._joined = self._first.crossJoin(self._last)
        self._fields: dict[str, StructField | None] = {}
        self._sides: dict[str, frozenset[str]] = {}
        self._meetings: dict[tuple[str, str, str], Meeting | None] = {}
        self._constants: dict[tuple[str, str], Literal] = {}
        self._users: dict[str, bool] = {}

    def check(self, text: str) -> None:
        """Let Spark check a condition as that of a join. Its refusal becomes a ConditionError at the place."""
        try:
            with quiet():
                _ = self._first.join(self._last, sf.expr(text)).schema
        except PySparkException as error:
            raise refusal(error, text) from None

    def same_condition(self, text: str, other: Any) -> bool:
        """Whether two conditions of the join mean the same. The other one may be a Column."""
        try:
            with quiet():
                two = self._first.join(self._last, sf.expr(other) if isinstance(other, str) else other)
                return bool(self._first.join(self._last, sf.expr(text)).sameSemantics(two))
        except PySparkException:
            return False

    def same_output(self, text: str, column: Any) -> bool:
        """Whether an output expression and a Column mean the same, and have the same name."""
        try:
            with quiet():
                return bool(self.select(text).sameSemantics(self.select(column)))
        except PySparkException:
            return False

    def select(self, *columns: Any) -> DataFrame:
        """An empty frame of these columns of the join."""
        return self._joined.select(*(sf.expr(c) if isinstance(c, str) else c for c in columns))

    def field(self, text: str) -> StructField | None:
        """Type and metadata of an expression; None where Spark refuses it."""
        if text not in self._fields:
            self._fields[text] = _field(self._joined, text)
        return self._fields[text]

    def type(self, text: str) -> DataType | None:
        found = self.field(text)
        return None if found is None else found.dataType

    def sides(self, text: str) -> frozenset[str]:
        """The sides that a text reads: the one on which Spark resolves it alone, none if it needs no columns. Of a
        text that needs several it is those whose aliases or columns are named in it, or all."""
        if text not in self._sides:
            self._sides[text] = self._read(text)
        return self._sides[text]

    def _read(self, text: str) -> frozenset[str]:
        words = {word.lower() for word in identifiers(text)}
        named = {alias for alias in self._frames if alias.lower() in words}
        if len(named) == 1 and _field(self._frames[next(iter(named))], text) is not None:
            return frozenset(named)  # most texts: one question is enough
        if _field(self._nothing, text) is not None:
            return frozenset()
        alone = [alias for alias, frame in self._frames.items() if _field(frame, text) is not None]
        if len(alone) == 1:
            return frozenset(alone)
        loose = {a for a, s in self.schemas.items() if a not in named and words & {n.lower() for n in s.names}}
        several = frozenset(named if len(named) > 1 else named | loose)
        return several if len(several) > 1 else frozenset(self._frames)

    def padded(self) -> frozenset[str]:
        """The names of all CHAR columns, in lower case."""
        fields = [field for schema in self.schemas.values() for field in schema.fields]
        return frozenset(field.name.lower() for field in fields if char_width(field))

    def calls_users(self, text: str) -> bool:
        """Whether a text calls a function that is not one of Spark's own, such as a Python function."""
        found = [word for word, _, _ in tokens(text)]
        called = [
            k for k in range(len(found) - 1) if found[k + 1] == "(" and re.fullmatch(r"[A-Za-z_]\w*|`.*`", found[k])
        ]
        return any(found[k - 1] == "." if k else False for k in called) or any(
            self._is_users(found[k].strip("`").lower()) for k in called
        )

    def _is_users(self, name: str) -> bool:
        if name not in self._users:
            try:
                with quiet():
                    self._users[name] = not self.spark.catalog.getFunction(name).className.startswith(_SPARKS_OWN)
            except PySparkException:  # a word such as IN
                self._users[name] = False
        return self._users[name]

    def same(self, one: str, other: str) -> bool:
        """Whether Spark's analyser makes the same of both texts."""
        try:
            with quiet():
                frames = [self._joined.select(sf.expr(text).alias("x")) for text in (one, other)]
                return bool(frames[0].sameSemantics(frames[1]))
        except PySparkException:
            return False

    def meet(self, left: str, op: str, right: str) -> Meeting | None:
        """How Spark compares two operands; None if no proposal was proved. They may have any type then."""
        asked = left, op, right
        if asked not in self._meetings:
            self._meetings[asked] = self._meet(left, op, right)
        return self._meetings[asked]

    def _meet(self, left: str, op: str, right: str) -> Meeting | None:
        one, two = self.field(left), self.field(right)
        if one is None or two is None or self.field(f"({left}) {op} ({right})") is None:
            return None
        if one.dataType == two.dataType and any(chars := [char_width(field) for field in (one, two)]):
            return self._meet_padded(left, op, right, one.dataType, chars)
        if one.dataType == two.dataType:
            return Meeting(one.dataType, left, right)
        if isinstance(one.dataType, DayTimeIntervalType) and isinstance(two.dataType, DayTimeIntervalType):
            return Meeting(one.dataType, left, right)  # whatever their fields, they are compared as microseconds
        types = [one.dataType.simpleString(), two.dataType.simpleString()]
        wider = self.type(f"array({left}, {right})[0]")
        proposed = [*types, *([wider.simpleString()] if wider is not None else []), "double"]
        for target in dict.fromkeys(proposed):
            for first in _forms(left, types[0], target):
                for second in _forms(right, types[1], target):
                    if self.same(f"({left}) {op} ({right})", f"({first}) {op} ({second})"):
                        met = self.type(first)
                        return None if met is None else Meeting(met, first, second)
        return None

    def _meet_padded(self, left: str, op: str, right: str, type_: DataType, widths: list[int]) -> Meeting | None:
        """How Spark compares a CHAR column with text: it pads the shorter one. That it pads nothing cannot be proved,
        because the comparison written as it stands is always the same as itself."""
        if widths[0] == widths[1]:
            return Meeting(type_, left, right)
        padded = [f"rpad({text}, {max(widths)}, ' ')" for text in (left, right)]
        for first, second in ((left, padded[1]), (padded[0], right)):
            if self.same(f"({left}) {op} ({right})", f"({first}) {op} ({second})"):
                return Meeting(type_, first, second)
        return None

    def arrow_type(self, type_: DataType) -> pa.DataType:
        """The type in Arrow, timestamps in the session's zone."""
        return to_arrow_schema(StructType([StructField("x", type_)]), timezone=self.zone).field("x").type

    def constant(self, text: str, type_: DataType) -> Literal:
        """The value of a text that reads nothing, in a type that it has already. PySparkException if it fails."""
        asked = text, type_.simpleString()
        if asked not in self._constants:
            target = self.arrow_type(type_)
            with quiet():
                value = self.spark.sql(f"SELECT {text} AS x").toArrow().column("x").combine_chunks()[0]
            self._constants[asked] = Literal(_python(value, target), target)
        return self._constants[asked]


def session_mode(conf: Any) -> tuple[str, bool]:
    """The time zone of a session, and whether it is in ANSI mode."""
    return str(conf.get(ZONE, "UTC")), str(conf.get(ANSI, "true")).lower() == "true"


def refusal(error: PySparkException, text: str) -> ConditionError:
    """Spark's refusal of a text, at the place if Spark tells it."""
    contexts = error.getQueryContext() if isinstance(error, AnalysisException) else []
    message = str(error.getMessage() if hasattr(error, "getMessage") else error)
    message = " ".join(re.split(r"SQLSTATE:|\n\n|== SQL|Invalid expressions", message.strip())[0].split())
    spot = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    position: int | None = None
    if contexts:
        position = int(contexts[0].startIndex())
    elif spot:
        position = sum(len(line) + 1 for line in text.split("\n")[: int(spot[1]) - 1]) + int(spot[2])
    if position is not None and not 0 <= position <= len(text):
        position = None
    return ConditionError(f"Spark refuses the condition: {message}", text, position)


@contextmanager
def quiet() -> Iterator[None]:
    """A refused proposal is an answer, not an error for the log."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _field(frame: DataFrame, text: str) -> StructField | None:
    try:
        with quiet():
            return frame.select(sf.expr(text).alias("x")).schema["x"]
    except PySparkException:
        return None


def char_width(field: StructField) -> int:
    """The width of a CHAR column, which Spark pads before it compares; 0 for anything else."""
    found = re.fullmatch(r"char\((\d+)\)", (field.metadata or {}).get(_CHAR, ""))
    return int(found[1]) if found else 0


def _forms(text: str, source: str, target: str) -> list[str]:
    """Casts of a text that Spark may have made."""
    if source == target:
        return [text]
    forms = [f"cast({text} as {target})"]
    if source in _DIGITS and target.startswith("decimal"):
        forms.append(f"cast(cast({text} as decimal({_DIGITS[source]},0)) as {target})")
    return forms


def _python(value: pa.Scalar, target: pa.DataType) -> Any:
    """The value of a literal of the engine: times as their numbers, which have no limits of Python's."""
    if not value.is_valid:
        return None
    if pa.types.is_duration(target) or pa.types.is_timestamp(target):
        return value.cast(pa.int64()).as_py()
    return value.as_py()
