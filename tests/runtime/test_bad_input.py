"""Bad input on the embedded engine: what is wrong is said, and nothing is lost or joined twice."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.api import UnboundedStateWarning
from evenjoin.errors import (
    CheckpointInUseError,
    CheckpointMismatchError,
    ConditionError,
    EvenJoinError,
    SpecError,
    StateCorruptionError,
)
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import multiset

ORDERS = pa.schema([("id", pa.int64()), ("cell", pa.int64()), ("ts", pa.int64()), ("note", pa.string())])
TRACKS = pa.schema([("cell", pa.int64()), ("ts", pa.int64()), ("taxi", pa.int64())])
SIDES = {"o": ORDERS, "t": TRACKS}
ON = "o.cell = t.cell AND t.ts BETWEEN o.ts - 10 AND o.ts"
WINDOW = evenjoin.tumbling(10)
TIMES = {"event_time": "ts", "watermark": 5}


def join(on=ON, sides=SIDES, **options):
    return evenjoin.local(sides, on, **{**TIMES, **options})


def orders(*rows):
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS)


def tracks(*rows):
    return pa.Table.from_pylist([dict(zip(TRACKS.names, row, strict=True)) for row in rows], TRACKS)


@pytest.mark.parametrize(
    ("on", "says", "under"),
    [
        ("o.cel = t.cell", "no column 'cel' on side 'o': did you mean 'cell'?", "cel = t"),
        ("o.cell = tracks.cell", "unknown alias 'tracks': the sides are o, t", "tracks"),
        ("cell = t.cell", "column 'cell' is ambiguous: write o.cell or t.cell", "cell = t"),
        ("o.cell = = t.cell", "this is not understood: something is missing before this", "= t.cell"),
        ("o.cell = t.cell AND (o.ts > 3", "this is not understood: a ) is missing", "("),
        ("o.note = t.cell", "o.note = t.cell: string and int64 do not compare without a CAST", "o.note"),
        ("o.cell = t.cell AND o.note > t.ts", "do not compare", "o.note"),
        ("o.cell = t.cell AND frobnicate(o.ts) > 3", "FROBNICATE() is not evaluated by the", "frobnicate"),
    ],
    ids=[
        "unknown column", "unknown alias", "ambiguous column", "unparsable", "unclosed", "types of keys",
        "types of a comparison", "unknown function",
    ],
)  # fmt: skip
def test_a_wrong_condition_points_at_the_place(on, says, under):
    """ConditionError says what is wrong and what to do, with a caret under the place."""
    with pytest.raises(ConditionError) as caught:
        join(on)
    message = str(caught.value)
    assert says in message
    if under is not None:
        assert caught.value.position == on.index(under)
        assert message.endswith(f"\n  {on}\n  {' ' * on.index(under)}^")


def test_the_caret_is_under_the_right_line():
    """A condition over several lines: only the line at fault is drawn."""
    with pytest.raises(ConditionError) as caught:
        join("o.cell = t.cell\n  AND o.when > 3\n  AND o.ts > 1")
    assert str(caught.value).endswith("\n    AND o.when > 3\n          ^")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"select": ["ts"]}, "column 'ts' is ambiguous: write o.ts or t.ts"),
        ({"select": ["o.idd"]}, "no column 'idd' on side 'o': did you mean 'id'?"),
        ({"event_time": None, "watermark": None, "window": WINDOW}, "no event time with a window for o, t"),
        ({"event_time": {"o": "ts"}, "watermark": None, "window": WINDOW}, "no event time with a window for t"),
        ({"event_time": None}, "watermark without event time"),
        ({"event_time": "time"}, "event_time: no column 'time'"),
        ({"event_time": {"o": "note", "t": "ts"}}, "it must be a timestamp, a date or an integer"),
        ({"watermark": "5 parsecs"}, "5 parsecs"),
        ({"watermark": {"x": 5}}, "watermark: unknown alias 'x'; the sides are o, t"),
        ({"watermark_policy": "mean"}, "watermark_policy='mean' is not one of min, max"),
        ({"how": "left"}, "how='left' is not supported yet"),
        ({"how": "sideways"}, "how='sideways' is not one of inner"),
        ({"strategy": "hsah"}, "unknown strategy 'hsah'; known: .*hash"),
        ({"strategy": "contrand(groups=9)"}, "between 1 and 2 groups fit on 2 instances"),
        ({"layout": "apart"}, "layout='apart': use 'shared' or 'split'"),
        ({"layout": "split", "instances": 1}, "at least one instance per side"),
        ({"instances": 0}, "instances=0: a whole number of at least 1"),
        ({"instances": 2.0}, "instances=2.0: a whole number"),
        ({"instances": True}, "instances=True: a whole number"),
        ({"instnaces": 3}, "unknown argument 'instnaces': did you mean 'instances'"),
        ({"x": 3}, "unknown argument 'x'; known: .*layout"),
        ({"late": 3}, "late=3: use 'drop', 'keep', a function or a path"),
        ({"idle_timeout": "soon"}, "duration 'soon' is not understood"),
        ({"merge_budget": 0}, "merge_budget=0: a whole number of at least 1"),
        ({"pair_limit": "many"}, "pair_limit='many': a whole number of at least 1"),
        ({"sides": {"o": ORDERS, "t": {"cell": "int"}}}, "side 't': a pyarrow schema is needed, not dict"),
        ({"sides": {"o": ORDERS}}, "a join has at least two sides, not 1"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_is_named(options, says):
    """SpecError before anything runs."""
    with pytest.raises(SpecError, match=says):
        join(**options)


@pytest.mark.parametrize(
    ("on", "options", "sides"),
    [
        ("o.cell = t.cell", {"event_time": None, "watermark": None}, ["o", "t"]),
        ("o.cell = t.cell", {}, ["o", "t"]),
        ("o.cell = t.cell AND t.ts <= o.ts", {}, ["t"]),
        ("o.cell = t.cell AND t.ts >= o.ts - 5", {}, ["o"]),
        (ON, {"watermark": None}, ["o", "t"]),
        (ON, {"watermark": {"o": 5}}, ["o"]),
        (ON, {}, []),
        ("o.cell = t.cell", {"window": evenjoin.tumbling(10)}, []),
    ],
    ids=str,
)
def test_a_side_that_will_grow_is_named(on, options, sides):
    """One UnboundedStateWarning per side that nothing bounds, shown at the user's line; none where all is bounded."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        join_here = evenjoin.local(SIDES, on, **{**TIMES, **options})
    join_here.close()
    assert [w.category for w in caught] == [UnboundedStateWarning] * len(sides)
    for warning, side in zip(caught, sides, strict=True):
        assert f"side {side!r}: it will grow without end" in str(warning.message)
        assert warning.filename == __file__


def odd(**columns):
    """Orders with other columns than declared."""
    return {"o": pa.table({"id": [1], "cell": [1], "ts": [1], "note": ["a"], **columns})}


ONE = {"o": orders((1, 7, 100, "a")), "t": tracks((7, 95, 50))}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"x": ONE["o"]}, "unknown alias 'x'; the join has o, t"),
        ({"o": ONE["o"].drop_columns(["ts"])}, "side 'o': column 'ts' is missing from the data"),
        (odd(cell=["x"]), "side 'o': column 'cell' is string, .*int64"),
        (odd(cell=["5"]), "side 'o': column 'cell' is string, .*int64"),
        (odd(note=[5]), "side 'o': column 'note' is int64, .*string"),
        (odd(cell=[1.5]), "side 'o': the data does not fit .*1.5"),
        (odd(cell=[{"a": 1}]), "side 'o': the data does not fit"),
        ({"o": odd()["o"].append_column("cell", [[2]])}, "side 'o': .*'cell' .*2 times"),
        ({"o": [{"id": 1}]}, "side 'o': a pyarrow Table or RecordBatch is needed, not list"),
        ([ONE["o"]], "rows by alias are needed, .* not list"),
    ],
    ids=["alias", "missing", "text", "digits", "number", "fraction", "struct", "twice", "rows", "no aliases"],
)  # fmt: skip
def test_data_that_does_not_fit_is_refused_whole(data, says):
    """SpecError names side and column; the batch did not happen, and the next one goes on as if it never came."""
    with join(select=["o.id", "o.note", "t.taxi"]) as running:
        running.process({"t": ONE["t"]})
        with pytest.raises(SpecError, match=says):
            running.process(data)
        assert running.batch == 1
        assert running.process({"o": ONE["o"]}).to_pylist() == [{"id": 1, "note": "a", "taxi": 50}]


def test_a_null_in_a_column_declared_without_is_refused():
    """nullable=False is part of the schema."""
    strict = pa.schema([pa.field("cell", pa.int64(), nullable=False), ("ts", pa.int64()), ("taxi", pa.int64())])
    with join(sides={"o": ORDERS, "t": strict}) as running, pytest.raises(SpecError, match=r"side 't': .*'cell'"):
        running.process({"t": tracks((None, 1, 1))})


def test_types_that_fit_are_converted():
    """Narrower integers, other strings, chunks, record batches and further columns are no offence."""
    small = pa.table(
        {
            "note": pa.chunked_array([["x"], ["y"]]).cast(pa.large_string()),
            "ts": pa.array([100, 100], pa.int16()),
            "id": pa.array([1, 2], pa.uint8()),
            "cell": pa.array([7, 8], pa.int32()),
            "more": [None, None],
        }
    )
    with join(select=["o.id", "o.note", "t.taxi"]) as running:
        running.process({"o": small})
        found = running.process({"t": tracks((7, 95, 50)).to_batches()[0]})
    assert found.to_pylist() == [{"id": 1, "note": "x", "taxi": 50}]


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_a_value_that_fails_in_the_condition_fails_the_batch():
    """A number that Spark does not have, in a filter: the error names the expression, and the batch did not happen."""
    schema = pa.schema([("k", pa.uint64())])
    with evenjoin.local({"l": schema, "r": schema}, "l.k = r.k AND l.k > 1") as running:
        with pytest.raises(ConditionError, match=r"l\.k > 1 fails for a value"):
            running.process({"l": pa.table({"k": [2**63]}, schema)})
        assert running.batch == 0


def test_a_closed_join_says_so():
    """It no longer owns its checkpoint."""
    running = join()
    running.finish()
    with pytest.raises(EvenJoinError, match="closed"):
        running.process(ONE)


# -- checkpoints


def filled(path, **options):
    """A checkpoint with two committed batches."""
    with join(checkpoint=path, select=["o.id", "t.taxi"], **options) as running:
        running.process(ONE)
        running.process({"o": orders((2, 8, 101, None)), "t": tracks((8, 99, 51), (9, 101, 52))})


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"on": "o.cell = t.cell AND t.ts BETWEEN o.ts - 11 AND o.ts"}, ["condition"]),
        ({"select": ["o.id"]}, ["schema", "select"]),
        ({"sides": {"t": TRACKS, "o": ORDERS}}, ["sides"]),
        ({"sides": {**SIDES, "t": TRACKS.set(2, pa.field("taxi", pa.string()))}}, ["schema"]),
        ({"window": evenjoin.tumbling(10)}, ["window"]),
    ],
    ids=["another condition", "another select", "another order of sides", "another type", "a window"],
)  # fmt: skip
def test_the_checkpoint_of_another_join_is_refused(changes, names, tmp_path):
    """CheckpointMismatchError names each thing that differs, with both values; the checkpoint stays usable."""
    filled(tmp_path)
    with pytest.raises(CheckpointMismatchError) as caught:
        join(**{"checkpoint": tmp_path, "select": ["o.id", "t.taxi"], **changes})
    lines = str(caught.value).splitlines()
    assert set(names) <= {line.split(":")[0].strip() for line in lines[1:]}
    assert all("checkpoint has" in line and "this join has" in line for line in lines[1:])
    with join(checkpoint=tmp_path, select=["o.id", "t.taxi"]) as again:
        assert again.process({"o": orders((3, 9, 105, None))}).to_pylist() == [{"id": 3, "taxi": 52}]


@pytest.mark.parametrize(
    "changes",
    [
        {"sides": {**SIDES, "t": TRACKS.append(pa.field("colour", pa.string()))}},
        {"watermark": 9},
        {"late": "keep"},
        {"strategy": "random"},
        {"instances": 5},
        {"layout": "split"},
        {"on": "o.cell=t.cell and (t.ts >= o.ts - 10 and t.ts <= o.ts)"},
    ],
    ids=str,
)
def test_what_may_change_does(changes, tmp_path):
    """A column nobody reads, delays, policies, strategy and size, another spelling: the join goes on."""
    filled(tmp_path)
    with join(**{"checkpoint": tmp_path, "select": ["o.id", "t.taxi"], **changes}) as again:
        assert again.batch == 2
        assert again.process({"o": orders((3, 9, 105, None))}).to_pylist() == [{"id": 3, "taxi": 52}]


def test_a_second_join_on_one_checkpoint_is_refused(tmp_path):
    """While the first one lives; afterwards it goes on where that one stopped."""
    with join(checkpoint=tmp_path) as first:
        first.process(ONE)
        with pytest.raises(CheckpointInUseError, match=f"{tmp_path} is in use by process"):
            join(checkpoint=tmp_path)
        first.process(ONE)
    with join(checkpoint=tmp_path) as second:
        assert second.batch == 2


def test_two_joins_that_share_a_folder_without_locks_cannot_both_commit():
    """Where there are no locks the commit log is the fence: the older one cannot commit once another has started."""
    folder = MemoryFolder()
    one, two = join(checkpoint=folder), join(checkpoint=folder)
    with pytest.raises(CheckpointInUseError, match="batch 0 was not committed: another query has started"):
        one.process(ONE)
    two.process(ONE)


def test_a_lock_file_that_somebody_deletes_leaves_the_commit_log_as_the_fence(tmp_path):
    """The next join locks a new file, so it is let in beside the first; the first one cannot commit any more."""
    with join(checkpoint=tmp_path) as first:
        first.process(ONE)
        (tmp_path / "owner.lock").unlink()
        with join(checkpoint=tmp_path) as second:
            with pytest.raises(CheckpointInUseError, match="batch 1 was not committed: another query has started"):
                first.process(ONE)
            second.process(ONE)
            assert second.batch == 2


def test_a_refused_start_does_not_keep_the_checkpoint(tmp_path):
    """A mismatch releases the folder for the right join."""
    filled(tmp_path)
    with pytest.raises(CheckpointMismatchError):
        join(ON + " AND o.id = t.taxi", checkpoint=tmp_path)
    join(checkpoint=tmp_path, select=["o.id", "t.taxi"]).close()


def segments(path):
    return sorted((path / "segments").rglob("*.arrow"))


def flip(path, place=-40):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("harm", ["flipped", "cut short", "emptied", "missing"])
def test_a_harmed_segment_is_named_after_a_restart(harm, tmp_path):
    """StateCorruptionError with the file's name: the batch does not happen, no answer is made up."""
    filled(tmp_path, instances=1)
    harmed = segments(tmp_path)[0]
    good = harmed.read_bytes()
    if harm == "flipped":
        flip(harmed, len(good) // 2)
    elif harm == "missing":
        harmed.unlink()
    else:
        harmed.write_bytes(good[:-1] if harm == "cut short" else b"")
    name = str(harmed.relative_to(tmp_path))
    data = {"o": orders((3, 7, 104, None), (4, 8, 104, None), (5, 9, 104, None)), "t": tracks((7, 98, 1), (8, 98, 2))}
    with join(checkpoint=tmp_path, select=["o.id", "t.taxi"], instances=1) as again:
        with pytest.raises(StateCorruptionError, match=f"{name} is {'missing' if harm == 'missing' else 'damaged'}"):
            again.process(data)
        assert again.batch == 2
    harmed.write_bytes(good)  # restored from a copy: it goes on as if nothing had been
    with join(checkpoint=tmp_path, select=["o.id", "t.taxi"], instances=1) as again:
        found = multiset(again.process(data))
    assert found == {(3, 50): 1, (3, 1): 1, (4, 51): 1, (4, 2): 1, (5, 52): 1, (1, 1): 1, (2, 2): 1}


@pytest.mark.parametrize("file", ["commits/1", "join.json", "tables"])
def test_a_damaged_commit_is_named_at_the_start(file, tmp_path):
    """A commit, the join's own description and a table are checked before they are believed."""
    filled(tmp_path)
    path = next((tmp_path / file).iterdir()) if file == "tables" else tmp_path / file
    flip(path, 20)
    with pytest.raises(StateCorruptionError, match=f"{path.relative_to(tmp_path)} of the checkpoint is damaged"):
        join(checkpoint=tmp_path, select=["o.id", "t.taxi"]).process(ONE)
    flip(path, 20)
    join(checkpoint=tmp_path, select=["o.id", "t.taxi"]).close()


def test_a_lost_table_is_named(tmp_path):
    """The commit names a table that is not there."""
    filled(tmp_path)
    table = next((tmp_path / "tables").iterdir())
    table.unlink()
    again = join(checkpoint=tmp_path, select=["o.id", "t.taxi"])
    with again, pytest.raises(StateCorruptionError, match=f"tables/{table.name} is missing"):
        again.process(ONE)


def test_lost_commits_are_noticed(tmp_path):
    """All commits gone but the state of several batches there: not taken for a new checkpoint, and not swept away."""
    filled(tmp_path)
    before = segments(tmp_path)
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    with pytest.raises(StateCorruptionError, match="commits"):
        join(checkpoint=tmp_path, select=["o.id", "t.taxi"])
    assert segments(tmp_path) == before


def test_a_gap_between_batches_is_noticed(tmp_path):
    """The source says batch 3 comes next, the last commit is batch 1: batch 2 is lost, and that is said."""
    filled(tmp_path)
    with join(checkpoint=tmp_path, select=["o.id", "t.taxi"]) as again:
        with pytest.raises(StateCorruptionError, match="batch 2 was never committed"):
            again.process(ONE, batch=3)
        assert again.process(ONE, batch=1).num_rows == 0  # committed before: not joined again
        again.process(ONE, batch=2)
