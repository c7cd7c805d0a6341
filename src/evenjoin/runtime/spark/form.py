"""Who writes the files of an output: the join tasks themselves, or Spark's writer.

Join tasks write parquet straight from Arrow (instance/results.py), which spares results the way through the JVM. They
do so where the files equal those of Spark's writer for every reader, apart from timestamps: these are stored in
microseconds (TIMESTAMP_MICROS), where Spark's default is the old INT96, which other readers misread for old dates.

Spark's writer is used, and `how` says so in a sentence, for

* json, csv and orc, which Arrow cannot write as Spark does;
* results that Spark filters or computes (Finish): they are in the JVM anyway;
* types that Arrow stores in another way: void, variant, geometry, year-month intervals, a time within another type;
* options and settings of Spark's writer that have no equal here.

Both ways of writing are shown alike (commit/staging.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, types
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from evenjoin.errors import SpecError
from evenjoin.instance.folders import can_be_folders
from evenjoin.instance.results import Form, stored_form
from evenjoin.runtime.spark.batch import Results
from evenjoin.runtime.spark.conditions.travel import arrow_schema

OURS = ("path", "checkpointlocation", "staginglocation")
KNOWN = (*OURS, "compression", "maxrecordsperfile")
"""Options that join tasks understand, in lower case."""
CODECS = {
    "none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd",
    "lz4": "lz4", "lz4_raw": "lz4",
}  # fmt: skip
"""Spark's names of codecs -> pyarrow's."""
SETTINGS = {
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings of a session that ask for other files, unless they have these values or were not set."""
PLAIN = (
    types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType, types.FloatType,
    types.DoubleType, types.DecimalType, types.StringType, types.BinaryType, types.DateType, types.TimestampType,
    types.TimestampNTZType, types.DayTimeIntervalType,
)  # fmt: skip
"""Types whose values Arrow stores as Spark does."""
VERSION_KEY, SCHEMA_KEY = "org.apache.spark.version", "org.apache.spark.sql.parquet.row.metadata"

OURS_SENTENCE = "the join tasks write the parquet files"


def choose_form(
    spark: SparkSession, format_: str, options: Mapping[str, str], partition_by: Sequence[str], results: Results
) -> tuple[Form | None, str]:
    """The form of the files that join tasks write, and a sentence. If Spark's writer is needed there is no form, and
    the sentence says why. SpecError for columns that neither could write."""
    schema = results.schema if results.finish is None else None
    names = (results.finished_schema if schema is None else schema).fieldNames()
    columns = tuple(_column(name, names) for name in partition_by)
    _check_names(names)
    reason = next(_reasons(spark, format_, options, columns, results), None)
    if reason is not None or schema is None:
        return None, f"Spark's writer writes the {format_} files: {reason}"
    given = {key.lower(): value for key, value in options.items()}
    zone = str(spark.conf.get("spark.sql.session.timeZone", "UTC"))
    codec, limit = CODECS[_codec(spark, given)], _limit(spark, given)
    form = stored_form(arrow_schema(schema, zone), columns, compression=codec, rows_per_file=limit)
    stored = StructType([field for field in schema.fields if field.name not in columns])
    return replace(form, footer={VERSION_KEY: spark.version, SCHEMA_KEY: stored.json()}), OURS_SENTENCE


def _reasons(
    spark: SparkSession, format_: str, options: Mapping[str, str], partition_by: Sequence[str], results: Results
) -> Iterator[str]:
    """Why join tasks cannot write the files."""
    if format_ != "parquet":
        yield "join tasks write parquet only"
        return
    if results.finish is not None:
        yield "Spark filters or computes the results"
        return
    given = {key.lower(): value for key, value in options.items()}
    for key in options:
        if key.lower() not in KNOWN:
            yield f"option {key!r} is Spark's own"
    for field in results.schema.fields:
        strange = _strange(field.dataType, "top")
        if strange is not None:
            yield f"column {field.name!r} has type {strange.simpleString()}"
    if "parquet.field.id" in results.schema.json():
        yield "columns have parquet field ids"
    zone = str(spark.conf.get("spark.sql.session.timeZone", "UTC"))
    for column in arrow_schema(StructType([results.schema[name] for name in partition_by]), zone):
        if not can_be_folders(column.type):
            yield f"partitionBy({column.name!r}) is of type {results.schema[column.name].dataType.simpleString()}"
    if len(set(partition_by)) == len(results.schema.fields):
        yield "partitionBy names all columns"
    yield from _settings(spark, results.schema, given)


def _settings(spark: SparkSession, schema: StructType, given: Mapping[str, str]) -> Iterator[str]:
    """Settings of the session that ask for files as only Spark writes them."""
    for key, value in SETTINGS.items():
        found = spark.conf.get(key, None)
        about_times = key.rpartition(".")[2] in ("outputTimestampType", "datetimeRebaseModeInWrite")
        if found is not None and found.upper() != value.upper() and not (about_times and not _has_times(schema)):
            yield f"{key} is {found}"
    if _codec(spark, given) not in CODECS:
        yield f"compression {_codec(spark, given)!r} is Spark's own"
    for key in _hadoop(spark):
        yield f"{key} is set"


def _strange(type_: DataType, depth: str) -> DataType | None:
    """A type within this type that Arrow does not store as Spark does."""
    if isinstance(type_, ArrayType):
        return _strange(type_.elementType, "nested")
    if isinstance(type_, MapType):
        return _strange(type_.keyType, "nested") or _strange(type_.valueType, "nested")
    if isinstance(type_, StructType):
        return next(filter(None, (_strange(field.dataType, "nested") for field in type_.fields)), None)
    if depth == "top" and type_.simpleString().startswith("time("):
        return None
    return None if isinstance(type_, PLAIN) else type_


def _has_times(schema: StructType) -> bool:
    return any(f'"{name}"' in schema.json() for name in ("timestamp", "date"))


def _codec(spark: SparkSession, given: Mapping[str, str]) -> str:
    return str(given.get("compression") or spark.conf.get("spark.sql.parquet.compression.codec", "snappy")).lower()


def _limit(spark: SparkSession, given: Mapping[str, str]) -> int:
    """The rows that a file may have; 0: any number."""
    asked = given.get("maxrecordsperfile") or spark.conf.get("spark.sql.files.maxRecordsPerFile", "0")
    try:
        return max(int(str(asked)), 0)
    except ValueError:
        raise SpecError(f"option('maxRecordsPerFile', {asked!r}): a number is needed") from None


def _hadoop(spark: Any) -> list[str]:
    """The settings of the parquet library that were made for the session or on its builder."""
    try:
        made = {*spark.conf.getAll, *(key for key, _ in spark.sparkContext.getConf().getAll())}
    except Exception:  # Spark Connect hides core settings
        return []
    return sorted(key for key in made if key.removeprefix("spark.hadoop.").startswith("parquet."))


def _column(name: str, names: Sequence[str]) -> str:
    """The result column that partitionBy means: of this name, or else of the same one in another case."""
    found = [known for known in names if known == name] or [known for known in names if known.lower() == name.lower()]
    if not found:
        raise SpecError(f"partitionBy({name!r}): there is no such column among {', '.join(names)}")
    return found[0]


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that the columns of files cannot have."""
    stored_form(pa.schema([pa.field(name, pa.int64()) for name in names]))
