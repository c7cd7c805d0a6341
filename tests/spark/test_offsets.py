"""The digest of what Spark has read, on folders that Spark has written and on lines as Spark writes them."""

from __future__ import annotations

import os
import shutil

import pytest

from evenjoin.errors import StateCorruptionError
from evenjoin.runtime.spark.offsets import Offsets
from evenjoin.state.files import LocalFolder, MemoryFolder

pytestmark = pytest.mark.spark


def write(folder, numbers):
    """Text files with ascending modification times."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        path = folder / f"file {number}.txt"
        path.write_text(f"row {number}")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def read_all(spark, folder, checkpoint, limit=1):
    """Read everything in `a` and `b` in batches of `limit` files a side, and return the digest after each batch."""
    sides = [spark.readStream.option("maxFilesPerTrigger", limit).text(str(folder / side)) for side in "ab"]
    writer = sides[0].union(sides[1]).writeStream.foreachBatch(lambda frame, batch: None)
    writer = writer.option("checkpointLocation", str(checkpoint / "spark")).trigger(availableNow=True)
    writer.start().awaitTermination()
    return digests(checkpoint)


def digests(checkpoint):
    """By batch, each as a driver finds it that has just started."""
    names = LocalFolder(str(checkpoint)).names("spark/offsets")
    return [Offsets(LocalFolder(str(checkpoint))).digest(n) for n in range(len([n for n in names if n.isdigit()]))]


@pytest.fixture
def compacted(spark, tmp_path):
    """Six batches of one file a side, of which `b` has only two; every third part of the log is compact."""
    write(tmp_path / "a", range(6))
    write(tmp_path / "b", range(2))
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    yield read_all(spark, tmp_path, tmp_path / "ck")
    spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")


def test_a_digest_is_what_was_read_and_nothing_else(compacted, spark, tmp_path):
    """The same for a copy, for whoever reads batch after batch, without the parts of the log that Spark removes, and
    when Spark plans the same files again without its folder; another one after each batch, and as soon as a file was
    modified. Two files at a time have read after n batches what one at a time has after 2 n."""
    assert {path.name for path in (tmp_path / "ck/spark/sources/0").glob("*.compact")} == {"2.compact", "5.compact"}
    assert len(compacted) == len(set(compacted)) == 6
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    steadily = Offsets(LocalFolder(str(tmp_path / "copy")))
    batches = [0, 1, 1, 2, 3, 4, 5, 2, 3]
    assert [steadily.digest(n) for n in batches] == [compacted[n] for n in batches]
    for name in ("0", "1", "2.compact", "3", "4"):
        (tmp_path / "copy/spark/sources/0" / name).unlink()
    assert digests(tmp_path / "copy") == compacted
    spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    assert read_all(spark, tmp_path, tmp_path / "again") == compacted
    assert read_all(spark, tmp_path, tmp_path / "faster", limit=2) == compacted[1::2]
    os.utime(tmp_path / "a" / "file 3.txt", (1_000_000_003, 1_000_000_003.5))
    modified = read_all(spark, tmp_path, tmp_path / "modified")
    assert [old == new for old, new in zip(compacted, modified, strict=True)] == [True] * 3 + [False] * 3


def test_a_batch_costs_what_is_new(compacted, tmp_path):
    """A driver asks for the batch that comes and for the one before. After its first batch that loads the offsets and
    the new part of the log, and neither old parts nor old offsets."""
    loaded = []

    class Watched(LocalFolder):
        def load(self, name):
            loaded.append(name.removeprefix("spark/"))
            return super().load(name)

    offsets = Offsets(Watched(str(tmp_path / "ck")))
    found = [(offsets.digest(3), offsets.digest(2))]
    loaded.clear()
    found += [(offsets.digest(batch), offsets.digest(batch - 1)) for batch in (4, 5)]
    assert found == [(compacted[batch], compacted[batch - 1]) for batch in (3, 4, 5)]
    assert [name for name in loaded if name.startswith("offsets/")] == ["offsets/4", "offsets/5"]
    assert set(loaded) <= {"offsets/4", "offsets/5", "sources/0/3", "sources/0/4", "sources/0/5", "sources/0/5.compact"}


def test_a_batch_may_cover_several_log_offsets(spark, tmp_path):
    """A crash after Spark wrote its list of files, and before it planned the batch: the next batch has those files and
    new ones, and its digest stands for all of them."""
    for side in "ab":
        write(tmp_path / side, range(2))
    read_all(spark, tmp_path, tmp_path / "ck")
    for kind in ("offsets", "commits"):
        (tmp_path / "ck/spark" / kind / "1").unlink()
        (tmp_path / "ck/spark" / kind / ".1.crc").unlink(missing_ok=True)
    for side in "ab":
        write(tmp_path / side, [2])
    replayed = read_all(spark, tmp_path, tmp_path / "ck")
    assert (tmp_path / "ck/spark/offsets/1").read_text().splitlines()[2:] == ['{"logOffset":2}'] * 2
    assert replayed[1] == read_all(spark, tmp_path, tmp_path / "undisturbed")[2]


def folder(lines, version="v1", **sources):
    """A checkpoint with the offsets of batch 0 as Spark writes them, and where its sources began."""
    made = MemoryFolder()
    made.write("spark/offsets/0", "\n".join([version, '{"batchTimestampMs":17}', *lines]).encode())
    for source, text in sources.items():
        made.write(f"spark/sources/{source.removeprefix('_')}/0", text.encode())
    return made


KAFKA = '{"orders":{"1":7,"0":23}}'
BEGAN = 'v1\n{"orders":{"1":0,"0":3}}'
FILE = '{"path":"file:///in/a.txt","timestamp":1000,"batchId":%d}'


def test_sources_that_have_offsets_of_their_own():
    """Other offsets, another begin (of rate it is a time, of kafka the offsets it started from) and another order of
    sources are told apart; the order of the partitions in the text is not."""
    read = [
        folder([KAFKA, "12"], _0=BEGAN, _1="v1\n1794917843707"),
        folder([KAFKA, "13"], _0=BEGAN, _1="v1\n1794917843707"),
        folder([KAFKA, "12"], _0=BEGAN, _1="v1\n1794917843708"),
        folder([KAFKA, "12"], _0='v1\n{"orders":{"1":0,"0":4}}', _1="v1\n1794917843707"),
        folder([KAFKA.replace("23", "24"), "12"], _0=BEGAN, _1="v1\n1794917843707"),
        folder(["12", KAFKA], _1=BEGAN, _0="v1\n1794917843707"),
        folder([KAFKA, "-"], _0=BEGAN, _1="v1\n1794917843707"),
        folder([KAFKA], _0=BEGAN),
        folder([KAFKA, "an offset that is no JSON"], _0=BEGAN),
    ]
    assert len({Offsets(one).digest(0) for one in read}) == len(read)
    turned = folder(['{"orders":{"0":23,"1":7}}', "12"], _0=BEGAN, _1="v1\n1794917843707")
    assert Offsets(turned).digest(0) == Offsets(read[0]).digest(0)


def test_sources_that_have_names():
    """Version 2 of Spark's file: the order of its lines does not count."""
    log = f"v1\n{FILE % 0}"
    one = folder([f"o:{KAFKA}", 't:{"logOffset":0}'], "v2", o=BEGAN, t=log)
    two = folder(['t:{"logOffset":0}', f"o:{KAFKA}"], "v2", o=BEGAN, t=log)
    other = folder([f"o:{KAFKA}", 't:{"logOffset":0}'], "v2", o=BEGAN, t=log.replace("a.txt", "b.txt"))
    assert Offsets(one).digest(0) == Offsets(two).digest(0) != Offsets(other).digest(0)


@pytest.mark.parametrize(
    ("lines", "log", "says"),
    [
        (['{"logOffset":1}'], f"v1\n{FILE % 0}", "spark/sources/0/1 is missing"),
        (['{"logOffset":0}'], f"v1\n{FILE % 1}", "spark/sources/0/0 of the checkpoint is damaged"),
        (['{"logOffset":0}'], f"v1\n{FILE % 0}"[:-9], "spark/sources/0/0 of the checkpoint is damaged"),
        (['{"logOffset":0}'], "v1\n[]", "spark/sources/0/0 of the checkpoint is damaged"),
        (['{"logOffset":0}'], f"v7\n{FILE % 0}", "spark/sources/0/0 of the checkpoint is damaged"),
        (['{"logOffset":0}'], "", "spark/sources/0/0 of the checkpoint is damaged"),
    ],
    ids=["a part is missing", "another part", "cut", "not a file", "another version", "empty"],
)
def test_a_damaged_log_is_named(lines, log, says):
    """Nothing is guessed."""
    with pytest.raises(StateCorruptionError, match=f"{says}.*restore spark/"):
        Offsets(folder(lines, _0=log)).digest(0)


@pytest.mark.parametrize("text", [b"v9\n{}\n12", b"", b"\xff\xfe", None])
def test_damaged_or_missing_offsets_are_named(text):
    """The same for the file of a batch."""
    made = MemoryFolder()
    if text is not None:
        made.write("spark/offsets/0", text)
    with pytest.raises(StateCorruptionError, match=r"spark/offsets/0 .*restore spark/"):
        Offsets(made).digest(0)
