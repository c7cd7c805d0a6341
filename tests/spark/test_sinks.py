"""Outputs on Spark belong to a checkpoint: folders by a marker, Delta tables by the id of their transactions."""

from __future__ import annotations

import getpass
import json
import shutil

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

import evenjoin
from evenjoin.commit.identity import recorded_identity
from evenjoin.commit.outputs import MARKER
from evenjoin.errors import SpecError
from evenjoin.runtime.spark.sinks import located
from evenjoin.state.files import LocalFolder
from spark_streams import read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64())])


def arrive(folder, number, *times):
    for side in "lr":
        rows = pa.table([[number * 10 + n for n in range(len(times))], list(times)], schema=SCHEMA)
        write_batches(folder / side, [rows], number)


def run(spark, folder, checkpoint, format_="parquet", path="out", name=None, **options):
    """Join what is there on equal ids, and write it."""
    sides = {side: read_stream(spark, folder / side, SCHEMA) for side in "lr"}
    on = "l.id = r.id AND r.t BETWEEN l.t AND l.t + 1"
    joined = evenjoin.join(sides, on=on, select=["l.id AS id"], event_time="t", watermark=1, instances=2, **options)
    writer = joined.writeStream.format(format_).option("checkpointLocation", str(folder / checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    writer.trigger(availableNow=True).start(str(folder / path)).awaitTermination()


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def uuid(folder, checkpoint):
    return recorded_identity(LocalFolder(str(folder / checkpoint))).uuid


def test_results_of_another_checkpoint_are_not_overwritten(spark, tmp_path):
    """Refused at the start, also after the checkpoint was deleted and made anew at the same path; readers do not see
    the marker. The checkpoint that the folder belongs to goes on."""
    arrive(tmp_path, 0, 5, 5)
    run(spark, tmp_path, "ck")
    assert json.loads((tmp_path / "out" / MARKER).read_text())["checkpoint"] == uuid(tmp_path, "ck")
    before = files(tmp_path / "out")
    shutil.copytree(tmp_path / "ck", tmp_path / "kept")
    shutil.rmtree(tmp_path / "ck")
    arrive(tmp_path, 1, 6)
    with pytest.raises(evenjoin.CheckpointMismatchError, match="out holds the output of another checkpoint"):
        run(spark, tmp_path, "ck")
    assert files(tmp_path / "out") == before
    run(spark, tmp_path, "kept")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.batch_id) for row in found) == [(0, 0), (1, 0), (10, 1)]


@pytest.mark.parametrize("format_", ["json", "csv", "orc"])
def test_a_folder_in_use_is_refused(format_, spark, tmp_path):
    """Before a query runs, and the checkpoint can be used for another folder at once."""
    arrive(tmp_path, 0, 5)
    (tmp_path / "out/batch_id=0").mkdir(parents=True)
    (tmp_path / "out/batch_id=0/part-0").write_text("precious")
    with pytest.raises(evenjoin.CheckpointMismatchError, match=r"no _evenjoin.json: it holds 'batch_id=0'"):
        run(spark, tmp_path, "ck", format_)
    assert files(tmp_path / "out") == {"batch_id=0/part-0": b"precious"}
    run(spark, tmp_path, "ck", format_, "empty")
    assert spark.read.format(format_).load(str(tmp_path / "empty")).count() == 1


def test_late_rows_of_another_checkpoint_are_not_overwritten(spark, tmp_path):
    """The same for the folder of late rows."""
    arrive(tmp_path, 0, 50)
    arrive(tmp_path, 1, 5)
    run(spark, tmp_path, "ck", "noop", late=tmp_path / "late")
    before = files(tmp_path / "late")
    assert json.loads(before[MARKER])["checkpoint"] == uuid(tmp_path, "ck")
    with pytest.raises(evenjoin.CheckpointMismatchError, match="late holds the output of another checkpoint"):
        run(spark, tmp_path, "new", "noop", late=str(tmp_path / "late"))
    assert files(tmp_path / "late") == before
    arrive(tmp_path, 2, 4)
    run(spark, tmp_path, "ck", "noop", late=str(tmp_path / "late"))
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "late/l")).collect()) == [10, 20]


def test_results_do_not_go_into_the_checkpoint(spark, tmp_path):
    """There they would be garbage of a crash, and be deleted."""
    arrive(tmp_path, 0, 5)
    with pytest.raises(evenjoin.SpecError, match=r"path=.*inside the checkpoint"):
        run(spark, tmp_path, "ck", path="ck/late")
    assert not (tmp_path / "ck").exists()


def in_place_of_delta():
    """A data source by the name of Delta's, which is not installed here. It writes down the options it is called with.
    Its classes are made in a function so that they travel to Spark's workers whole."""

    class Told(DataSourceWriter):
        def __init__(self, options):
            self.options = options

        def write(self, rows):
            list(rows)
            return WriterCommitMessage()

        def commit(self, messages):
            with open(self.options["path"], "a") as out:
                out.write(json.dumps(self.options) + "\n")

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "delta"

        def writer(self, schema, overwrite):
            return Told(dict(self.options))

    return Source


def test_deltas_transactions_carry_the_checkpoints_uuid(spark, tmp_path):
    """And the batch as their version. Neither the path nor the query's name is in them: a new checkpoint at the same
    place has another id, so Delta does not skip what it writes."""
    spark.dataSource.register(in_place_of_delta())
    arrive(tmp_path, 0, 5)
    arrive(tmp_path, 1, 6)
    run(spark, tmp_path, "ck", "delta", "table", name="orders")
    old = uuid(tmp_path, "ck")
    shutil.rmtree(tmp_path / "ck")
    run(spark, tmp_path, "ck", "delta", "table", name="orders")
    told = [json.loads(line) for line in (tmp_path / "table").read_text().splitlines()]
    written = [{name.lower(): value for name, value in options.items()} for options in told]
    new = uuid(tmp_path, "ck")
    assert [(o["txnappid"], o["txnversion"]) for o in written] == [(old, "0"), (old, "1"), (new, "0"), (new, "1")]
    assert old != new


@pytest.fixture
def default_system(spark):
    """Makes another file system Hadoop's default one; nothing connects to it."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    yield lambda uri: settings.set("fs.defaultFS", uri)
    settings.set("fs.defaultFS", before)


def test_paths_are_hadoops(spark, default_system):
    """Relative ones are below the home folder, a scheme without a host has the default one's; what Hadoop does not open
    is refused."""
    assert [located(spark, path) for path in ("out", "/out", "file:/out")] == ["out", "/out", "file:/out"]
    with pytest.raises(SpecError, match=r"'hdfs:/out' is on a file system that Hadoop does not open .*write it with a"):
        located(spark, "hdfs:/out")
    default_system("hdfs://localhost:8020")
    home = f"hdfs://localhost:8020/user/{getpass.getuser()}"
    wanted = {"/out": "hdfs://localhost:8020/out", "hdfs:/out": "hdfs://localhost:8020/out", "out": f"{home}/out",
              "hdfs://other:1/out": "hdfs://other:1/out", "file:/out": "file:/out"}  # fmt: skip
    assert {path: located(spark, path) for path in wanted} == wanted
    with pytest.raises(SpecError, match=r"'dbfs:/out' is on a file system that Hadoop does not open .*dbfs"):
        located(spark, "dbfs:/out")
