"""Remote folders: creating without a conditional request, and what the store keeps while a file is written."""

from __future__ import annotations

import pickle
import tempfile
import threading

import pyarrow.fs as pafs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import StorageError
from evenjoin.state.remote import RemoteFolder
from thorough import examples


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("copies")))


class Turns:
    """A file system on which two threads take turns, one operation at a time, in a given order. When the order is used
    up, whoever comes is next."""

    def __init__(self, system, order):
        self._system, self._order = system, list(order)
        self._waiting, self._free = set(), threading.Condition()
        self.done = set()

    def __getattr__(self, name):
        operation = getattr(self._system, name)
        if not callable(operation):
            return operation

        def in_turn(*args, **kwargs):
            with self._free:
                self._free.wait_for(self._may_go)
                if self._order:
                    self._order.pop(0)
                try:
                    return operation(*args, **kwargs)
                finally:
                    self._free.notify_all()

        return in_turn

    def _may_go(self):
        me = int(threading.current_thread().name)
        while self._order and self._order[0] in self.done:
            self._order.pop(0)
        return not self._order or self._order[0] == me

    def finish(self):
        with self._free:
            self.done.add(int(threading.current_thread().name))
            self._free.notify_all()


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.integers(0, 1), max_size=16))
def test_of_two_creators_at_most_one_wins_in_every_order(order):
    """However their operations interleave: never both, and what is there afterwards is the winner's."""
    system = pafs._MockFileSystem()
    turns = Turns(system, order)
    folder, won = RemoteFolder(turns, "ck"), []

    def run():
        me = int(threading.current_thread().name)
        try:
            if folder.create("commits/1", b"%d" % me):
                won.append(me)
        finally:
            turns.finish()

    threads = [threading.Thread(target=run, name=str(n)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plain = RemoteFolder(system, "ck")
    assert len(won) <= 1
    assert plain.names("commits") == ["1"] * len(won)
    assert [plain.load("commits/1").to_pybytes() for _ in won] == [b"%d" % n for n in won]
    assert plain.parts("") == []


@pytest.mark.parametrize("kind", ["disk", "below a prefix"])
def test_of_many_creators_on_a_disk_at_most_one_wins(kind, tmp_path):
    """Threads that start together, 40 times: never two, and a loser changes nothing."""
    disk = pafs.LocalFileSystem()
    folder = (
        RemoteFolder(disk, str(tmp_path))
        if kind == "disk"
        else RemoteFolder(pafs.SubTreeFileSystem(str(tmp_path), disk), "ck")
    )
    for round_ in range(40):
        won, start = [], threading.Barrier(4)

        def run(number, name, won=won, start=start):
            start.wait()
            if folder.create(name, b"%d" % number):
                won.append(number)

        name = f"commits/{round_}"
        threads = [threading.Thread(target=run, args=(n, name)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) <= 1
        assert [folder.load(name).to_pybytes() for _ in won] == [b"%d" % n for n in won]
    assert folder.parts("") == []


def claim(folder, name):
    """What a creator that died before it moved its file leaves."""
    return folder._write_part(name, b"half")


def test_a_claim_that_a_crash_left_keeps_its_name_taken_until_it_is_collected():
    """So a driver that stands still is not overtaken; other names are free."""
    folder = RemoteFolder(pafs._MockFileSystem(), "ck")
    left = claim(folder, "commits/1")
    assert folder.create("commits/1", b"new") is False
    assert folder.create("commits/10", b"another") is True
    assert folder.parts("commits") == [left]
    assert folder.names("commits") == ["10"]
    folder.delete(left)
    assert folder.create("commits/1", b"new") is True
    assert folder.load("commits/1").to_pybytes() == b"new"


def test_a_creator_whose_claim_was_collected_has_not_created():
    """Its move finds nothing: False, and no file."""
    system = pafs._MockFileSystem()

    class Collected:
        def move(self, source, target):
            system.delete_file(source)
            system.move(source, target)

        def __getattr__(self, name):
            return getattr(system, name)

    assert RemoteFolder(Collected(), "ck").create("commits/1", b"late") is False
    assert RemoteFolder(system, "ck").names("commits") == []


def test_parts_are_found_where_they_are_asked_for(tmp_path):
    """Below a folder or directly in it, by their whole names; files of others that end in .part are not ours."""
    for folder in (RemoteFolder(pafs._MockFileSystem(), "a/ck"), RemoteFolder(pafs.LocalFileSystem(), str(tmp_path))):
        deep, top = claim(folder, "segments/3/x.arrow"), claim(folder, "join.json")
        folder.write("segments/theirs.part", b"x")
        assert folder.parts("segments") == [deep]
        assert folder.parts("", "here") == [top]
        assert folder.parts("") == sorted([deep, top])
        assert folder.parts("nowhere") == []


def test_a_write_that_fails_leaves_no_part(tmp_path):
    """The store refuses the bytes: a StorageError with the file's name, and nothing stays."""
    system = pafs._MockFileSystem()

    class Full:
        def open_output_stream(self, path):
            system.open_output_stream(path).close()
            raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(system, name)

    folder = RemoteFolder(Full(), "ck")
    for write in (folder.write, folder.create):
        with pytest.raises(StorageError, match="cannot write commits/1 in the checkpoint ck: No space left on device"):
            write("commits/1", b"x")
    assert folder.parts("") == []


def test_a_folder_that_was_sent_to_a_worker_has_the_same_text(tmp_path):
    """Workers keep segments open by the folder's text, and get a new folder object with every task."""
    folder = RemoteFolder(pafs.LocalFileSystem(), str(tmp_path))
    assert (
        repr(pickle.loads(pickle.dumps(folder))) == repr(folder) == f"RemoteFolder(root='{tmp_path}', conditional=None)"
    )


def test_a_file_that_goes_while_a_folder_is_listed_is_no_error(tmp_path):
    """Arrow's listing of a disk fails then; it is made again."""
    plain = pafs.LocalFileSystem()
    folder = RemoteFolder(plain, str(tmp_path))
    folder.write("a/x", b"1")
    fails = [True, True]

    class Busy:
        type_name = "busy"

        def get_file_info(self, what):
            if fails:
                fails.pop()
                raise FileNotFoundError(what)
            return plain.get_file_info(what)

    assert RemoteFolder(Busy(), str(tmp_path)).names("a") == ["x"]
    assert fails == []
