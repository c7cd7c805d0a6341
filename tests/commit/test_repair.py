"""Taking back the last commit: the join goes on from the one before, and its answer is the undisturbed one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.commit.repair import take_back
from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.state.files import LocalFolder
from evenjoin.testing import multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def open_join(folder, **more):
    return evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", instances=2, checkpoint=folder, **more)


def rows(batch):
    rng = np.random.default_rng(batch)
    return {alias: pa.table([rng.integers(0, 9, 30), rng.integers(0, 99, 30)], schema=SCHEMA) for alias in "lr"}


def run(folder, batches, seen):
    """Go on to batch `batches`; `seen` holds the results by batch number, replaced on replay."""
    with open_join(folder) as join:
        for batch in range(join.batch, batches):
            join.process(rows(batch), batch=batch, sink=lambda table, number: seen.__setitem__(number, multiset(table)))


def damage(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def newest(folder, name):
    return max((folder / name).iterdir(), key=lambda path: int(path.name))


@pytest.mark.parametrize("batches", [1, 2, 9], ids=["the first", "the second", "among merged runs"])
@pytest.mark.parametrize("harm", ["commit", "start", "segment", "nothing"])
def test_the_batch_is_replayed_from_the_commit_before(tmp_path, harm, batches):
    """Whatever was damaged: the last entry of the log, a file that it names, or nothing at all."""
    seen, whole = {}, {}
    run(tmp_path / "other", batches + 3, whole)
    folder = tmp_path / "ck"
    run(folder, batches, seen)
    if harm == "start":
        open_join(folder).close()
    if harm in ("commit", "start"):
        damage(newest(folder, "commits"))
        with pytest.raises(StateCorruptionError, match="damaged"):
            open_join(folder)
    if harm == "segment":
        for path in newest(folder, "segments").iterdir():
            damage(path)
    result = CliRunner().invoke(command, ["repair", str(folder), "--back"])
    replayed = batches if harm == "start" else batches - 1  # a start is no batch: the commit before it stays
    assert result.exit_code == 0, result.output
    assert f"the next start goes on with batch {replayed}\n" in result.output
    run(folder, batches + 3, seen)
    assert sum(seen.values(), Counter()) == sum(whole.values(), Counter())


def test_a_second_time_is_refused_when_files_are_gone(tmp_path):
    """Only the files of one commit back are kept: what cannot be gone back to is said, and nothing is changed."""
    run(tmp_path, 12, {})
    folder = LocalFolder(str(tmp_path))
    assert take_back(folder).batch == 11
    entries = folder.names("commits")
    for path in (tmp_path / "segments").rglob("*.arrow"):
        path.unlink()
    with pytest.raises(StateCorruptionError, match=r"batch \d+ cannot be gone back to: its segments/.* is gone"):
        take_back(folder)
    assert folder.names("commits") == entries


def test_not_while_a_query_runs(tmp_path):
    """And not on a checkpoint without a commit."""
    with open_join(tmp_path) as join:
        join.process(rows(0))
        with pytest.raises(CheckpointInUseError):
            take_back(LocalFolder(str(tmp_path)))
    empty = tmp_path / "empty"
    open_join(empty).close()
    with pytest.raises(StateCorruptionError, match="no commit that could be taken back"):
        take_back(LocalFolder(str(empty)))


def test_spark_replays_the_batch_too(tmp_path):
    """Its note that the batch is done goes, and so do plans for later ones; earlier ones stay."""
    run(tmp_path, 3, {})
    for log, names in (("commits", "012"), ("offsets", "0123")):
        (tmp_path / "spark" / log).mkdir(parents=True)
        for name in names:
            (tmp_path / "spark" / log / name).write_text("v1")
            (tmp_path / "spark" / log / f".{name}.crc").write_text("x")
    take_back(LocalFolder(str(tmp_path)))
    left = {log: sorted(p.name for p in (tmp_path / "spark" / log).iterdir()) for log in ("commits", "offsets")}
    assert left == {"commits": [".0.crc", ".1.crc", "0", "1"], "offsets": [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"]}
