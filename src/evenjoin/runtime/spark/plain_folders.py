"""A side that is a plain `spark.readStream.parquet(folder)`: one line of advice to use `evenjoin.parquet`.

Such a side is not taken over silently, because pyarrow's reader is not Spark's in every corner: dates of the Julian
calendar, types that Spark widens, corrupt and missing files, options and settings of the session that only Spark's
reader knows. Who writes `evenjoin.parquet` has chosen that reader; who writes `spark.readStream` has not.

Advice is given where nothing but plain columns and simple comparisons stands above the folder: then `evenjoin.parquet`
can do the same. Nothing is said on Spark Connect, which does not show the plan.
"""

from __future__ import annotations

from typing import Any

SIMPLE = frozenset(
    ["AttributeReference", "Literal", "Cast", "And", "EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan",
     "GreaterThanOrEqual", "IsNull", "IsNotNull"]
)  # fmt: skip
"""The classes of Spark's expressions that a filter may have; the condition of a join takes all of them."""


def folder_advice(alias: str, frame: Any) -> str | None:
    """The line for a side; None if there is nothing to advise."""
    try:
        found = _plain_folder(frame._jdf.queryExecution().analyzed())
    except Exception:  # Spark Connect, or a Spark whose plans look otherwise
        return None
    if found is None:
        return None
    path, filtered = found
    where = ", with its filters in the condition" if filtered else ""
    return f"side {alias!r} is read faster by evenjoin.parquet(spark, {path!r}) than by spark.readStream{where}"


def _plain_folder(plan: Any) -> tuple[str, bool] | None:
    """The folder of parquet files that a plan reads, and whether it filters them; None if it does anything else."""
    filtered = False
    while plan.nodeName() in ("Project", "Filter", "SubqueryAlias"):
        if plan.nodeName() == "Project" and not all(_kind(column) == "AttributeReference" for column in _columns(plan)):
            return None
        if plan.nodeName() == "Filter":
            filtered = True
            if not _simple(plan.condition()):
                return None
        plan = plan.children().apply(0)
    if plan.nodeName() != "StreamingRelation" or plan.dataSource().className().lower() != "parquet":
        return None
    return str(plan.dataSource().options().apply("path")), filtered


def _columns(plan: Any) -> list[Any]:
    columns = plan.projectList()
    return [columns.apply(number) for number in range(columns.size())]


def _simple(expression: Any) -> bool:
    parts = expression.children()
    return _kind(expression) in SIMPLE and all(_simple(parts.apply(number)) for number in range(parts.size()))


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())
