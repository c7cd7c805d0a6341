"""Staging: what tasks wrote is gathered, named by the commit and shown by one rename; a restart ends what was begun."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenjoin
from evenjoin.commit.outputs import MARKER, Output
from evenjoin.commit.repair import take_back
from evenjoin.commit.shown import Shown, show
from evenjoin.commit.staging import open_staging
from evenjoin.errors import CheckpointInUseError, ReceiptError, SpecError, StorageError
from evenjoin.instance.results import stored_form
from evenjoin.load.receipt import Receipt
from evenjoin.state import places
from evenjoin.state.files import LocalFolder, MemoryFolder, open_folder
from evenjoin.state.places import Place, open_place, place_of
from evenjoin.testing import Hooks, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BATCHES = 4
DRIVER_STEPS = ("begin", "executed", "receipts", "commit", "committed", "shown", "collected")
WORKER_STEPS = ("joined", "writing", "written", "sealed", "receipt")


class Died(BaseException):
    """In place of a SIGKILL: nothing in the engine catches it."""


class Death:
    """Dies at the nth call of a step, once; None: lives."""

    def __init__(self, step=None, after=0):
        self.step, self.left = step, after

    def __call__(self, name, number):
        if name == self.step:
            if self.left == 0:
                self.step = None
                raise Died(name)
            self.left -= 1


def rows(batch):
    rng = np.random.default_rng(batch)
    return {alias: pa.table([rng.integers(0, 9, 30), rng.integers(0, 99, 30)], schema=SCHEMA) for alias in "lr"}


def open_join(folder, death=None, **more):
    death = death or Death()
    more = {"select": ["l.k", "l.v", "r.v AS w"], "checkpoint": folder / "ck", "output": folder / "out", **more}
    hooks = Hooks(step=death, worker_step=death)
    return evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", instances=2, hooks=hooks, **more)


def run(folder, death=None, batches=BATCHES, **more):
    """Go on to the last batch, or to the death."""
    with open_join(folder, death, **more) as join:
        for batch in range(join.batch, batches):
            join.process(rows(batch), batch=batch)


def shown_rows(folder):
    """By batch, what a reader of the output finds."""
    found = {}
    for path in (folder / "out").glob("batch_id=*"):
        files = [file for file in path.rglob("*.parquet") if file.is_file()]
        found[int(path.name.split("=")[1])] = sum(
            (multiset(pq.ParquetFile(file).read()) for file in files), start=Counter()
        )
    return found


@pytest.fixture(scope="module")
def whole():
    """By batch, the results of the undisturbed join."""
    found = {}
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", select=["l.k", "l.v", "r.v AS w"]) as join:
        for batch in range(BATCHES):
            found[batch] = multiset(join.process(rows(batch)))
    return found


def staged(folder):
    """The files that lie in the checkpoint's staging."""
    return [path for path in (folder / "ck" / "output").rglob("*") if path.is_file()]


def test_batches_are_shown_whole_and_nothing_stays_in_staging(tmp_path, whole):
    """`_SUCCESS` lists the files with their rows and bytes."""
    run(tmp_path)
    assert shown_rows(tmp_path) == whole
    assert staged(tmp_path) == []
    listed = json.loads((tmp_path / "out/batch_id=1/_SUCCESS").read_text())["files"]
    files = {path.name: path.stat().st_size for path in (tmp_path / "out/batch_id=1").glob("*.parquet")}
    assert {name: size for _, name, _, size in listed} == files
    assert sum(count for _, _, count, _ in listed) == sum(whole[1].values())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        MARKER,
        *(f"batch_id={n}" for n in range(BATCHES)),
    ]


@pytest.mark.parametrize("step", [*DRIVER_STEPS, *WORKER_STEPS])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_death_at_each_step(step, after, tmp_path, whole):
    """Nothing is lost or doubled. At the moment of death a reader sees whole committed batches, at most one too few;
    right after the restart it sees all of them."""
    death = Death(step, after)
    with pytest.raises(Died):
        run(tmp_path, death)
    seen = shown_rows(tmp_path)
    assert seen == {batch: whole[batch] for batch in seen}
    with open_join(tmp_path) as join:
        assert len(shown_rows(tmp_path)) == join.batch <= len(seen) + 1
        assert staged(tmp_path) == []
    run(tmp_path)
    assert shown_rows(tmp_path) == whole
    assert staged(tmp_path) == []


def test_a_committed_batch_is_shown_whatever_comes_next(tmp_path, whole):
    """The checkpoint was moved meanwhile, and the next start writes no files at all."""
    with pytest.raises(Died):
        run(tmp_path, Death("committed", 2))
    assert sorted(shown_rows(tmp_path)) == [0, 1]
    (tmp_path / "ck").rename(tmp_path / "moved")
    open_join(tmp_path, checkpoint=tmp_path / "moved", output=None).close()
    assert shown_rows(tmp_path) == {batch: whole[batch] for batch in range(3)}


def test_what_was_shown_is_never_replaced(tmp_path):
    """A folder that is there already stops the batch, before its commit and before its showing."""
    run(tmp_path, batches=1)
    (tmp_path / "out/batch_id=1").mkdir()
    (tmp_path / "out/batch_id=1/theirs").write_text("precious")
    with pytest.raises(StorageError, match=r"batch_id=1 exists already.*not replaced.*delete that folder"):
        run(tmp_path)
    with open_join(tmp_path) as join:
        assert join.batch == 1
    shutil.rmtree(tmp_path / "out/batch_id=1")
    with pytest.raises(Died):
        run(tmp_path, Death("committed"))
    (tmp_path / "out/batch_id=1").mkdir()
    (tmp_path / "out/batch_id=1/theirs").write_text("precious")
    with pytest.raises(StorageError, match="batch_id=1 exists already"):
        open_join(tmp_path)
    assert (tmp_path / "out/batch_id=1/theirs").read_text() == "precious"
    shutil.rmtree(tmp_path / "out/batch_id=1")
    run(tmp_path)
    assert len(shown_rows(tmp_path)) == BATCHES


def test_a_batch_that_is_taken_back_is_shown_again(tmp_path, whole):
    """`evenjoin repair` takes it out of the output, also if its commit cannot be read."""
    run(tmp_path)
    for harm in ("none", "damaged"):
        if harm == "damaged":
            newest = max((tmp_path / "ck/commits").iterdir(), key=lambda path: int(path.name))
            newest.write_bytes(newest.read_bytes()[:50])
        take_back(LocalFolder(str(tmp_path / "ck")))
        assert sorted(shown_rows(tmp_path)) == [*range(BATCHES - 1)]
        run(tmp_path)
        assert shown_rows(tmp_path) == whole


def test_a_driver_that_was_overtaken_shows_nothing_of_its_own(tmp_path, whole, monkeypatch):
    """Its batch is not committed; the younger driver has shown and swept before."""
    monkeypatch.setattr("evenjoin.runtime.driver.Owner", lambda folder, now: Held())
    old = open_join(tmp_path)
    old.process(rows(0), batch=0)
    young = open_join(tmp_path)
    with pytest.raises(CheckpointInUseError):
        old.process(rows(1), batch=1)
    assert sorted(shown_rows(tmp_path)) == [0]
    for batch in range(1, BATCHES):
        young.process(rows(batch), batch=batch)
    assert shown_rows(tmp_path) == whole


class Held:
    """A lock that everybody holds."""

    sure = True

    def release(self):
        pass


def test_two_drivers_show_one_commit(tmp_path, whole):
    """Whoever comes second finds the folder gone."""
    with pytest.raises(Died):
        run(tmp_path, Death("committed", 1))
    last = Shown(str(tmp_path / "out"), "", "1.s0t2", 1)
    for _ in range(2):
        show(last, LocalFolder(str(tmp_path / "ck")))
    assert shown_rows(tmp_path) == {batch: whole[batch] for batch in range(2)}


def test_a_file_that_is_gone_or_cut_is_not_committed(tmp_path):
    """Between receipt and commit somebody deletes, or cuts, a file of results."""
    for harm in (lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-9])):

        def step(name, number, harm=harm):
            if name == "receipts":
                harm(next((tmp_path / "ck/output/tasks").rglob("*.parquet")))

        with pytest.raises(ReceiptError, match="will be replayed"):
            run(tmp_path, step)
        assert shown_rows(tmp_path) == {}
    run(tmp_path)
    assert len(shown_rows(tmp_path)) == BATCHES


def test_results_of_a_zombie_are_not_shown(tmp_path, whole):
    """A file in the tasks' folder that no receipt names, whole or half."""

    def step(name, number):
        if name == "executed":
            (folder,) = (tmp_path / "ck/output/tasks").iterdir()
            (folder / "part-0-s0t1-zombie-0.parquet").write_bytes(b"PAR1half")

    run(tmp_path, step)
    assert shown_rows(tmp_path) == whole
    assert staged(tmp_path) == []


def test_of_two_attempts_the_files_of_one_are_shown(tmp_path, whole):
    """Speculation: every instance has run twice in a try, and both attempts have left files and a receipt."""

    def step(name, number):
        if name != "executed":
            return
        (tasks,) = (tmp_path / "ck/output/tasks").iterdir()
        for path in [*(tmp_path / f"ck/receipts/{number}").rglob("*.json")]:
            first = path.stem.rpartition("-")[2]
            receipt = Receipt.from_bytes(path.read_bytes())
            files = tuple((name.replace(first, "second"), *more) for name, *more in receipt.files)
            for (old, *_), (new, *_) in zip(receipt.files, files, strict=True):
                shutil.copy(tasks / old, tasks / new)
            path.with_name(path.name.replace(first, "second")).write_bytes(replace(receipt, files=files).to_bytes())
            doubled.extend(files)

    doubled = []
    run(tmp_path, step)
    assert len(doubled) > BATCHES
    assert shown_rows(tmp_path) == whole
    assert staged(tmp_path) == []


def test_what_sparks_writer_has_not_finished_stays_behind(tmp_path):
    """A task of Spark's that outlives its job leaves files in `_temporary`; a column may well be called `_a`."""
    output = Output(str(tmp_path / "out"), "mine", MemoryFolder())
    staging = open_staging(output, None, None, None, "")
    staging.begin(3, "s0t1")
    tasks = Path(staging.tasks.path)
    for name in ("_a=1/part-0.parquet", "_temporary/0/attempt/part-1.parquet", ".part-0.parquet.crc", "_SUCCESS"):
        (tasks / name).parent.mkdir(parents=True, exist_ok=True)
        (tasks / name).write_text("rows")
    show(staging.gather(3, []), MemoryFolder())
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert found == [MARKER, "batch_id=3/_SUCCESS", "batch_id=3/_a=1/part-0.parquet"]


def test_results_that_sparks_writer_put_elsewhere_are_not_committed(tmp_path):
    """Receipts count results and no file is found. Where Spark filters them that may be right; without results it
    is."""
    output = Output(str(tmp_path / "out"), "mine", MemoryFolder())
    staging = open_staging(output, None, None, None, "")
    receipts = [Receipt(3, 0, {}, {}, (2, 1), (1, 2), (0, count), 0.0) for count in (0, 7)]
    staging.begin(3, "s0t1")
    assert staging.gather(3, receipts).ready == ""
    staging.handed = "all"
    assert staging.gather(3, receipts[:1]).ready == ""
    with pytest.raises(StorageError, match=r"given 7 results and left no file in .*tasks/3\.s0t1"):
        staging.gather(3, receipts)


def test_a_driver_deletes_its_own_tries_only(tmp_path):
    """One that wakes up after it was overtaken leaves alone what a younger one has made ready of the same batch."""
    output = Output(str(tmp_path / "out"), "mine", MemoryFolder())
    old, young = (open_staging(output, None, None, stored_form(SCHEMA), "") for _ in range(2))
    old.begin(0, "s0t1")
    young.begin(0, "s1t1")
    shown = young.gather(0, [])
    old.done()
    show(shown, MemoryFolder())
    assert len(list((tmp_path / "out/batch_id=0").glob("*.parquet"))) == 1


def test_a_type_that_parquet_has_not_is_refused_at_once():
    with pytest.raises(SpecError, match="'i' cannot be stored as parquet"):
        stored_form(pa.schema([("k", pa.int64()), ("i", pa.month_day_nano_interval())]))


def test_empty_batches(tmp_path):
    """The first batch tells the schema, others without results show nothing; with folders none does."""
    for by, found in (((), [0, 2]), (("k",), [2])):
        folder = tmp_path / f"by{len(by)}"
        with open_join(folder, partition_by=by) as join:
            for batch in (0, 1):
                join.process({}, batch=batch)
            join.process(rows(2), batch=2)
        assert sorted(shown_rows(folder)) == found
    assert pq.read_schema(next((tmp_path / "by0/out/batch_id=0").glob("*.parquet"))).names == ["k", "v", "w"]


def test_no_output_in_the_checkpoint_and_no_staging_in_the_output(tmp_path):
    with pytest.raises(SpecError, match="inside the checkpoint"):
        open_join(tmp_path, output=tmp_path / "ck/out")
    run(tmp_path, checkpoint=tmp_path / "out/ck", batches=1)
    assert not (tmp_path / "out/ck/output").exists()
    assert (tmp_path / "_out.evenjoin").is_dir()
    assert sorted(shown_rows(tmp_path)) == [0]


def test_state_in_memory_stages_beside(tmp_path, whole):
    run(tmp_path, checkpoint=None)
    assert shown_rows(tmp_path) == whole


def test_the_users_own_staging(tmp_path):
    """Is taken, or refused with the reason."""
    form = stored_form(SCHEMA)
    output = Output(str(tmp_path / "out"), "mine", MemoryFolder())
    staging = open_staging(output, None, str(tmp_path / "mine"), form, "")
    assert staging.recorded == f"file:{tmp_path}/mine/mine"
    with pytest.raises(SpecError, match=r"stagingLocation='.*out/x': it is inside the output"):
        open_staging(output, None, str(tmp_path / "out/x"), form, "")


def test_a_place_from_which_nothing_can_be_renamed_is_not_taken(tmp_path, monkeypatch):
    """The checkpoint is on another disk: staging is beside the output. If that fails too, the start is refused."""
    move = places.Place.move_to

    def across(self, target):
        if "/ck/" in self.path or refuse_all:
            raise OSError(18, "Invalid cross-device link")
        move(self, target)

    monkeypatch.setattr(places.Place, "move_to", across)
    refuse_all = False
    run(tmp_path, batches=1)
    assert (tmp_path / "_out.evenjoin").is_dir()
    refuse_all = True
    with pytest.raises(SpecError, match=r"no folder could be renamed.*cross-device.*stagingLocation"):
        open_join(tmp_path / "other")
    assert [path.name for path in (tmp_path / "other/out").iterdir()] == [MARKER]


@pytest.mark.parametrize("deaths", [0, 1, 2, 3])
def test_where_nothing_is_renamed_files_are_copied(deaths, tmp_path, whole, monkeypatch):
    """An object store: files appear one by one, `_SUCCESS` last; a death among the copies is made good by the next
    start, and copying again changes nothing."""
    monkeypatch.setattr(places, "RENAMING", ())
    if deaths:
        with pytest.raises(Died):
            run(tmp_path, Death("copied", deaths + 2))
        for batch, found in shown_rows(tmp_path).items():
            if (tmp_path / f"out/batch_id={batch}/_SUCCESS").exists():
                assert found == whole[batch]
            else:
                assert found <= whole[batch]
    run(tmp_path)
    assert shown_rows(tmp_path) == whole
    assert staged(tmp_path) == []
    assert all((tmp_path / f"out/batch_id={batch}/_SUCCESS").exists() for batch in whole)


@pytest.mark.parametrize("step", ["committed", "commit"])
def test_a_list_is_shown_or_swept(step, tmp_path, whole, monkeypatch):
    monkeypatch.setattr(places, "RENAMING", ())
    with pytest.raises(Died):
        run(tmp_path, Death(step, 1), partition_by=("k",))
    assert list((tmp_path / "ck/output/ready").glob("*.json"))
    open_join(tmp_path, partition_by=("k",)).close()
    assert sorted(shown_rows(tmp_path)) == [0, 1] if step == "committed" else [0]
    assert staged(tmp_path) == []


def test_places_of_checkpoints(tmp_path):
    assert place_of(MemoryFolder()) is None
    assert place_of(LocalFolder(str(tmp_path))) == open_place(tmp_path)
    assert isinstance(open_place(f"file://{tmp_path}"), Place)


def test_the_place_of_a_checkpoint_elsewhere_has_its_uri():
    """Spark is told that, wherever the checkpoint's name came from. A bare path would be another file system's."""
    place = place_of(open_folder("mock://host/a/ck/"))
    assert place.below("output").location == "mock://host/a/ck/output"
    assert place.below("output").path == f"{place.path}/output"
