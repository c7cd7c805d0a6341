"""A lease on a checkpoint, for folders that have no locks: object stores and HDFS.

    owner/7    {"holder": "process 4711 on host-a", "until": 1767225630.0}

The file's name is the fencing number. The greatest number is the lease in force; its holder alone writes that file.

    take      the lease in force has run out, or there is none: create the next number, delete those below
    renew     every BEAT_SECONDS a thread writes a later `until` into the holder's own file
    check     is there a greater number?  then the lease was taken over, and the driver must stop
    release   `until` becomes 0

* While a holder renews, nobody else takes the lease: so nobody deletes files that its tasks are writing.
* `create` gives a number to one driver. If two drivers take two numbers at once, at most one holds the lease: each
  looks again after creating, and gives up if it sees another new number. Whoever looks last sees the other.
* Numbers only grow, also over crashes, because the file of a lease is only deleted when there is a greater one.
* A holder that died is followed by the next one LEASE_SECONDS later at the latest. One that stood still goes on if
  nobody came in the meantime.

Not guaranteed: that at each instant only one driver believes to hold the lease. `until` is a time of the holder's
clock, and clocks of two machines may differ; a driver may stand still between `check` and its commit. What keeps the
answer right then is the commit log, which gives each number to one driver.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.state.remote import RemoteFolder

LEASES = "owner"
LEASE_SECONDS = 30.0
BEAT_SECONDS = 7.0
"""Three renewals in a row may fail before the lease runs out."""
TRIES = 3
"""How many numbers a driver asks for while others, or what a crash left of them, claim the same ones."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as its file says it."""

    number: int
    holder: str
    until: float


class Lease:
    """Holds a lease until `release`. CheckpointInUseError if another driver's lease has not run out."""

    def __init__(
        self, folder: RemoteFolder, now: Callable[[], float] = time.time, beat: float | None = BEAT_SECONDS
    ) -> None:
        self._folder, self._now = folder, now
        self._holder = f"process {os.getpid()} on {socket.gethostname()}"
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self.number = self._take()
        if beat is not None:
            args = weakref.ref(self), self._ended, beat
            threading.Thread(target=_renew_often, args=args, name="evenjoin lease", daemon=True).start()

    def check(self) -> None:
        """CheckpointInUseError if another driver has taken the lease over."""
        if max(_numbers(self._folder), default=0) <= self.number:
            return
        held = in_force(self._folder)
        if held is not None:
            raise CheckpointInUseError(
                f"checkpoint {self._folder.root} was taken over by {held.holder}: this query had not renewed its lease "
                f"for {LEASE_SECONDS:g} seconds. It stops, and the other one goes on"
            )

    def renew(self) -> None:
        """Hold the lease for another LEASE_SECONDS, unless it was taken over or released."""
        with self._writing:
            if not self._ended.is_set() and max(_numbers(self._folder), default=0) <= self.number:
                self._folder.write(f"{LEASES}/{self.number}", self._text(self._now() + LEASE_SECONDS))

    def release(self) -> None:
        """Let the next driver have the checkpoint at once. It does no harm to release twice."""
        if self._ended.is_set():
            return
        with self._writing, suppress(OSError):  # if the store does not answer, the lease runs out by itself
            self._ended.set()
            if max(_numbers(self._folder), default=0) <= self.number:
                self._folder.write(f"{LEASES}/{self.number}", self._text(0.0))

    def _take(self) -> int:
        held = in_force(self._folder)
        if held is not None and held.until > self._now():
            raise self._refused(held)
        first = held.number + 1 if held is not None else 1
        for number in range(first, first + TRIES):
            if self._folder.create(f"{LEASES}/{number}", self._text(self._now() + LEASE_SECONDS)):
                break
            if number in _numbers(self._folder):
                raise self._refused(in_force(self._folder))
        else:
            raise self._refused(None)
        numbers = _numbers(self._folder)
        if any(other >= first and other != number for other in numbers):
            self._folder.delete(f"{LEASES}/{number}")
            raise self._refused(in_force(self._folder))
        with suppress(OSError):  # they are in nobody's way
            for old in [n for n in numbers if n < number]:
                self._folder.delete(f"{LEASES}/{old}")
        return number

    def _text(self, until: float) -> bytes:
        return json.dumps({"holder": self._holder, "until": until}).encode()

    def _refused(self, held: Held | None) -> CheckpointInUseError:
        if held is None:
            return CheckpointInUseError(f"checkpoint {self._folder.root} is being taken by another query; try again")
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(held.until))
        return CheckpointInUseError(
            f"checkpoint {self._folder.root} is in use by {held.holder}, whose lease is good until {until}; stop that "
            "query first, or use another folder. If it has died, start again after that time"
        )


def in_force(folder: RemoteFolder) -> Held | None:
    """The lease with the greatest number, which may have run out; None if there is none."""
    while numbers := _numbers(folder):
        name = f"{LEASES}/{numbers[-1]}"
        with suppress(FileNotFoundError):  # a greater one has just replaced it
            text = folder.load(name).to_pybytes()
            try:
                data = json.loads(text)
                return Held(numbers[-1], str(data["holder"]), float(data["until"]))
            except (ValueError, KeyError, TypeError):
                raise StateCorruptionError(
                    f"{name} of the checkpoint is damaged: it says who uses the checkpoint. "
                    f"If no query does, delete the folder {LEASES}/ and start again"
                ) from None
    return None


def _numbers(folder: RemoteFolder) -> list[int]:
    return sorted(int(name) for name in folder.names(LEASES) if name.isdigit())


def _renew_often(lease: weakref.ref[Lease], ended: threading.Event, beat: float) -> None:
    """What the thread does. It does not keep the lease alive: that of a join nobody holds any more runs out."""
    while not ended.wait(beat):
        held = lease()
        if held is None:
            return
        with suppress(OSError):  # the store does not answer; the next beat tries again
            held.renew()
        del held
