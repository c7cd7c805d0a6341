"""Two joins on one checkpoint: the second is refused before it deletes anything, and one that was overtaken stops."""

from __future__ import annotations

import os
import tempfile
import threading

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import evenjoin
from evenjoin.commit.lease import LEASE_SECONDS
from evenjoin.errors import CheckpointInUseError
from evenjoin.spec import build_spec
from evenjoin.state.files import LocalFolder
from evenjoin.state.remote import RemoteFolder
from evenjoin.testing import Hooks, brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMAS = {alias: pa.schema([("id", pa.int64()), ("k", pa.int64())]) for alias in "lr"}
ON, SELECT = "l.k = r.k", ["l.id AS a", "r.id AS b"]


def rows(batch):
    return {alias: pa.table({"id": [2 * batch, 2 * batch + 1], "k": [1, batch]}) for alias in "lr"}


def expected(batches):
    whole = {alias: pa.concat_tables(rows(batch)[alias] for batch in batches) for alias in "lr"}
    return brute_force(build_spec(SCHEMAS, ON, select=SELECT), whole)


class Clock:
    time = 1_767_225_600.0

    def __call__(self):
        return self.time


def start(folder, clock, step=None):
    return evenjoin.local(SCHEMAS, ON, select=SELECT, checkpoint=folder, hooks=Hooks(now=clock, step=step))


def files(root):
    """Every file of a checkpoint on a disk, with its content; what says who holds it is left out."""
    found = (os.path.join(path, name) for path, _, names in os.walk(root) for name in names)
    return {name: open(name, "rb").read() for name in found if "owner" not in os.path.relpath(name, root)}


@pytest.fixture(params=["lock", "lease"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = str(tmp_path / "ck")
    return LocalFolder(root) if request.param == "lock" else RemoteFolder(pafs.LocalFileSystem(), root)


@pytest.mark.parametrize("when", ["begin", "executed", "receipts", "commit", "committed"])
def test_a_second_start_touches_nothing_of_a_live_join(folder, when):
    """At every step of a batch, with a file half written: it is refused, every file stays, and the batch is final."""
    clock, tried = Clock(), []

    def second(step, batch):
        if step == when and batch == 1:
            folder.write(f"segments/1/x.arrow.{'0a' * 16}.part", b"a task is writing this")
            before = files(folder.root)
            with pytest.raises(CheckpointInUseError, match="in use by process"):
                start(folder, clock)
            assert files(folder.root) == before
            tried.append(step)

    with start(folder, clock, second) as join:
        results = [join.process(rows(batch)) for batch in range(3)]
    assert tried == [when]
    assert multiset(pa.concat_tables(results)) == expected(range(3))


@pytest.mark.parametrize("when", ["begin", "executed", "commit"])
def test_a_join_that_was_overtaken_stops_before_it_commits(tmp_path, monkeypatch, when):
    """It stood still for longer than its lease, another one took over: it neither commits nor deletes, and the other
    one's answer is whole."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, clock, other = RemoteFolder(pafs.LocalFileSystem(), str(tmp_path / "ck")), Clock(), []

    def overtaken(step, batch):
        if step == when and batch == 1:
            clock.time += LEASE_SECONDS
            other.append(start(folder, clock))

    join = start(folder, clock, overtaken)
    results = [join.process(rows(0))]
    with pytest.raises(CheckpointInUseError, match="was taken over by process"):
        join.process(rows(1))
    results += [other[0].process(rows(batch)) for batch in (1, 2)]
    before = files(folder.root)
    with pytest.raises(CheckpointInUseError, match="was taken over by process"):
        join.process(rows(3))
    join.close()
    assert files(folder.root) == before
    other[0].close()
    assert multiset(pa.concat_tables(results)) == expected(range(3))


def test_a_start_after_a_crash_waits_for_the_lease(tmp_path, monkeypatch):
    """A driver that died holds its checkpoint for LEASE_SECONDS at most; then the next one goes on with its state."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, clock = RemoteFolder(pafs._MockFileSystem(), "ck"), Clock()
    dead = start(folder, clock)
    results = [dead.process(rows(0))]
    dead._driver._owner._lease._ended.set()  # its thread is gone with it
    with pytest.raises(CheckpointInUseError, match="If it has died, start again after that time"):
        start(folder, clock)
    clock.time += LEASE_SECONDS
    with start(folder, clock) as join:
        results.append(join.process(rows(1)))
    assert multiset(pa.concat_tables(results)) == expected(range(2))


def test_drivers_that_race_on_a_store_without_locks_give_one_answer(tmp_path, monkeypatch):
    """Three threads start and process the same batches again and again: every batch is committed once."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, results = RemoteFolder(pafs.LocalFileSystem(), str(tmp_path / "ck")), {}

    def run():
        while len(results) < 6:
            try:
                with evenjoin.local(SCHEMAS, ON, select=SELECT, checkpoint=folder) as join:
                    batch = join.batch
                    found = join.process(rows(batch), batch=batch)
                    assert batch not in results
                    results[batch] = found
            except CheckpointInUseError:
                continue

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(len(results)))
    assert multiset(pa.concat_tables(results.values())) == expected(range(len(results)))
