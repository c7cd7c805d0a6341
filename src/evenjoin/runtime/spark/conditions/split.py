"""The split: a condition in SQL -> columns for Spark to compute, a condition for the engine, a filter for Spark.

    split("upper(l.s) = r.s AND l.ts <= r.ts + INTERVAL 5 MINUTES AND concat(l.a, r.b) = 'x'", {"l": frame, "r": frame})

    computed       l: {"~0": "(upper(l.s))"}                      Spark adds them to the side before dispatch
    condition      l.~0 = r.s AND l.ts <= r.ts + 5 minutes        columns, literals and the skeleton: the engine's part
    spark_filter   (concat(l.a, r.b)) = 'x'                       Spark's part, on the rows that the engine finds

Guarantee: a combination of rows satisfies the condition  <=>  it satisfies `condition`, over the sides with their
computed columns, and then `spark_filter`. Where Spark fails on a row this may fail or not; where Spark does not, it
does not, but for what is said below. What is not proved goes to Spark's filter or is refused; it is never approximated.

* First Spark checks the condition as that of a join. So rand() is refused by its analyser. A clock is refused by name.
* The skeleton is proved: written again, it means the same (`sameSemantics`).
* A conjunct of one side is a filter. All filters of a side are one computed column, in the order written, unless the
  engine can evaluate them all from plain columns and constants.
* A conjunct of several sides is the engine's if each operand reads one side, or is a sum that keeps its shape
  (values.py). Otherwise it is Spark's. Structs and arrays are equal only if their hashes are, which makes a key.
* Where a filter or a guarded key calls a function of the user's, the side is filtered by Spark beforehand: Spark would
  compute a Python function for every row of a projection, whatever IF or AND stands around it. Rows that are filtered
  out are not counted by the engine.
* What may fail for a row is computed early only where Spark computes it for each row of the side as well: if it is a
  key, guarded by the side's filters. Any other comparison with such an operand is Spark's filter, the first one too:
  where one operand is NULL, Spark does not compute the other.

Not guaranteed: that a key does not fail which Spark would have left out because the other side has no rows at all.
Not here: the arguments of the join, and everything that runs. It reads schemas only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, LongType, StructType

from evenjoin.errors import ConditionError
from evenjoin.runtime.spark.conditions.analyst import Analyst
from evenjoin.runtime.spark.conditions.clocks import check_clock_texts, check_clocks
from evenjoin.runtime.spark.conditions.hints import hints
from evenjoin.runtime.spark.conditions.objects import condition_sql, is_object
from evenjoin.runtime.spark.conditions.travel import arrow_schema
from evenjoin.runtime.spark.conditions.values import Early, Elsewhere, Values, terms
from evenjoin.spec.condition import ALWAYS, NEVER
from evenjoin.spec.expr import Call, Expr, conjunction
from evenjoin.spec.scope import WINDOW, Scope, condition_text
from evenjoin.spec.skeleton import COMPARISONS, Node, SkeletonError, Tree, conjuncts, skeleton, sql, tokens


@dataclass(frozen=True, slots=True)
class Split:
    """A condition, split; see the top of this file. `schemas` are the sides' with their computed columns. `filtered`
    has by what Spark filters a side before it computes them. `elsewhere` has the sides of each conjunct that Spark
    filters results by, and `reasons` why it does."""

    text: str
    filtered: Mapping[str, str]
    computed: Mapping[str, Mapping[str, str]]
    schemas: Mapping[str, pa.Schema]
    condition: Expr
    spark_filter: str | None
    elsewhere: tuple[frozenset[str], ...]
    reasons: tuple[str, ...]
    zone: str
    ansi: bool
    analyst: Analyst = field(repr=False, compare=False)

    def with_computed(self, alias: str, frame: DataFrame) -> DataFrame:
        """A side's frame with the columns that Spark computes for it, under the side's alias."""
        more = self.computed[alias]
        if not self.touches(alias):
            return frame
        named = frame.alias(alias)
        if alias in self.filtered:
            named = named.where(self.filtered[alias])
        return named.select("*", *(sf.expr(text).alias(name) for name, text in more.items()))

    def touches(self, alias: str) -> bool:
        """Whether Spark has something to do with a side before dispatch."""
        return bool(self.computed[alias]) or alias in self.filtered

    @property
    def computes(self) -> bool:
        """Whether Spark evaluates a part of the condition."""
        return self.spark_filter is not None or any(map(self.touches, self.computed))


def split(
    on: str | Sequence[str] | Column | Sequence[Column],
    sides: Mapping[str, Any],
    spark: Any = None,
    *,
    event_time: Mapping[str, str] | None = None,
    window: DataType | None = None,
    analyst: Analyst | None = None,
) -> Split:
    """Split a condition. This signature is stable.

    on: the SQL text, a column name or a list of them, or a Column object. sides: by alias a DataFrame, or anything
    with a `schema` and a `sparkSession`; or a StructType, and then `spark` is needed. event_time: the event-time column
    of each alias that has one. window: the type of the bounds of the join's window, if it has one. analyst: one that
    was asked about these sides before, in the same mode of the session; it remembers its answers.
    A ConditionError says what is wrong and where.
    """
    schemas = {alias: side if isinstance(side, StructType) else side.schema for alias, side in sides.items()}
    session = spark if spark is not None else next(iter(sides.values())).sparkSession
    zone = session.conf.get("spark.sql.session.timeZone", "UTC")
    arrow = {alias: arrow_schema(schema, zone) for alias, schema in schemas.items()}
    analyst = analyst or Analyst(session, schemas, window)
    scope = Scope(arrow, None if window is None else analyst.arrow_type(window))
    text = condition_sql(on, analyst.same_condition) if is_object(on) else condition_text(on, scope)  # type: ignore[arg-type]
    check_text(text, analyst)
    tree = _proved(text, analyst)
    return _Splitter(text, analyst, Values(analyst, scope, event_time or {})).split(tree)


def check_text(text: str, analyst: Analyst) -> None:
    """Refuse what Spark refuses in a join, subqueries and clocks."""
    if not text.strip():
        raise ConditionError("the condition is empty; write one such as a.id = b.id")
    check_names(text, analyst)
    analyst.check(text)
    check_clock_texts(text, analyst)


def check_names(text: str, analyst: Analyst) -> None:
    """Refuse subqueries and functions of the clock, by name."""
    found = tokens(text)
    for (before, _, _), (word, at, _) in pairwise(found):
        if word.lower() == "select" and before == "(":
            raise ConditionError("a subquery is not supported in a stream join", text, at)
    check_clocks(text, analyst)


def _proved(text: str, analyst: Analyst) -> Tree:
    """The skeleton of the condition, if Spark agrees that it is one."""
    try:
        tree = skeleton(text)
    except SkeletonError as error:
        raise ConditionError(f"this is not understood: {error.message}", text, error.at) from None
    if not analyst.same_condition(text, sql(tree)):
        raise ConditionError(
            "it is not clear how this is to be read: put the operands of AND, OR and comparisons in parentheses, or "
            f"compute a part of it as a column before the join. It was read as {sql(tree)}",
            text,
        )
    return tree


class _Splitter:
    """One condition on its way through the split."""

    def __init__(self, text: str, analyst: Analyst, values: Values) -> None:
        self.text, self.analyst, self.values = text, analyst, values
        self.exprs: list[Expr] = []
        self.left: list[tuple[Tree, str]] = []

    def split(self, tree: Tree) -> Split:
        parts = list(dict.fromkeys(conjuncts(tree)))
        several = []
        filters: dict[str, list[Tree]] = {}
        for part in parts:
            sides = self.values.sides(part)
            if not sides:
                self._constant(part)
            elif len(sides) == 1 and WINDOW not in sides:
                filters.setdefault(next(iter(sides)), []).append(part)
            else:
                several.append(part)
        for alias, some in filters.items():
            self._filter(alias, some)
        for part in several:
            self._guard(part)
        for part in several:
            self._several(part, "guarded" if self._is_key(part) else "safe")
        self._near_zero()
        return self._done()

    def _constant(self, part: Tree) -> None:
        try:
            if self.values.predicate(part) != ALWAYS:
                self.exprs.append(NEVER)
        except Elsewhere as reason:
            self.left.append((part, str(reason)))

    def _filter(self, alias: str, parts: list[Tree]) -> None:
        """The filters of a side: the engine's if all of them are of plain columns, else one column of Spark's. It is
        written as a test, because in tests Spark's optimiser takes NULL for FALSE, as it does in its own filters: so it
        leaves out the same parts, which may fail."""
        text = " AND ".join(sql(part) for part in parts)
        self.values.guards[alias] = text
        self.values.early = "no"
        if self.analyst.calls_users(text):
            self.values.filtered.add(alias)
            return
        try:
            self.exprs += [self.values.predicate(part) for part in parts]
        except Elsewhere:
            self.values.early = "guarded"
            boolean = self.analyst.type(text)
            assert boolean is not None
            self.exprs.append(self.values.column(alias, f"IF({text}, TRUE, NULL)", boolean, False))

    def _guard(self, part: Tree) -> None:
        """A row with a NULL in a comparison (but `<=>`) matches nothing. Spark filters it out before it computes keys,
        and so must we."""
        if not isinstance(part, Node) or part.op not in COMPARISONS.values() or part.op == "<=>":
            return
        for term in (term for arg in part.args for term in terms(arg)):
            column = self.values.plain(term)
            if column is not None:
                alias, test = column.name.partition(".")[0], f"{sql(term)} IS NOT NULL"
                known = self.values.guards.get(alias)
                self.values.guards[alias] = test if known is None else f"{known} AND {test}"

    def _is_key(self, part: Tree) -> bool:
        if not isinstance(part, Node) or part.op not in ("=", "<=>"):
            return False
        one, two = (self.values.sides(arg) for arg in part.args)
        return len(one) == len(two) == 1 and one != two and WINDOW not in one | two

    def _several(self, part: Tree, early: Early) -> None:
        values = self.values
        values.early = early
        before = {alias: dict(columns) for alias, columns in values.computed.items()}
        try:
            self.exprs.append(values.predicate(part))
        except Elsewhere as reason:
            values.computed.update(before)
            self.left.append((part, str(reason)))
            if self._is_key(part) and isinstance(part, Node):
                self._hashed(part)
        if isinstance(part, Node) and len(part.args) == 2:
            self.exprs += hints(values, part.op, *part.args)

    def _hashed(self, part: Node) -> None:
        """The key of an equality of structs or arrays: their hashes. Spark's filter compares the values themselves."""
        met = self.analyst.meet(sql(part.args[0]), part.op, sql(part.args[1]))
        if met is None or not isinstance(met.type, StructType | ArrayType) or "collate" in met.type.simpleString():
            return
        keys = []
        for arg, text in zip(part.args, (met.left, met.right), strict=True):
            (alias,) = self.values.sides(arg)
            hashed = f"IF({text} IS NULL, NULL, xxhash64({text}))"
            keys.append(self.values.column(alias, hashed, LongType(), self.values.may_fail(arg)))
        self.exprs.append(Call(part.op, tuple(keys)))

    def _near_zero(self) -> None:
        """Without ANSI a sum of event times must not wrap: a row so near to the end of its type fails."""
        self.values.early = "guarded"
        for alias, names in self.values.near_zero.items():
            for name in sorted(names):
                column = f"`{alias}`.`{name.replace('`', '``')}`"
                most = {1: 2**5, 2: 2**13, 4: 2**29, 8: 2**61}[self._width(alias, name)]
                message = f"{alias}.{name} is so large that a sum of it may wrap; use spark.sql.ansi.enabled=true"
                test = f"{column} IS NULL OR {column} BETWEEN -{most}L AND {most}L"
                text = f"IF({test}, TRUE, raise_error('{message}') IS NULL)"
                boolean = self.analyst.type("TRUE")
                assert boolean is not None
                self.exprs.append(self.values.column(alias, text, boolean, True))

    def _width(self, alias: str, name: str) -> int:
        return int(self.values.scope.schemas[alias].field(name).type.bit_width) // 8

    def _done(self) -> Split:
        values = self.values
        schemas = {}
        for alias, schema in values.scope.schemas.items():
            for name in values.computed[alias]:
                schema = schema.append(pa.field(name, self.analyst.arrow_type(values.types[alias][name])))
            schemas[alias] = schema
        return Split(
            text=self.text,
            filtered={alias: values.guards[alias] for alias in sorted(values.filtered)},
            computed=values.computed,
            schemas=schemas,
            condition=conjunction(list(dict.fromkeys(self.exprs))) or ALWAYS,
            spark_filter=" AND ".join(sql(part) for part, _ in self.left) or None,
            elsewhere=tuple(values.sides(part) for part, _ in self.left),
            reasons=tuple(f"{sql(part)}: {reason}" for part, reason in self.left),
            zone=self.analyst.zone,
            ansi=self.analyst.ansi,
            analyst=self.analyst,
        )
