"""Sealed segments: what goes in comes out, sorted; what was changed on disk is refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import StateCorruptionError
from evenjoin.spec import build_spec
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.state.segment import IDLE_BATCHES, MAX_PIECES, Run, Segments, cut, seal
from evenjoin.state.tuples import Tuples, tuple_schemas
from thorough import examples

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.string())])
SPEC = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k AND r.t BETWEEN l.t AND l.t + 5", event_time="t")
SCHEMAS = tuple_schemas(SPEC)


def tuples(rows):
    """Tuples of side 0 from (code, time, v) rows."""
    columns = [pa.array([r[i] for r in rows], type_) for i, type_ in enumerate((pa.int64(), pa.int64(), pa.string()))]
    u = pa.array(range(len(rows)), pa.uint32())
    return Tuples.of(SCHEMAS[0], pa.RecordBatch.from_arrays([*columns[:2], u, columns[2]], schema=SCHEMAS[0].run))


def plain(some):
    """Tuples as (code, time, u, v) rows."""
    return list(
        zip(some.codes.tolist(), some.times.tolist(), some.u.tolist(), some.batch["v"].to_pylist(), strict=True)
    )


ROWS = [(7, 3, "c"), (7, 1, None), (-2, 9, ""), (0, 0, "a long payload")]


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_seal_and_read(kind, tmp_path):
    """Two runs in one file, each read back as it was sealed, by a process that never saw them."""
    folder = MemoryFolder() if kind == "memory" else LocalFolder(str(tmp_path))
    first, second = tuples(ROWS).in_order(), tuples([(5, 40, "x")]).in_order()
    runs = seal(folder, "segments/0/s.arrow", [(0, first, (7,)), (4, second, ())])
    assert [(r.index, r.rows, r.alive, r.sub_window, r.low, r.high, r.dirty) for r in runs] == [
        (0, 4, 4, 0, 0, 9, (7,)),
        (1, 1, 1, 4, 40, 40, ()),
    ]
    again = [Run.from_json(run.to_json()) for run in runs]
    assert again == list(runs)
    segments = Segments(folder)
    assert [plain(segments.read(SCHEMAS[0], run)) for run in again] == [plain(first), plain(second)]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-9, 9), st.text(max_size=3)), max_size=20))
def test_runs_are_sorted_and_whole(rows):
    """Sorting keeps each tuple with its payload."""
    some = tuples(rows)
    ordered = plain(some.in_order())
    assert [row[:2] for row in ordered] == sorted(row[:2] for row in ordered)
    assert sorted(ordered) == sorted(plain(some))


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-(10**6), 10**6), st.none()), max_size=20), st.integers(1, 50)
)
def test_cut_by_sub_window(rows, width):
    """Every tuple in one piece, each piece still sorted and within one sub-window, never more than a few pieces."""
    whole = tuples(rows).in_order()
    pieces = cut(whole, width)
    assert len(pieces) <= MAX_PIECES + 1
    assert sorted(row for _, piece in pieces for row in plain(piece)) == sorted(plain(whole))
    numbers = [number for number, _ in pieces]
    assert numbers == sorted(set(numbers))
    for _, piece in pieces:
        assert plain(piece) == plain(piece.in_order())
    if rows and max(r[1] for r in rows) // width - min(r[1] for r in rows) // width < MAX_PIECES:
        assert all((piece.times // width == number).all() for number, piece in pieces)


def test_what_never_expires_is_not_cut():
    """Without a width all tuples are one run."""
    whole = tuples(ROWS).in_order()
    assert cut(whole, None) == [(0, whole)]


def sealed(folder):
    return seal(folder, "segments/0/s.arrow", [(0, tuples(ROWS).in_order(), ())])[0]


def test_any_damaged_byte_is_noticed(tmp_path):
    """Flip one byte anywhere in the file: StateCorruptionError with the file's name, never a wrong row."""
    folder = LocalFolder(str(tmp_path))
    run = sealed(folder)
    path = tmp_path / "segments/0/s.arrow"
    good = path.read_bytes()
    for place in [*range(0, len(good), 37), len(good) - 1]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(StateCorruptionError, match=r"segments/0/s\.arrow is damaged"):
            Segments(folder).read(SCHEMAS[0], run)
    path.write_bytes(good)
    assert len(Segments(folder).read(SCHEMAS[0], run)) == 4


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_truncated_file_is_noticed(tmp_path, left):
    """Cut short, even to nothing."""
    folder = LocalFolder(str(tmp_path))
    run = sealed(folder)
    path = tmp_path / "segments/0/s.arrow"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(StateCorruptionError, match=r"segments/0/s\.arrow is damaged"):
        Segments(folder).read(SCHEMAS[0], run)


def test_a_longer_file_is_noticed(tmp_path):
    """Something was appended."""
    folder = LocalFolder(str(tmp_path))
    run = sealed(folder)
    with open(tmp_path / "segments/0/s.arrow", "ab") as file:
        file.write(b"\0")
    with pytest.raises(StateCorruptionError, match="damaged"):
        Segments(folder).read(SCHEMAS[0], run)


def test_a_missing_file_is_noticed(tmp_path):
    """By name, with what to do."""
    folder = LocalFolder(str(tmp_path))
    run = sealed(folder)
    (tmp_path / "segments/0/s.arrow").unlink()
    with pytest.raises(StateCorruptionError, match=r"segments/0/s\.arrow is missing.*restore"):
        Segments(folder).read(SCHEMAS[0], run)


def test_a_file_is_opened_once_until_it_is_retired(tmp_path):
    """Later batches reuse the mapped file; what the manifest no longer names is forgotten."""
    folder = LocalFolder(str(tmp_path))
    run = seal(folder, "segments/0/0-new-i1-abc.arrow", [(0, tuples(ROWS).in_order(), ())])[0]
    segments = Segments(folder)
    segments.read(SCHEMAS[0], run)
    folder.delete(run.file)
    segments.retain({run.file}, "-i1-", 1)
    segments.retain(set(), "-i10-", 1)
    assert len(segments.read(SCHEMAS[0], run)) == 4
    segments.retain(set(), "-i1-", 2)
    with pytest.raises(StateCorruptionError):
        segments.read(SCHEMAS[0], run)


def test_files_of_instances_that_run_elsewhere_are_closed():
    """A process that ran an instance once, or only migrated it, does not keep its files open for ever."""
    folder, segments = MemoryFolder(), Segments(MemoryFolder())
    segments._folder = folder
    rows = [(0, tuples(ROWS).in_order(), ())]
    runs = {i: seal(folder, f"segments/0/0-new-i{i}-s0t1-abc.arrow", rows)[0] for i in (1, 2, 11)}
    for instance, run in runs.items():
        segments.read(SCHEMAS[0], run)
        segments.known(run, "half", "1", lambda: 2)
        if instance != 11:
            segments.retain({run.file}, f"-i{instance}-", 100)
    for batch in range(101, 101 + IDLE_BATCHES):
        segments.retain({runs[1].file}, "-i1-", batch)
        assert segments.files >= {runs[1].file, runs[11].file}
    assert runs[2].file in segments.files
    segments.retain({runs[1].file}, "-i1-", 101 + IDLE_BATCHES)
    assert segments.files == {runs[1].file, runs[11].file}
    segments.retain({runs[1].file}, "-i1-", 102 + IDLE_BATCHES)
    assert segments.files == {runs[1].file}
    assert len(segments.read(SCHEMAS[0], runs[2])) == 4
    assert [segments.known(runs[i], "half", "1", lambda: 3) for i in (1, 2)] == [2, 3]


def test_only_the_rows_of_a_slice_are_sealed():
    """A piece cut out of a large batch does not drag the rest of it into the file."""
    folder = MemoryFolder()
    many = tuples([(n, n, "x" * 50) for n in range(1000)]).in_order()
    part = Tuples.of(SCHEMAS[0], many.batch.slice(500, 10))
    run = seal(folder, "s.arrow", [(0, part, ())])[0]
    assert run.file_bytes < 4000
    assert Segments(folder).read(SCHEMAS[0], run).codes.tolist() == list(range(500, 510))
    assert np.asarray(run.rows) == 10
