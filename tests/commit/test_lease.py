"""Leases: who holds a checkpoint on a store without locks, with a clock that the test turns."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from contextlib import suppress

import pyarrow.fs as pafs
import pytest

from evenjoin.commit.lease import LEASE_SECONDS, Lease, in_force
from evenjoin.commit.leftovers import collect_parts
from evenjoin.commit.owner import Owner
from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.state.remote import RemoteFolder


class Clock:
    def __init__(self):
        self.time = 1_767_225_600.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if request.param == "disk":
        return RemoteFolder(pafs.LocalFileSystem(), str(tmp_path / "ck"))
    return RemoteFolder(pafs._MockFileSystem(), "ck")


def take(folder, clock):
    """A lease that nothing renews by itself."""
    return Lease(folder, clock, beat=None)


def test_a_fresh_lease_refuses_the_second(folder, clock):
    """The message says who holds it and until when; nothing is changed."""
    first = take(folder, clock)
    before = in_force(folder)
    clock.time += LEASE_SECONDS - 1
    with pytest.raises(CheckpointInUseError, match=r"in use by process \d+ on .* until 2026-01-01 00:00:30 UTC; stop"):
        take(folder, clock)
    assert in_force(folder) == before
    first.check()


def test_a_lease_that_ran_out_is_taken_over_with_a_greater_number(folder, clock):
    """The old holder is told so before its next commit, and can neither renew nor release what is no longer its own."""
    first = take(folder, clock)
    clock.time += LEASE_SECONDS
    second = take(folder, clock)
    assert (first.number, second.number) == (1, 2)
    second.check()
    with pytest.raises(CheckpointInUseError, match="was taken over by process"):
        first.check()
    before = in_force(folder)
    first.renew()
    first.release()
    assert in_force(folder) == before
    assert folder.names("owner") == ["2"]


def test_a_lease_that_is_renewed_does_not_run_out(folder, clock):
    """However long it is held."""
    first = take(folder, clock)
    for _ in range(10):
        clock.time += LEASE_SECONDS - 1
        first.renew()
        with pytest.raises(CheckpointInUseError):
            take(folder, clock)
    first.check()


def test_a_holder_that_stood_still_goes_on_if_nobody_came(folder, clock):
    """Its lease ran out, but it is the one in force."""
    first = take(folder, clock)
    clock.time += 10 * LEASE_SECONDS
    first.check()
    first.renew()
    with pytest.raises(CheckpointInUseError):
        take(folder, clock)


def test_a_released_lease_is_free_at_once(folder, clock):
    """The numbers go on. Releasing twice does no harm, and a released lease is not renewed."""
    for number in (1, 2, 3):
        lease = take(folder, clock)
        assert lease.number == number
        lease.release()
        lease.release()
        lease.renew()
    assert folder.names("owner") == ["3"]


def test_of_many_that_start_at_once_at_most_one_holds_it(folder, clock):
    """The others are refused; none believes that it holds the lease beside another."""
    for _ in range(20):
        clock.time += 2 * LEASE_SECONDS
        held, start = [], threading.Barrier(4)

        def run(held=held, start=start):
            start.wait()
            with suppress(CheckpointInUseError):
                held.append(take(folder, clock))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        current = []
        for lease in held:
            try:
                lease.check()
            except CheckpointInUseError:
                continue
            current.append(lease)
        assert len(current) <= 1


def test_what_a_crashed_start_left_does_not_lock_the_checkpoint(folder, clock):
    """A claim on the next number is stepped over, and collected by the holder."""
    take(folder, clock).release()
    left = folder._write_part("owner/2", b"half")
    lease = take(folder, clock)
    assert lease.number == 3
    assert folder.parts("owner") == [left]
    collect_parts(folder)
    assert folder.parts("owner") == []
    lease.check()


def test_two_that_take_different_numbers_at_once_do_not_both_hold_the_lease(tmp_path, clock):
    """The first was slow to create its number, so the second took the next one: whoever comes last sees the other and
    gives up, with a lease that is fresh left in force."""
    system = pafs._MockFileSystem()
    plain = RemoteFolder(system, "ck")
    take(plain, clock).renew()
    text = plain.load("owner/1").to_pybytes()
    plain.delete("owner/1")
    slow = plain._write_part("owner/1", text)

    class Overtaken:
        def move(self, source, target):
            system.move(source, target)
            if target.endswith("owner/2"):
                system.move(f"ck/{slow}", "ck/owner/1")

        def __getattr__(self, name):
            return getattr(system, name)

    with pytest.raises(CheckpointInUseError, match="whose lease is good until"):
        take(RemoteFolder(Overtaken(), "ck"), clock)
    assert plain.names("owner") == ["1"]


def test_a_damaged_lease_is_named(folder, clock):
    """With what to do, because nobody can tell whether a query runs."""
    take(folder, clock)
    folder.write("owner/1", b"{")
    with pytest.raises(StateCorruptionError, match=r"owner/1 of the checkpoint is damaged.*delete the folder owner/"):
        take(folder, clock)


def wait_for(true):
    """Until it is true; the test's own timeout ends a wait in vain."""
    while not true():
        time.sleep(0.005)


def test_a_thread_renews_the_lease_until_it_is_released(folder, clock):
    """The time in the file moves on with the clock, and stops at the release."""
    lease = Lease(folder, clock, beat=0.01)
    for _ in range(3):
        clock.time += LEASE_SECONDS
        wait_for(lambda: in_force(folder).until == clock.time + LEASE_SECONDS)
    lease.release()
    assert in_force(folder).until == 0
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "evenjoin lease"])


def test_a_lease_that_nobody_holds_any_more_is_not_renewed(folder, clock):
    """A join that was dropped without being closed does not keep its checkpoint for ever."""
    lease = Lease(folder, clock, beat=0.01)
    del lease
    gc.collect()
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "evenjoin lease"])
    clock.time += LEASE_SECONDS
    Lease(folder, clock, beat=None)


def test_the_thread_survives_a_store_that_does_not_answer(tmp_path, clock):
    """Renewals that fail are tried again."""
    system = pafs._MockFileSystem()

    class Flaky:
        broken = False

        def move(self, *names):
            if self.broken:
                raise OSError("no answer")
            system.move(*names)

        def __getattr__(self, name):
            return getattr(system, name)

    flaky = Flaky()
    folder = RemoteFolder(flaky, "ck")
    lease = Lease(folder, clock, beat=0.01)
    flaky.broken = True
    clock.time += 1
    with pytest.raises(OSError, match="no answer"):
        lease.renew()
    flaky.broken = False
    wait_for(lambda: in_force(folder).until == clock.time + LEASE_SECONDS)
    lease.release()


def test_an_owner_of_a_remote_folder_has_a_lease(folder, clock):
    """Refused, checked and released as a lock is."""
    first = Owner(folder, clock)
    with pytest.raises(CheckpointInUseError, match="whose lease is good until"):
        Owner(folder, clock)
    first.check()
    first.release()
    Owner(folder, clock).release()
