"""What two lanes took and did, read from their commits, and what is said of it at the end."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import evenjoin
from evenjoin.bench.ride_hailing import Day
from evenjoin.cli.epilogue import Told, changes, compared, disturbed, verdict
from evenjoin.cli.lanes import Lane, Slice, in_turn
from evenjoin.cli.side_by_side import Scene, hours, panes
from evenjoin.commit.history import commits_after, read_history
from evenjoin.errors import EvenJoinError
from evenjoin.events import Migration, Verdict

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
ON = "l.k = r.k AND abs(l.ts - r.ts) <= 5"


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    """A lane of four slices. In the last one key is most of the stream."""
    made = Lane("hash", tmp_path / "hash", ("orders", "tracks"))
    rng = np.random.default_rng(5)
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, ON, event_time="ts", watermark=0, checkpoint=made.path("checkpoint"),
        strategy="hash", instances=4,
    ) as join:  # fmt: skip
        for batch in range(4):
            keys = rng.integers(0, 100, 500) if batch < 3 else np.full(500, 7)
            ts = np.sort(rng.integers(100 * batch, 100 * batch + 100, 500))
            join.process({"l": pa.table([keys, ts], schema=SCHEMA), "r": pa.table([keys, ts], schema=SCHEMA)})
    made.slices = [Slice((commit,)) for commit in commits_after(made.path("checkpoint"), -1)]
    return made


def taking(lane: Lane, *took_ms: float) -> list[Slice]:
    """The lane's slices, had their batches taken so long."""
    return [Slice((replace(s.commits[0], duration_ms=ms),)) for s, ms in zip(lane.slices, took_ms, strict=True)]


def test_commits_after_a_batch_are_those_of_the_history(lane: Lane) -> None:
    """Oldest first, and only those."""
    whole = read_history(lane.path("checkpoint")).commits
    assert [commit.batch for commit in whole] == [0, 1, 2, 3]
    for batch in range(-1, 4):
        assert commits_after(lane.path("checkpoint"), batch) == whole[batch + 1 :]


def test_a_slice_of_two_batches_is_added_up_and_shows_the_heavier_one(lane: Lane) -> None:
    """As when a query saw the files of one side first."""
    two = Slice((*lane.slices[0].commits, *lane.slices[3].commits))
    assert two.took_ms == pytest.approx(lane.slices[0].took_ms + lane.slices[3].took_ms)
    assert two.results == lane.slices[0].results + lane.slices[3].results
    assert two.report in [one.commits[0].report for one in lane.slices]
    assert len(two.tasks_ms) == 4
    assert two.imbalance == pytest.approx(max(two.tasks_ms) / np.mean(two.tasks_ms))


def test_who_goes_first_alternates() -> None:
    """So that neither is always the second."""
    lanes = [Lane("hash", Path("a"), ()), Lane("auto", Path("b"), ())]
    orders = [[one.strategy for one in in_turn(lanes, n)] for n in range(3)]
    assert orders == [["hash", "auto"], ["auto", "hash"], ["hash", "auto"]]


def test_the_verdict_leaves_out_what_warms_up_and_says_who_lost(lane: Lane) -> None:
    """Whoever it was; and nobody, where times are as good as equal."""
    usual, other = replace(lane, slices=taking(lane, 9000, 9000, 1000, 3000)), replace(lane, strategy="auto")
    other.slices = taking(lane, 1, 1, 1000, 1000)
    assert verdict(usual, other) == [
        "auto took 50% less time than hash: 2.0 s against 4.0 s for 2 batches after warming up.",
        "A batch of auto over one of hash: p50 0.50, p90 0.36; the worst 0.33.",
    ]
    assert verdict(replace(other, strategy="hash"), replace(usual, strategy="auto"))[0].startswith(
        "auto took 100% more time than hash: 4.0 s against 2.0 s"
    )
    other.slices = taking(lane, 1, 1, 1000, 3100)
    assert verdict(usual, other)[0].startswith("auto and hash took the same time")


def test_a_change_is_told_with_the_verdict_that_called_for_it(lane: Lane) -> None:
    """The verdict of the batch before; a lane without changes says why."""
    day = Day(batches=4)
    before, last = lane.slices[2].commits[0], lane.slices[3].commits[0]
    said = Verdict(2, 2.0, "key 7 is hot: doing it", 2)
    moved = Migration(3, "auto/shared on 4", "auto/shared on 4", 1_234, 9, 56.0, "imbalance")
    done = [Slice((replace(before, verdict=said),)), Slice((replace(last, migration=moved),))]
    changed = replace(lane, strategy="auto", slices=[*lane.slices[:2], *done])
    assert [text.plain for text in changes(changed, day)] == [
        "18:00  key 7 is hot: doing it; moved 1,234 tuples, 56 ms"
    ]
    assert changes(lane, day)[0].plain == "nothing: it never changes its table"
    even = replace(lane, slices=[Slice((replace(last, verdict=Verdict(3, 1.0, "even")),))])
    assert changes(even, day)[0].plain == "nothing: even"


def test_the_view_fits_eighty_columns_at_every_moment(lane: Lane) -> None:
    """Before the first slice, amid, and at the end; a strategy's text is text, whatever is in it."""
    scene, lanes = Scene(Day(batches=4), 4, 2), [lane, replace(lane, strategy="[red]x\x1b[2J", slices=[])]
    out = io.StringIO()
    console = Console(file=out, width=80, emoji=False)
    console.print(panes(scene, [replace(one, slices=[]) for one in lanes]))
    scene.begin(3, lane)
    console.print(panes(scene, lanes))
    scene.end()
    console.print(panes(scene, lanes))
    console.print(panes(scene, [replace(lane, slices=lane.slices * 72), lanes[0]]))  # as many batches as there may be
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert "[red]x\\x1b[2J" in out.getvalue()
    assert "hottest cell: c7 " in out.getvalue()
    assert [hours(scene.day, n) for n in (0, 3)] == ["00:00-06:00", "18:00-24:00"]


def test_on_a_busy_machine_processor_time_is_told(lane: Lane) -> None:
    """What others do does not change it: the longest that one of the cores has, added up over the batches."""
    busy = [sum(load.busy_ms for load in one.report.instances) for one in lane.warm]
    told = disturbed(Told(Day(batches=4), (lane, replace(lane, strategy="auto")), "", 1, 3.0))
    assert "load 3.0 on 1 cores" in told
    assert f"{sum(busy) / 1000:.1f} s under auto" in told


def test_results_that_differ_are_an_error(tmp_path: Path) -> None:
    """One row more, or another value: the demo does not call them the same. Their order does not matter."""
    lanes = [Lane(name, tmp_path / name, ()) for name in ("hash", "auto")]
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 1}, {"a": 1, "b": 1}]
    for one, written in zip(lanes, (rows, rows[::-1]), strict=True):
        Path(one.path("joined")).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(written), f"{one.path('joined')}/a.parquet")
    assert compared(*lanes) == 3
    for other in (rows[:2], [*rows[:2], {"a": 1, "b": 3}]):
        pq.write_table(pa.Table.from_pylist(other), f"{lanes[1].path('joined')}/a.parquet")
        with pytest.raises(EvenJoinError, match="different results"):
            compared(*lanes)
