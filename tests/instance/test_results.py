"""The results writer: chunks of results become staged parquet files, named for the receipt."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import StorageError
from evenjoin.instance import results
from evenjoin.instance.folders import by_folder
from evenjoin.instance.results import Form, Staged, empty_file, encodings, stored_form
from evenjoin.state.places import open_place
from evenjoin.testing import multiset
from thorough import examples

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


def rows(keys, first=0):
    numbers = np.arange(first, first + len(keys))
    return pa.record_batch(
        [pa.array(keys, pa.string()), numbers, pa.array(numbers).cast(SCHEMA.field("t").type)], SCHEMA
    )


def written(folder, chunks, form=None, **options):
    """Write the chunks; returns the files by what the receipt says, and their rows."""
    folder.mkdir(exist_ok=True)
    writer = Staged(open_place(folder), form or Form(SCHEMA, **options)).open("part-0-s0t1-a")
    for chunk in chunks:
        writer.write(chunk)
    return writer.close()


def read(folder, files):
    return [pq.ParquetFile(folder / Path(name).name) for name, _, _ in files]


def test_chunks_are_joined_to_row_groups(tmp_path, monkeypatch):
    """However small they are; the receipt has each file's rows and bytes."""
    monkeypatch.setattr(results, "ROWS", 1000)
    files = written(tmp_path, [rows(["a"] * 70, 70 * n) for n in range(40)])
    (file,) = read(tmp_path, files)
    groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    assert groups == [1050, 1050, 700]
    assert files == (("part-0-s0t1-a-0.parquet", 2800, (tmp_path / "part-0-s0t1-a-0.parquet").stat().st_size),)
    assert file.read().column("n").to_pylist() == list(range(2800))


def test_without_results_there_is_no_file(tmp_path):
    assert written(tmp_path, [rows([])]) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_rows_tells_the_schema(tmp_path):
    form = Form(SCHEMA, {"org.apache.spark.version": "4"})
    name, count, size = empty_file(open_place(tmp_path), "part-0.parquet", form)
    file = pq.ParquetFile(tmp_path / name)
    assert (count, size) == (0, (tmp_path / name).stat().st_size)
    assert file.schema_arrow.names == SCHEMA.names
    assert file.metadata.metadata[b"org.apache.spark.version"] == b"4"


def test_files_have_as_many_rows_as_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROWS", 10)
    files = written(tmp_path, [rows(["a"] * 8, 8 * n) for n in range(4)], rows_per_file=5)
    assert [count for _, count, _ in files] == [5, 5, 5, 5, 5, 5, 2]
    assert sorted(n for file in read(tmp_path, files) for n in file.read().column("n").to_pylist()) == list(range(32))


def test_a_large_file_is_followed_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROWS", 100)
    monkeypatch.setattr(results, "FILE_BYTES", 600)
    files = written(tmp_path, [rows(["a"] * 100, 100 * n) for n in range(12)], compression="none")
    assert len(files) > 2
    assert sum(count for _, count, _ in files) == 1200


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_compression_is_as_asked(codec, tmp_path):
    (file,) = read(tmp_path, written(tmp_path, [rows(["a"] * 500)], compression=codec))
    kinds = {file.metadata.row_group(0).column(c).compression for c in range(3)}
    assert kinds == {"UNCOMPRESSED" if codec == "none" else codec.upper()}


def test_how_columns_are_encoded(tmp_path):
    """Few values as a dictionary, other whole numbers as differences, the rest plain; within structs, lists and maps
    too."""
    count = 5000
    table = pa.table(
        {
            "few": [n % 7 for n in range(count)],
            "many": range(count),
            "s": [{"few": "x", "many": str(n)} for n in range(count)],
            "l": [[n, n + count] for n in range(count)],
            "m": pa.array([[("a", n)] for n in range(count)], pa.map_(pa.string(), pa.int64())),
        }
    )
    dictionaries, differences = encodings(table)
    assert dictionaries == ["few", "s.few", "m.key_value.key"]
    assert differences == ["many", "l.list.element", "m.key_value.value"]
    files = written(tmp_path, table.to_batches(), Form(table.schema))
    (file,) = read(tmp_path, files)
    group = file.metadata.row_group(0)
    chunks = [group.column(c) for c in range(group.num_columns)]
    assert [chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page] == dictionaries
    assert [chunk.path_in_schema for chunk in chunks if "DELTA_BINARY_PACKED" in chunk.encodings] == differences
    assert file.read().equals(table)


@pytest.mark.parametrize(
    "type_",
    [
        pa.int8(),
        pa.int64(),
        pa.uint64(),
        pa.decimal128(18, 2),
        pa.date32(),
        pa.duration("us"),
        pa.timestamp("us", "UTC"),
        pa.time64("us"),
    ],
    ids=str,
)
def test_differences_of_any_size(type_, tmp_path):
    """The least and the greatest value beside each other, and NULLs."""
    width = type_.bit_width
    bits = np.random.default_rng(3).integers(0, 256, (2000, width // 8), np.uint8)
    bits[:4] = [
        [0] * (width // 8),
        [255] * (width // 8),
        [255] * (width // 8 - 1) + [127],
        [0] * (width // 8 - 1) + [128],
    ]
    if pa.types.is_decimal(type_):
        values = pa.array([decimal.Decimal(n).scaleb(-2) for n in (10**18 - 1, 1 - 10**18, 0, 7) * 500], type_)
    else:
        valid = pa.array(np.arange(2000) % 5 != 4)
        values = pa.Array.from_buffers(type_, 2000, [valid.buffers()[1], pa.py_buffer(bits.tobytes())])
    table = pa.table({"x": values})
    (file,) = read(tmp_path, written(tmp_path, table.to_batches(), Form(table.schema)))
    back = file.read().column("x").combine_chunks()
    assert back.cast(type_).equals(values)


def test_a_time_of_day_is_cut_to_microseconds(tmp_path):
    """As Spark cuts it. A timestamp keeps its nanoseconds."""
    schema = pa.schema([("at", pa.time64("ns")), ("ts", pa.timestamp("ns"))])
    numbers = [pa.array([n, None]).cast(pa.int64()) for n in (1_999, 1_999)]
    table = pa.table([n.cast(field.type) for n, field in zip(numbers, schema, strict=True)], schema=schema)
    (file,) = read(tmp_path, written(tmp_path, table.to_batches(), stored_form(schema)))
    assert file.read().column("at").cast(pa.int64()).to_pylist() == [1, None]
    assert file.read().column("ts").cast(pa.int64()).to_pylist() == [1_999, None]


def test_a_task_that_comes_too_late_finds_no_folder(tmp_path):
    """And makes none: the driver has deleted it."""
    writer = Staged(open_place(tmp_path / "gone"), Form(SCHEMA)).open("part-0-s0t1-a")
    writer.write(rows(["a"]))
    with pytest.raises(StorageError, match=r"cannot write the output's .*gone/part-0-s0t1-a-0"):
        writer.close()
    assert not (tmp_path / "gone").exists()


def test_rows_by_folder(tmp_path):
    """The folder is in the name that the receipt has; the file lies flat in staging, without the column."""
    files = written(tmp_path, [rows(["a/b", None, "", "x=y", "a/b"])], partition_by=("k",))
    found = {
        name.split("/")[0]: pq.read_table(tmp_path / Path(name).name).column("n").to_pylist() for name, _, _ in files
    }
    assert found["k=a%2Fb"] == [0, 4]
    assert found["k=x%3Dy"] == [3]
    assert sorted(found["k=__HIVE_DEFAULT_PARTITION__"]) == [1, 2]
    assert {name for file in read(tmp_path, files) for name in file.schema_arrow.names} == {"n", "t"}


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "hot", "hot", "hot", None, "", *map(str, range(90))]), max_size=60))
)
def test_folders_hold_every_row_once(tmp_path_factory, chunks):
    """Whatever waits, is written early or late, or is closed because too many files are open."""
    folder = tmp_path_factory.mktemp("rows")
    batches = [rows(keys, 1000 * number) for number, keys in enumerate(chunks)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "FOLDED_ROWS", 50)
        patch.setattr(results, "OPEN_FILES", 8)
        files = written(folder, batches, partition_by=("k",))
    for name, _, _ in files:
        target = folder / "out" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / Path(name).name).rename(target)
    assert sum(count for _, count, _ in files) == sum(map(len, chunks))
    if files:
        found = ds.dataset(folder / "out", partitioning=ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive"))
        keys = [key or None for batch in batches for key in batch["k"].to_pylist()]
        numbers = [number for batch in batches for number in batch["n"].to_pylist()]
        wanted = pa.table({"k": pa.array(keys, pa.string()), "n": numbers})
        assert multiset(found.to_table(columns=["k", "n"])) == multiset(wanted)


def test_a_file_for_each_folder_while_rows_fit(tmp_path, monkeypatch):
    """Many more folders than files that may be open, and more rows than a row group has: they wait by bytes."""
    monkeypatch.setattr(results, "ROWS", 100)
    monkeypatch.setattr(results, "OPEN_FILES", 4)
    files = written(tmp_path, [rows([f"{n % 40}" for n in range(60)], 60 * b) for b in range(10)], partition_by=("k",))
    assert len({name.split("/")[0] for name, _, _ in files}) == len(files) == 40


def test_hot_folders_keep_their_file(tmp_path, monkeypatch):
    """Rows of two folders are written again and again, in large row groups; those of 50 others wait until the end."""
    monkeypatch.setattr(results, "BYTES", 8000)
    monkeypatch.setattr(results, "OPEN_FILES", 3)
    keys = ["hot", "warm"] * 45 + ["cold"]
    chunks = [rows([key if key != "cold" else f"cold {b % 50}" for key in keys], 100 * b) for b in range(60)]
    files = written(tmp_path, chunks, partition_by=("k",))
    assert len(files) == 52
    sizes = {name.split("/")[0]: pq.read_metadata(tmp_path / Path(name).name) for name, _, _ in files}
    assert sizes["k=hot"].num_row_groups > 5
    assert sizes["k=hot"].num_rows == 60 * 45


def test_folders_of_several_columns_and_types():
    table = pa.table(
        {
            "b": [True, None, True],
            "d": pa.array([datetime.date(1, 1, 1), None, datetime.date(1, 1, 1)], pa.date32()),
            "i": pa.array([-5, 7, -5], pa.int8()),
        }
    )
    found = {folder: part.num_rows for folder, part in by_folder(table, ["i", "b", "d"])}
    nothing = "__HIVE_DEFAULT_PARTITION__"
    assert found == {"i=-5/b=true/d=0001-01-01": 2, f"i=7/b={nothing}/d={nothing}": 1}
