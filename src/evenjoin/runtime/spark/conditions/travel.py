"""Which columns can travel from Spark to the tasks of a join: those of types that Arrow has.

    year-month intervals, and structs, arrays and maps of them, cannot

Guarantee: such a column may be in a side as long as nobody uses it. In a schema of Arrow it is OPAQUE.
Not here: what a join reads of a side (JoinSpec.read_columns).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from evenjoin.errors import SpecError
from evenjoin.spec import JoinSpec

OPAQUE = pa.month_day_nano_interval()
"""The Arrow type that stands for a column which cannot travel. No column of Spark's has it otherwise."""


def arrow_schema(schema: StructType, zone: str) -> pa.Schema:
    """A side's schema as Arrow, timestamps in a zone."""
    return pa.schema([_arrow_field(field, zone) for field in schema.fields])


def check_travels(spec: JoinSpec, schemas: Mapping[str, StructType]) -> None:
    """Refuse a join that reads a column which cannot travel. `schemas` are Spark's, by alias."""
    for number, side in enumerate(spec.sides):
        for name in spec.read_columns(number):
            if side.schema.field(name).type == OPAQUE:
                kind = schemas[side.alias][name].dataType.simpleString()
                raise SpecError(
                    f"{side.alias}.{name} is {kind}, which Spark cannot turn into Arrow: leave it out of `on` and "
                    "name the columns you need in `select`, or convert it before the join (CAST(... AS INT), say)"
                )


def _arrow_field(field: StructField, zone: str) -> pa.Field:
    try:
        return to_arrow_schema(StructType([field]), timezone=zone).field(0)
    except PySparkTypeError:
        return pa.field(field.name, OPAQUE, field.nullable)
