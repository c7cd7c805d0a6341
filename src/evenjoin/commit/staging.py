"""The output of a join on its way: files are staged by tasks, gathered by the driver, named by the commit, then shown.

    tasks/7.s3t1/part-2-s3t1-9f2c-0.parquet    1  tasks of batch 7 write, each execution under names of its own
    ready/7.s3t1/part-2-s3t1-9f2c-0.parquet    2  the driver moves here what the accepted receipts name
    ready/7.s3t1/_SUCCESS                         and lists it; then looks whether all is there, with its size
    commits/12                                 3  the commit names ready/7.s3t1
    <output>/batch_id=7/                       4  one rename shows it (shown.py)

| crash     | what it leaves       | the next start                                   |
|-----------|----------------------|--------------------------------------------------|
| before 3  | tasks/, ready/       | deletes both; the batch is replayed              |
| 3 to 4    | a whole ready folder | shows it first; until then readers miss the batch |
| after 4   | tasks/               | deletes it                                       |

Guarantees: a batch is shown if and only if it is committed, once, and with the files of one accepted execution of each
instance. Tasks of other tries, of an older start or of speculation write under other names or find no folder; no task
writes in `ready/`.

Where to stage: never below the output, because some readers (DuckDB) look into every folder there. The first of these
from which a folder can be renamed into the output: the user's own `stagingLocation`, `output/` of the checkpoint,
`_<name>.evenjoin` beside the output.
Where Spark's writer writes the files (`form` is None), it fills the ready folder itself; the rest is the same.
A batch without results shows nothing. Only the first one of an output shows a file without rows, which tells readers
the schema; not with `partition_by`, where Spark could not read the folder then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from evenjoin.commit.outputs import Output
from evenjoin.commit.shown import OWN, READY, SUCCESS, TASKS, Shown, batch_folder, clear, success, sweep, taken
from evenjoin.errors import ReceiptError, SpecError, StorageError
from evenjoin.instance.results import Form, Staged, empty_file
from evenjoin.load.receipt import Receipt
from evenjoin.state.places import Place, open_place

Listed = tuple[str, str, int, int]
"""(name in the staging, name in the batch's folder, rows, bytes); -1 rows: unknown."""


@dataclass(slots=True)
class Staging:
    """The output of one join, as its driver handles it.

    output     the folder that readers see, and whose it is
    place      where files are staged
    recorded   the same as a commit records it; "" if it is the checkpoint's own folder
    form       what the files of tasks look like; None: Spark's writer fills the ready folder
    how        a sentence that says who writes the files, and why
    """

    output: Output
    place: Place
    recorded: str
    form: Form | None
    how: str
    _bare: bool = field(init=False)
    _name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._bare = not any(name.startswith("batch_id=") for name in self.output.place.names())

    def clear(self) -> None:
        """At a start, after the last commit was shown: delete what a crash left."""
        clear(self.place)

    def begin(self, batch: int, mark: str) -> Staged | None:
        """A try of a batch begins. Returns where its tasks write their results; None if Spark's writer does that."""
        self.output.claim()
        self._name = f"{batch}.{mark}"
        if self.form is None:
            self.place.below(READY).make()
            return None
        tasks = self.place.below(TASKS).below(self._name)
        tasks.make()
        return Staged(tasks, self.form)

    @property
    def ready(self) -> Place:
        """The ready folder of the try under way."""
        return self.place.below(READY).below(self._name)

    def gather(self, batch: int, receipts: Sequence[Receipt]) -> Shown:
        """Make the files of the accepted receipts ready to be shown. ReceiptError if one is not there as it was
        named, StorageError if the batch's folder is in the output already."""
        target = batch_folder(self.output.place, batch)
        if target.exists():
            raise taken(target)
        shown = Shown(self.output.location, self.recorded, self._name, batch)
        files = self._written() if self.form is None else self._moved(receipts)
        if not files:
            return Shown(self.output.location, self.recorded, "", batch)
        self._check(files)
        if not self.place.renames:
            self.place.room_for(f"{READY}/{self._name}.json")
            self.place.write(f"{READY}/{self._name}.json", success(files))
        elif self.form is not None:
            self.ready.write(SUCCESS, success(files))
        return shown

    def done(self, batch: int) -> None:
        """The batch is shown: delete what is left of it."""
        self._bare = False
        for folder in (TASKS, READY):
            for name in self.place.below(folder).names():
                if name.startswith(f"{batch}."):
                    sweep(self.place.below(folder).below(name), self.place)

    def _written(self) -> list[Listed]:
        """What Spark's writer has made."""
        sizes = self.ready.sizes().items()
        data = [(name, size) for name, size in sizes if not name.rpartition("/")[2].startswith(("_", "."))]
        return [(f"{READY}/{self._name}/{name}", name, -1, size) for name, size in data]

    def _moved(self, receipts: Iterable[Receipt]) -> list[Listed]:
        """What the receipts name, moved into the ready folder where files are moved."""
        assert self.form is not None
        source = READY if self.place.renames else TASKS
        files = [file for receipt in receipts for file in receipt.files]
        staged = {name: f"{TASKS}/{self._name}/{name.rpartition('/')[2]}" for name, _, _ in files}
        if self.place.renames:
            if files or (self._bare and not self.form.partition_by):
                self.ready.make()
            for folder in {name.rpartition("/")[0] for name, _, _ in files} - {""}:
                self.ready.below(folder).make()
            for name, staged_name in staged.items():
                self._move(staged_name, f"{READY}/{self._name}/{name}")
            staged = {name: f"{READY}/{self._name}/{name}" for name in staged}
        if not files and self._bare and not self.form.partition_by:
            name, rows, size = empty_file(self.place.below(source).below(self._name), "part-0.parquet", self.form)
            return [(f"{source}/{self._name}/{name}", name, rows, size)]
        return [(staged[name], name, rows, size) for name, rows, size in files]

    def _move(self, old: str, new: str) -> None:
        try:
            self.place.below(old).move_to(self.place.below(new))
        except FileNotFoundError:
            raise ReceiptError(f"results in {self.place.location}/{old} are gone; the batch will be replayed") from None

    def _check(self, files: Iterable[Listed]) -> None:
        """Refuse files that are not there with the size that was named."""
        folders = {name.split("/")[0] for name, _, _, _ in files}
        sizes = {
            f"{folder}/{self._name}/{name}": size
            for folder in folders
            for name, size in self.place.below(folder).below(self._name).sizes().items()
        }
        for name, _, _, size in files:
            if sizes.get(name) != size:
                found = f"has {sizes[name]} bytes in place of {size}" if name in sizes else "is gone"
                raise ReceiptError(f"results in {self.place.location}/{name}: the file {found}; it will be replayed")


def open_staging(
    output: Output, checkpoint: Place | None, asked: str | None, form: Form | None, how: str
) -> Staging:  # fmt: skip
    """Claim an output and find where to stage its files. CheckpointMismatchError if it is another checkpoint's,
    SpecError if files that are staged at `asked`, the user's own place, could not be shown by a rename."""
    output.check()
    output.claim()
    out = output.place
    if asked:
        place = open_place(asked).below(output.uuid)
        problem = _problem(place, out)
        if problem:
            raise SpecError(f"stagingLocation={asked!r}: {problem}; give another folder, or none")
        return Staging(output, place, place.location, form, how)
    own = None if checkpoint is None else checkpoint.below(OWN)
    beside = out.beside(f"_{out.path.rpartition('/')[2]}.evenjoin")
    if own is not None and not _problem(own, out):
        return Staging(output, own, "", form, how)
    if not _problem(beside, out):
        return Staging(output, beside, beside.location, form, how)
    raise SpecError(
        f"no folder could be renamed into {out.location}, neither from the checkpoint ({_problem(own, out)}) nor from "
        f"{beside.location} ({_problem(beside, out)}): name one in option('stagingLocation', ...)"
    )


def _problem(place: Place | None, output: Place) -> str:
    """Why files that are staged at a place cannot be shown in the output; "" if they can. Tried with an empty
    folder."""
    if place is None:
        return "it is in memory"
    if output.holds(place):
        return "it is inside the output, where some readers would find unfinished files"
    if not place.filesystem.equals(output.filesystem):
        return "it is on another file system"
    if not place.renames:
        return ""
    name = f"_probe-{uuid4().hex}"
    try:
        place.below(name).make()
        place.below(name).move_to(output.below(name))
        output.below(name).delete()
    except OSError as error:
        place.below(name).delete()
        return str(error) if isinstance(error, StorageError) else f"{error.strerror or error}"
    return ""
