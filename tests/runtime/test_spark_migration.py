"""A migration on Spark has a task for each donor and for nobody else. No session is started: tasks are run by hand."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pyarrow as pa
import pytest

from evenjoin.instance.migrate import Moving
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.runtime.spark import tasks
from evenjoin.runtime.spark.batch import SparkBatch
from evenjoin.runtime.spark.where import Choice
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.segment import seal
from evenjoin.state.tuples import ROLE
from stations import work_of

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
HOME = tuple(Region(Buckets((b,)), Biclique(((b,), (b,)))) for b in range(4))


class Session:
    """Runs the partitions of a `mapInArrow` one after the other, each from a pickle, as a worker gets it."""

    def __init__(self, patch):
        self.patch, self.tasks = patch, []

    def range(self, start, end, step, partitions):
        assert (start, end, step) == (0, partitions, 1)
        self.tasks.append(partitions)
        return SimpleNamespace(
            mapInArrow=lambda run, _: SimpleNamespace(collect=lambda: self.collected(run, partitions))
        )

    def collected(self, run, partitions):
        shipped, rows = pickle.dumps(run), []
        for partition in range(partitions):
            self.patch.setattr(tasks, "_partition", lambda number=partition: number)
            rows += [row for part in pickle.loads(shipped)(iter(())) for row in part.to_pylist()]
        return [SimpleNamespace(**row) for row in rows[::-1]]  # in whatever order


class Shared(MemoryFolder):
    """A folder in memory that stays the same one when it is pickled."""

    def __reduce__(self):
        return _the_folder, (id(self),)


FOLDERS: dict[int, Shared] = {}


def _the_folder(key):
    return FOLDERS[key]


@pytest.fixture
def stored():
    """Keys 0 to 19 of both sides, stored on four instances by bucket, as (work, folder)."""
    spec = build_spec(dict.fromkeys("lr", SCHEMA), "l.k = r.k", select=["l.id AS a", "r.id AS b"])
    folder = Shared()
    FOLDERS[id(folder)] = folder
    work, runs = work_of(spec, RoutingTable(0, 4, 2, 4, HOME)), {}
    dispatcher = Dispatcher(work, None)
    for side in range(2):
        rows = pa.RecordBatch.from_pylist([{"id": k, "k": k} for k in range(20)], SCHEMA)
        rows = rows.select(list(spec.sides[side].columns))
        for instance, piece, _ in dispatcher.dispatch(side, rows).pieces:
            whole = work.schemas[side].joined([piece.drop_columns([ROLE])], work.schemas[side].run)
            runs[instance, side] = seal(folder, f"segments/0/{side}-i{instance}-x.arrow", [(0, whole, ())])
    yield work_of(spec, work.table, runs), folder
    del FOLDERS[id(folder)]


def migrated(stored, new, patch):
    work, folder = stored
    session, one = Session(patch), object.__new__(SparkBatch)
    one._frame, one._folder = SimpleNamespace(sparkSession=session), folder
    one.choice = Choice("executors", "")
    return session.tasks, one.migrate(work, new)


def test_a_key_that_moves_is_one_task(stored, monkeypatch):
    """The instance of key 7 has a task, wherever it stands among the four; the parts of all four come back in order."""
    for target in range(4):
        new = RoutingTable(1, 4, 2, 4, (*HOME, Region(Keys((7,)), Biclique(((target,), (target,))))))
        donors = Moving.to(new, stored[0]).donors
        tasks, done = migrated(stored, new, monkeypatch)
        assert tasks == ([1] if donors else [])
        assert [(one.instance, one.heir) for one in done] == [(n, n) for n in range(4)]
        assert [one.instance for one in done if one.tuples] == donors
        assert sum(one.tuples for one in done) == 2 * len(donors)


def test_fewer_instances_are_a_task_for_each_that_goes(stored, monkeypatch):
    """Two of four are dissolved: two tasks, and what they had is all that moves."""
    regions = tuple(Region(Buckets((b,)), Biclique(((b % 2,), (b % 2,)))) for b in range(4))
    tasks, done = migrated(stored, RoutingTable(1, 2, 2, 4, regions), monkeypatch)
    held = [sum(run.alive for place, runs in stored[0].runs.items() if place[0] == n for run in runs) for n in range(4)]
    assert tasks == [2]
    assert [(one.heir, one.tuples) for one in done] == [(0, 0), (1, 0), (-1, held[2]), (-1, held[3])]
