"""Late tuples on the embedded engine, row by row: what is late, and what each policy does with it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import evenjoin
from evenjoin.errors import EvenJoinError
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Crash, Died, Hooks, run_stream

SCHEMA = pa.schema([("id", pa.string()), ("k", pa.int64()), ("t", pa.int64())])
ON = "l.k = r.k AND r.t BETWEEN l.t - 10 AND l.t + 10"


def start(on=ON, **options):
    options = {"event_time": "t", "watermark": 5, "select": ["l.id AS a", "r.id AS b"], **options}
    return evenjoin.local({"l": SCHEMA, "r": SCHEMA}, on, **options)


def rows(*times, k=1, side=""):
    """Tuples named after their side and time."""
    return pa.table({"id": [f"{side}{t}" for t in times], "k": [k] * len(times), "t": list(times)}, SCHEMA)


def batch(left=(), right=()):
    return {"l": rows(*left, side="l"), "r": rows(*right, side="r")}


def pairs(table):
    return sorted(f"{row['a']}-{row['b']}" for row in table.to_pylist())


FIRST = batch([100], [100])  # the watermark is then 95
SECOND = batch([95, 96], [94])  # 95 and 94 are late, 96 is not


def test_drop():
    """Late tuples are not joined, not stored, and counted."""
    with start() as join:
        assert pairs(join.process(FIRST)) == ["l100-r100"]
        assert join.progress().watermark == 95
        assert pairs(join.process(SECOND)) == ["l96-r100"]
        assert join.progress().late == (1, 1)
        assert join.progress().stored == (2, 1)
        join.process(batch())
        assert join.progress().late == (0, 0)
        assert join.progress().total.late == (1, 1)


def test_the_watermark_is_that_of_earlier_batches():
    """Within one batch nothing is late, however far apart its times are."""
    with start() as join:
        assert pairs(join.process(batch([100, 1], [100, 2]))) == ["l1-r2", "l100-r100"]
        assert join.progress().late == (0, 0)


def test_keep():
    """Late tuples are joined with the state that is left, and with each other."""
    with start(late="keep") as join:
        join.process(FIRST)
        assert pairs(join.process(SECOND)) == ["l100-r94", "l95-r100", "l95-r94", "l96-r100", "l96-r94"]
        assert join.progress().total.late == (0, 0)


def test_keep_finds_only_what_is_left():
    """State that the watermark has passed is gone: a very late tuple finds nothing, and does not stay."""
    with start(late="keep") as join:
        join.process(FIRST)
        join.process(batch([200], [200]))
        assert join.progress().stored == (1, 1)
        assert pairs(join.process(batch([100], [101]))) == ["l100-r101"]
        assert join.progress().stored == (1, 1)


@pytest.mark.parametrize("instances", [1, 3])
def test_a_function_gets_the_late_rows(instances):
    """Once a side and batch, with the rows, the alias and the number of the batch; the results are those of drop."""
    got = []

    def deliver(table, alias, number):
        got.append((table.to_pylist(), alias, number))

    with start(late=deliver, instances=instances) as join:
        join.process(FIRST)
        assert got == []
        assert pairs(join.process(SECOND)) == ["l96-r100"]
        join.process(batch([20], []))
        assert join.progress().total.late == (2, 1)
    assert got == [
        ([{"id": "l95", "k": 1, "t": 95}], "l", 1),
        ([{"id": "r94", "k": 1, "t": 94}], "r", 1),
        ([{"id": "l20", "k": 1, "t": 20}], "l", 2),
    ]


def test_a_function_that_fails_fails_the_batch():
    """The batch is replayed, and its late rows are delivered again."""
    got = []

    def deliver(table, alias, number):
        got.append((alias, number))
        if len(got) == 1:
            raise RuntimeError("the mailbox is full")

    with start(late=deliver) as join:
        join.process(FIRST)
        with pytest.raises(RuntimeError, match="mailbox"):
            join.process(SECOND)
        assert join.batch == 1
        assert pairs(join.process(SECOND)) == ["l96-r100"]
        assert join.progress().total.late == (1, 1)
    assert got == [("l", 1), ("l", 1), ("r", 1)]


def test_a_path_gets_the_late_rows(tmp_path):
    """One parquet file a side and batch that has any."""
    with start(late=tmp_path / "late") as join:
        for part in (FIRST, SECOND, batch([101], [101]), batch([20, 21], [])):
            join.process(part)
    found = {str(p.relative_to(tmp_path)): parquet.read_table(p)["id"].to_pylist() for p in tmp_path.rglob("*.parquet")}
    assert found == {"late/l/1.parquet": ["l95"], "late/r/1.parquet": ["r94"], "late/l/3.parquet": ["l20", "l21"]}


@pytest.mark.parametrize("step", ["executed", "receipts", "commit", "committed"])
def test_a_path_has_each_late_row_once_after_a_crash(step, tmp_path):
    """Replayed batches write the same files again."""
    folder = MemoryFolder()
    stream = [FIRST, Crash(step), SECOND, batch([101], [101])]
    sunk = run_stream(lambda hooks: start(late=str(tmp_path), checkpoint=folder, hooks=hooks), stream)
    assert [pairs(table) for table in sunk.values()] == [
        ["l100-r100"],
        ["l96-r100"],
        ["l100-r101", "l101-r100", "l101-r101", "l96-r101"],
    ]
    found = sorted((p.parent.name, parquet.read_table(p)["id"].to_pylist()) for p in tmp_path.rglob("*.parquet"))
    assert found == [("l", ["l95"]), ("r", ["r94"])]
    assert not [name for name in folder.files if name.startswith("late/")]


def test_the_crashes_of_these_tests_are_no_errors():
    """Died is not an Exception, so nothing in the engine can take it for one of its own."""
    assert not issubclass(Died, (Exception, EvenJoinError))


def test_tumbling_windows_are_late_as_a_whole():
    """A tuple is late once its window has closed, not before: 21 is older than the watermark 25 but in time."""
    with start("l.k = r.k", watermark=0, window=evenjoin.tumbling(10)) as join:
        join.process(batch([25], [25]))
        assert pairs(join.process(batch([21, 19], [9, 20]))) == ["l21-r20", "l21-r25", "l25-r20"]
        assert join.progress().late == (1, 1)


def test_sliding_windows_a_tuple_is_late_when_all_its_windows_are():
    """21 has missed the window from 15 but not the one from 20; 18 has missed both of its windows."""
    got = []

    def late(table, alias, number):
        got.extend(table["id"].to_pylist())

    select = ["l.id AS a", "r.id AS b", "window.start AS w"]
    with start("l.k = r.k", watermark=0, window=evenjoin.sliding(10, 5), select=select, late=late) as join:
        join.process(batch([25], [25]))
        found = join.process(batch([21, 18], [22]))
        assert join.progress().late == (1, 0)
    assert sorted((r["a"], r["b"], r["w"]) for r in found.to_pylist()) == [
        ("l21", "r22", 20),
        ("l21", "r25", 20),
        ("l25", "r22", 20),
    ]
    assert got == ["l18"]


def test_a_side_without_a_watermark_is_never_late():
    """Only l has a delay: l decides the watermark alone, and r's old tuples are welcome."""
    with pytest.warns(evenjoin.api.UnboundedStateWarning, match="'l'"):
        join = start(watermark={"l": 5})
    with join:
        join.process(FIRST)
        assert pairs(join.process(SECOND)) == ["l100-r94", "l96-r100", "l96-r94"]
        assert join.progress().late == (1, 0)


def test_tuples_without_a_time_are_not_late_but_match_nothing():
    """NULL event times are counted as unmatchable."""
    with start() as join:
        join.process(FIRST)
        join.process({"l": pa.table({"id": ["l?"], "k": [1], "t": pa.array([None], pa.int64())}, SCHEMA)})
        assert join.progress().late == (0, 0)
        assert join.progress().total.unmatchable == (1, 0)


def test_the_watermark_survives_a_restart(tmp_path):
    """What was late before is late after."""
    with start(checkpoint=tmp_path) as join:
        join.process(FIRST)
    with start(checkpoint=tmp_path) as join:
        assert pairs(join.process(SECOND)) == ["l96-r100"]
        assert join.progress().total.late == (1, 1)


def test_idle_timeout():
    """A side silent for more than a minute stops holding back eviction; what it sends later may then be late."""
    clock = [0.0]
    with start(idle_timeout="1 minute", hooks=Hooks(now=lambda: clock[0])) as join:
        join.process(batch([100], [50]))
        seen = []
        for now, left, right in [(60, [200], []), (61, [300], []), (62, [], [200, 301]), (63, [302], [303])]:
            clock[0] = float(now)
            found = pairs(join.process(batch(left, right)))
            shown = join.progress()
            seen.append((now, shown.watermark, shown.late, shown.stored, found))
    assert seen == [
        (60, 45, (0, 0), (2, 1), []),  # silent for just a minute: the watermark waits
        (61, 295, (0, 0), (1, 0), []),  # longer: it is l's, and what it has passed is gone
        (62, 295, (0, 1), (1, 1), ["l300-r301"]),  # r is back, 200 comes too late, 301 does not
        (63, 297, (0, 0), (2, 2), ["l300-r303", "l302-r301", "l302-r303"]),
    ]


def test_without_idle_timeout_a_silent_side_holds_the_watermark():
    """As in Spark."""
    clock = [0.0]
    with start(hooks=Hooks(now=lambda: clock[0])) as join:
        join.process(batch([100], [50]))
        clock[0] = 1e9
        join.process(batch([300], []))
        assert join.progress().watermark == 45
        assert join.progress().stored == (2, 1)


def test_watermark_policy_max():
    """The faster side decides: r at 50 is late after l at 100."""
    with start(watermark_policy="max") as join:
        join.process(batch([100], [50]))
        assert join.progress().watermark == 95
        join.process(batch([], [60]))
        assert join.progress().late == (0, 1)


def test_late_rows_are_whole_and_the_policy_may_change_on_a_restart(tmp_path):
    """A side output gets every column of a late row, also those the join does not read; a restart may ask for it."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("note", pa.string())])
    options = {"event_time": "t", "watermark": 1, "select": ["l.k"], "checkpoint": tmp_path}
    on = "l.k = r.k AND l.t = r.t"

    def table(t):
        return pa.table([[1], [t], [f"at {t}"]], schema=schema)

    with evenjoin.local({"l": schema, "r": schema}, on, **options) as join:
        join.process({"l": table(10), "r": table(10)})
    got = []
    with evenjoin.local(
        {"l": schema, "r": schema}, on, late=lambda rows, *_: got.extend(rows.to_pylist()), **options
    ) as join:
        join.process({"l": table(5)})
    assert got == [{"k": 1, "t": 5, "note": "at 5"}]


@pytest.mark.parametrize("inside", [".", "late", "a/b"])
def test_late_rows_do_not_go_into_the_checkpoint(inside, tmp_path):
    """There they would be garbage of a crash, and be deleted."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    with pytest.raises(evenjoin.SpecError, match="inside the checkpoint"):
        evenjoin.local(
            {"l": schema, "r": schema},
            "l.k = r.k AND r.t BETWEEN l.t AND l.t + 1", event_time="t", watermark=1, checkpoint=tmp_path / "ck",
            late=tmp_path / "ck" / inside,
        )  # fmt: skip
    assert not (tmp_path / "ck").exists()


def test_late_rows_of_another_checkpoint_are_not_overwritten(tmp_path):
    """Its folder is refused before anything is joined, and the new checkpoint is free for a start with another one. The
    old checkpoint goes on."""
    with start(late=tmp_path / "late", checkpoint=tmp_path / "ck") as join:
        for part in (FIRST, SECOND):
            join.process(part)
    before = (tmp_path / "late/l/1.parquet").read_bytes()
    with pytest.raises(evenjoin.CheckpointMismatchError, match="late holds the output of another checkpoint"):
        start(late=tmp_path / "late", checkpoint=tmp_path / "new")
    with start(late=f"file:{tmp_path}/other", checkpoint=tmp_path / "new") as join:
        for part in (FIRST, SECOND):
            join.process(part)
    assert parquet.read_table(tmp_path / "other/l/1.parquet")["id"].to_pylist() == ["l95"]
    with start(late=tmp_path / "late", checkpoint=tmp_path / "ck") as join:
        join.process(batch([20], []))
    assert (tmp_path / "late/l/1.parquet").read_bytes() == before
    assert parquet.read_table(tmp_path / "late/l/2.parquet")["id"].to_pylist() == ["l20"]
