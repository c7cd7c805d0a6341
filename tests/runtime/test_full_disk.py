"""A full disk while sealing: the batch fails as a whole, is replayed, and nothing is lost or repeated."""

from __future__ import annotations

import errno
import os
import resource
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.spec import build_spec
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.testing import brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("text", pa.string())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
ON, SELECT = "l.k = r.k", ["l.id AS a", "r.id AS b"]


class FullDisk:
    """A folder whose writes below `where` fail with ENOSPC while `failures` says so (a countdown per write)."""

    def __init__(self, folder, where="segments/"):
        self._folder, self._where = folder, where
        self.left = None

    def write(self, name, data):
        if name.startswith(self._where) and self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        self._folder.write(name, data)

    def create(self, name, data):
        if name.startswith(self._where) and self.left is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        return self._folder.create(name, data)

    def __getattr__(self, name):
        return getattr(self._folder, name)


def batches(count, rows=40, seed=0):
    """Batches of both sides with few keys; ids are unique over all batches."""
    rng = np.random.default_rng(seed)
    out = []
    for batch in range(count):
        ids = np.arange(batch * rows, (batch + 1) * rows)
        out.append({a: pa.table({"id": ids, "k": rng.integers(0, 9, rows), "text": ["x" * 20] * rows}) for a in "lr"})
    return out


def expected(parts):
    whole = {a: pa.concat_tables(part[a] for part in parts).cast(SCHEMA) for a in "lr"}
    return brute_force(build_spec(SCHEMAS, ON, select=SELECT), whole)


def start(folder, **options):
    return evenjoin.local(SCHEMAS, ON, select=SELECT, checkpoint=folder, instances=3, **options)


def named(join):
    return join._driver.last.manifest.files


def files(folder, start="segments"):
    """All files of a folder below `start`."""
    return {f"{start}/{sub}/{n}" for sub in folder.names(start) for n in folder.names(f"{start}/{sub}")}


@pytest.mark.parametrize("restart", ["same process", "another process"])
@pytest.mark.parametrize("where", ["segments/", "receipts/", "tables/", "commits/"])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_full_disk_at_every_write(kind, where, restart, tmp_path):
    """At the n-th write of each batch, for every n: OSError, then the replay gives what a whole run gives."""
    inner = MemoryFolder() if kind == "memory" else LocalFolder(str(tmp_path))
    folder = FullDisk(inner, where)
    parts = batches(3)
    sunk = {}
    join = start(folder)
    failures = 0
    for number, part in enumerate(parts):
        for allowed in range(8):
            folder.left = allowed
            try:
                join.process(part, batch=number, sink=lambda table, batch: sunk.__setitem__(batch, table))
            except OSError:
                failures += 1
            else:
                break
            if restart == "another process":
                folder.left = None
                join.close()
                join = start(folder)
        folder.left = None
        join.process(part, batch=number, sink=lambda table, batch: sunk.__setitem__(batch, table))
        assert files(folder) == named(join)
    join.close()
    assert failures >= (1 if where == "tables/" else 3)
    assert multiset(pa.concat_tables(sunk.values())) == expected(parts)
    assert not files(folder, "receipts")


def test_tries_do_not_pile_up_on_the_full_disk(tmp_path):
    """Ten failed tries leave no more files behind than one: what they sealed is thrown away before the next."""
    folder = FullDisk(LocalFolder(str(tmp_path)))
    part = batches(1)[0]
    with start(folder) as join:
        counts = []
        for _ in range(10):
            folder.left = 4
            with pytest.raises(OSError, match="No space"):
                join.process(part)
            counts.append(len(files(folder)))
        assert counts == [4] * 10


def test_a_failed_batch_may_be_given_up_for_another():
    """The rows of a try that failed are not in the state: the next call's rows are, and only they."""
    for seed in range(5):
        folder = FullDisk(MemoryFolder())
        first, second = batches(2, seed=seed)
        with start(folder) as join:
            folder.left = 4  # instances 0 and 1 have sealed both sides and reported
            with pytest.raises(OSError, match="No space"):
                join.process(first)
            folder.left = None
            results = [join.process(second), join.process(second)]
        assert multiset(pa.concat_tables(results)) == expected([second, second])


def test_a_real_limit_on_file_sizes(tmp_path):
    """The kernel refuses the write (RLIMIT_FSIZE): OSError, no half file, and the replay is whole."""
    parts = batches(3, rows=400)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with start(tmp_path) as join:
        results = [join.process(parts[0])]
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
            with pytest.raises(OSError, match="File too large"):
                join.process(parts[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not list(tmp_path.rglob("*.part"))
        results += [join.process(part) for part in parts[1:]]
    assert multiset(pa.concat_tables(results)) == expected(parts)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB, where mounting one is allowed."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no mount here: {error}")
    if done.returncode != 0:
        pytest.skip(f"mounting a small tmpfs is not allowed here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_disk_that_is_really_full(small_disk):
    """ENOSPC from the file system itself; with room again the same join goes on, and so does a new one."""
    parts = batches(4, rows=400)
    ballast = small_disk / "ballast"
    join = start(small_disk / "ck")
    results = [join.process(parts[0])]
    room = os.statvfs(small_disk)
    ballast.write_bytes(b"x" * (room.f_bavail * room.f_frsize - 8192))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left on device"):
            join.process(parts[1])
    ballast.unlink()
    results.append(join.process(parts[1]))
    room = os.statvfs(small_disk)
    ballast.write_bytes(b"x" * (room.f_bavail * room.f_frsize - 8192))
    with pytest.raises(OSError, match="No space left on device"):
        join.process(parts[2])
    join.close()
    ballast.unlink()
    with start(small_disk / "ck") as join:
        results += [join.process(part) for part in parts[2:]]
    assert multiset(pa.concat_tables(results)) == expected(parts)
