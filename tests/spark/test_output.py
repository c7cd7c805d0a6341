"""Files that join tasks write on Spark: equal to those of Spark's own writer, for Spark and for DuckDB."""

from __future__ import annotations

import json
import os

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.runtime.spark.batch import Results
from evenjoin.runtime.spark.form import SCHEMA_KEY, choose_form

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

TYPES = {
    "boolean": "id % 2 = 0", "tinyint": "id % 100", "smallint": "id", "int": "-id", "bigint": "id * 100000000000",
    "float": "id / 3", "double": "double('-0.0')", "decimal(9,2)": "id / 4", "decimal(18,3)": "-id / 8",
    "decimal(20,0)": "id", "decimal(38,10)": "id / 7", "string": "concat('é', id % 3)", "varchar(5)": "string(id)",
    "string collate UTF8_LCASE": "concat('Ab', id)", "binary": "unhex('00ff')", "date": "date'1500-03-01' + int(id)",
    "timestamp": "timestamp'1500-01-02 03:04:05.123456'", "timestamp_ntz": "timestamp_ntz'1500-01-02 03:04:05.123456'",
    "time(6)": "time'01:02:03.123456'", "map<int,array<decimal(9,2)>>": "map(int(id), array(id / 4, null))",
    "interval day to second": "make_dt_interval(1, id)", "interval hour": "interval '5' hour",
    "array<int>": "array(int(id), null)", "map<string,int>": "map('a', int(id), 'b', null)",
    "array<timestamp>": "array(timestamp'2020-01-02 03:04:05')",
    "struct<a:int,b:array<struct<c:string>>>": "named_struct('a', int(id), 'b', array(named_struct('c', string(id))))",
    "struct<i:interval day to second>": "named_struct('i', make_dt_interval(0, id))",
}  # fmt: skip
"""A type -> SQL of a value of row `id`."""


def typed(spark, folder, types=TYPES, rows=40, files=2):
    """Rows with a column of each type, every seventh of them NULL, as a table of parquet files; returns its frame."""
    columns = [
        f"if(id % 7 = 3, null, cast({value} as {name})) AS c{n}" for n, (name, value) in enumerate(types.items())
    ]
    spark.range(rows).selectExpr("id", *columns).repartition(files).write.parquet(f"{folder}/in")
    return spark.read.parquet(f"{folder}/in")


def joined(spark, folder, frame, select, **more):
    """The rows of the frame, each once: joined with their ids, one file a batch."""
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    ids = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    return evenjoin.join({"l": stream, "r": ids}, "l.id = r.id", select=select, instances=2, **more)


def write(join, folder, by=(), format_="parquet", **options):
    writer = join.writeStream.format(format_).option("checkpointLocation", f"{folder}/ck").options(**options)
    query = writer.partitionBy(*by).trigger(availableNow=True).start(f"{folder}/out")
    query.awaitTermination()
    return query


def by_spark(spark, folder, frame, by=(), **options):
    """What Spark's own writer makes of the rows."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        frame.coalesce(1).write.options(**options).partitionBy(*by).parquet(f"{folder}/theirs")
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")


def shape(folder):
    """The parquet schema of the files, and Spark's footer keys."""
    found = set()
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".parquet"):
                file = pq.ParquetFile(f"{path}/{name}")
                keys = {k: v for k, v in (file.metadata.metadata or {}).items() if k.startswith(b"org.apache.spark")}
                schema = json.dumps(json.loads(keys.pop(SCHEMA_KEY.encode())), sort_keys=True)
                found.add((str(file.schema).split("\n", 2)[2], schema, str(sorted(keys.items()))))
    return found


def read(spark, folder, **options):
    """The schema and the rows as Spark sees them, without the number of the batch."""
    frame = spark.read.options(**options).parquet(str(folder)).drop("batch_id")
    return frame.schema, sorted(str(row) for row in frame.select(*sorted(frame.columns)).collect())


def duck(folder):
    """The types and the rows as DuckDB sees them."""
    relation = duckdb.sql(f"FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)")
    columns = ", ".join(f'"{name}"' for name in sorted(relation.columns) if name != "batch_id")
    relation = relation.query("found", f"SELECT {columns} FROM found")
    return relation.columns, [str(t) for t in relation.types], sorted(map(str, relation.fetchall()))


def arrow(folder):
    """The types and the rows as pyarrow sees them, and pandas' types."""
    table = ds.dataset(str(folder), partitioning="hive").to_table()
    table = table.select(sorted(name for name in table.column_names if name != "batch_id"))
    frame = pd.read_parquet(folder)
    pandas = {name: str(type_) for name, type_ in frame.dtypes.items() if name != "batch_id"}
    return table.schema.remove_metadata(), sorted(map(str, table.to_pylist())), pandas


@pytest.fixture
def times(spark):
    """Spark has a type for times of day, if asked."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("times")
def test_every_type_as_spark_writes_it(spark, tmp_path):
    """The parquet schema, Spark's keys, and what Spark, DuckDB, pyarrow and pandas read are those of Spark's own
    files; also where Spark asks which version wrote an old date."""
    frame = typed(spark, tmp_path)
    query = write(joined(spark, tmp_path, frame, [f"l.c{n} AS c{n}" for n in range(len(TYPES))]), tmp_path)
    assert query.lastProgress["evenjoin"]["output"] == "the join tasks write the parquet files"
    by_spark(spark, tmp_path, frame.drop("id"))
    assert shape(tmp_path / "out") == shape(tmp_path / "theirs")
    assert read(spark, tmp_path / "out") == read(spark, tmp_path / "theirs")
    assert read(spark, tmp_path / "out", datetimeRebaseMode="EXCEPTION") == read(spark, tmp_path / "theirs")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    assert read(spark, tmp_path / "out") == read(spark, tmp_path / "theirs")
    spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert duck(tmp_path / "out") == duck(tmp_path / "theirs")
    assert arrow(tmp_path / "out") == arrow(tmp_path / "theirs")
    assert not list((tmp_path / "ck/output").rglob("*.parquet"))


def test_sides_as_structs(spark, tmp_path):
    """Without `select`: one struct for each side, columns that are never NULL among them."""
    frame = typed(spark, tmp_path, {"string": "string(id)", "timestamp": "timestamp_seconds(id)"})
    write(joined(spark, tmp_path, frame, None), tmp_path)
    wanted = frame.selectExpr("named_struct('id', id, 'c0', c0, 'c1', c1) AS l", "named_struct('id', id) AS r")
    assert read(spark, tmp_path / "out")[1] == sorted(str(row) for row in wanted.collect())


AWKWARD = [
    "a/b",
    "",
    None,
    "x=y",
    "100%",
    "ü ö",
    "a b",
    "'q'",
    '"d"',
    "#?*",
    "{[]}^",
    "back\\slash",
    "c:d",
    "+",
    "\t",
    ".",
]


def test_folders_as_spark_names_them(spark, tmp_path):
    """partitionBy: NULL and the empty string, special characters, several columns of other types."""
    rows = [(n, AWKWARD[n % len(AWKWARD)], n % 3 == 0 if n % 5 else None, n) for n in range(64)]
    spark.createDataFrame(rows, "id long, s string, b boolean, n long").selectExpr(
        "id", "s", "b", "n", "if(n % 4 = 1, null, date'0001-01-01' + int(n) % 2) AS d"
    ).repartition(2).write.parquet(f"{tmp_path}/in")
    frame = spark.read.parquet(f"{tmp_path}/in")
    by = ("s", "b", "d")
    names = ["l.s AS s", "l.b AS b", "l.n AS n", "l.d AS d"]
    query = write(joined(spark, tmp_path, frame, names), tmp_path, by)
    assert query.lastProgress["evenjoin"]["output"] == "the join tasks write the parquet files"
    by_spark(spark, tmp_path, frame.drop("id"), by)

    def folders(root):
        return {os.path.relpath(path, root) for path, _, found in os.walk(root) if any(f.endswith("t") for f in found)}

    ours = {folder.split("/", 1)[1] for folder in folders(tmp_path / "out") if "/" in folder}
    assert ours == folders(tmp_path / "theirs")
    assert shape(tmp_path / "out") == shape(tmp_path / "theirs")
    assert read(spark, tmp_path / "out") == read(spark, tmp_path / "theirs")
    assert duck(tmp_path / "out") == duck(tmp_path / "theirs")


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "none"])
def test_compression_and_rows_per_file(codec, spark, tmp_path):
    frame = typed(spark, tmp_path, {"string": "string(id)"}, files=1)
    write(
        joined(spark, tmp_path, frame, ["l.id AS id", "l.c0 AS c0"]), tmp_path, compression=codec, maxRecordsPerFile=7
    )
    files = [pq.ParquetFile(path).metadata for path in (tmp_path / "out").rglob("*.parquet")]
    assert {f.row_group(0).column(0).compression for f in files} == {
        "UNCOMPRESSED" if codec == "none" else codec.upper()
    }
    assert max(f.num_rows for f in files) == 7
    assert read(spark, tmp_path / "out") == read(spark, tmp_path / "in")


FALLBACKS = {
    "json": ({"format_": "json"}, {}, {}, "join tasks write parquet only"),
    "an output that Spark computes": ({}, {"select": ["upper(l.c0) AS u", "l.id AS id"]}, {}, "Spark filters or"),
    "an option": ({"parquet.block.size": 1 << 20}, {}, {}, "option 'parquet.block.size' is Spark's own"),
    "a form of timestamps": ({}, {}, {"spark.sql.parquet.outputTimestampType": "INT96"}, "TimestampType is INT96"),
    "a timestamp as a folder": ({"by": ("t",)}, {}, {}, r"partitionBy('t') is of type timestamp"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALLBACKS)
def test_sparks_writer_where_it_is_needed(name, spark, tmp_path):
    """The progress says why. The files are staged and shown in the same way."""
    options, arguments, settings, why = FALLBACKS[name]
    frame = typed(spark, tmp_path, {"string": "string(id)", "timestamp": "timestamp_seconds(id div 20)"})
    select = ["l.id AS id", "l.c0 AS u", "l.c1 AS t"]
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        query = write(joined(spark, tmp_path, frame, **{"select": select, **arguments}), tmp_path, **options)
    finally:
        for key in settings:
            spark.conf.unset(key)
    format_ = options.get("format_", "parquet")
    said = query.lastProgress["evenjoin"]["output"]
    assert said.startswith(f"Spark's writer writes the {format_} files: ")
    assert why in said
    found = spark.read.format(format_).load(str(tmp_path / "out"))
    assert sorted(row.id for row in found.collect()) == list(range(40))
    assert sorted(path.name for path in (tmp_path / "out").glob("batch*")) == ["batch_id=0", "batch_id=1"]
    assert [path for path in (tmp_path / "ck/output").rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize(
    ("type_", "value"),
    [("void", "null"), ("interval year to month", "make_ym_interval(1, 2)"), ("time(6)", "array(time'01:02:03')"),
     ("variant", "parse_json('1')")],
)  # fmt: skip
def test_types_that_only_spark_writes(type_, value, spark):
    """Among them a time within another type. Asked without a run: not all of them can come through a join."""
    schema = spark.sql(f"select 1L AS id, {value} AS x").schema
    form, how = choose_form(spark, "parquet", {}, (), Results(schema, None, schema))
    assert form is None
    assert how == f"Spark's writer writes the parquet files: column 'x' has type {type_}"


def test_variants_go_through_spark(spark, tmp_path):
    """A type that Arrow has not as Spark stores it."""
    frame = typed(spark, tmp_path, {"string": "string(id)"})
    join = joined(spark, tmp_path, frame, ["l.id AS id", "parse_json(l.c0) AS v"])
    assert "Spark filters or computes" in write(join, tmp_path).lastProgress["evenjoin"]["output"]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 40


@pytest.mark.parametrize(
    ("select", "by", "says"),
    [
        (["l.id AS batch_id"], (), "'batch_id' is called as the batches' folders"),
        (["l.id AS a", "r.id AS A"], (), "select gives two columns named 'A'"),
        (["l.id AS a"], ("nothing",), "no such column among a"),
    ],
)
def test_columns_that_no_file_can_have(select, by, says, spark, tmp_path):
    """Refused before the checkpoint is made."""
    frame = typed(spark, tmp_path, {"string": "string(id)"})
    with pytest.raises(SpecError, match=says):
        write(joined(spark, tmp_path, frame, select), tmp_path, by)
    assert not (tmp_path / "ck").exists()


def test_the_users_own_staging_location(spark, tmp_path):
    frame = typed(spark, tmp_path, {"string": "string(id)"})
    write(joined(spark, tmp_path, frame, ["l.id AS id"]), tmp_path, stagingLocation=str(tmp_path / "mine"))
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "ck/output").exists()
    listed = json.loads((tmp_path / "out/batch_id=0/_SUCCESS").read_text())["files"]
    assert sum(rows for _, _, rows, _ in listed) == spark.read.parquet(str(tmp_path / "out/batch_id=0")).count() > 0
