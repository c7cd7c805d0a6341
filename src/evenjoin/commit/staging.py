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
writes in `ready/`. A driver deletes its own tries only, apart from a start, which has fenced off all others before.

Where to stage: never below the output, because some readers (DuckDB) look into every folder there. The first of these
from which a folder can be renamed into the output: the user's own `stagingLocation`, `output/` of the checkpoint,
`_<name>.evenjoin` beside the output.
Where Spark's writer writes the files (`form` is None), it makes `tasks/7.s3t1` itself, and the driver moves what it
finds there when the writer is done; the rest is the same. What the writer keeps for itself (`_temporary`) stays behind.
A batch without results shows nothing. Only the first one of an output shows a file without rows, which tells readers
the schema; not with `partition_by`, where Spark could not read the folder then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from evenjoin.commit.outputs import Output
from evenjoin.commit.shown import OWN, READY, SUCCESS, TASKS, Shown, batch_folder, clear, success, sweep, taken
from evenjoin.errors import ReceiptError, SpecError, StorageError
from evenjoin.instance.results import Form, Staged, empty_file
from evenjoin.load.receipt import Receipt, ResultFile
from evenjoin.state.places import Place, open_place

Listed = tuple[str, str, int, int]
"""(name in the staging, name in the batch's folder, rows, bytes); -1 rows: unknown."""


@dataclass(slots=True)
class Staging:
    """The output of one join, as its driver handles it.

    output     the folder that readers see, and whose it is
    place      where files are staged
    recorded   the same as a commit records it; "" if it is the checkpoint's own folder
    form       what the files of tasks look like; None: Spark's writer writes them
    how        a sentence that says who writes the files, and why
    handed     whether Spark's writer gets all results that receipts count, or those that pass a filter of Spark's
    """

    output: Output
    place: Place
    recorded: str
    form: Form | None
    how: str
    handed: Literal["all", "filtered"] = "filtered"
    _bare: bool = field(init=False)
    _name: str = field(init=False, default="")
    _tries: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._bare = not any(name.startswith("batch_id=") for name in self.output.place.names())

    def clear(self) -> None:
        """At a start, after the last commit was shown: delete what a crash left."""
        clear(self.place)

    def begin(self, batch: int, mark: str) -> Staged | None:
        """A try of a batch begins. Returns where its tasks write their results; None if Spark's writer does that."""
        self.output.claim()
        self._name = f"{batch}.{mark}"
        self._tries.append(self._name)
        if self.form is None:
            return None
        self.tasks.make()
        return Staged(self.tasks, self.form)

    @property
    def tasks(self) -> Place:
        """The folder in which the try under way writes its files."""
        return self.place.below(TASKS).below(self._name)

    @property
    def _ready(self) -> Place:
        return self.place.below(READY).below(self._name)

    def gather(self, batch: int, receipts: Sequence[Receipt]) -> Shown:
        """Make the files of the accepted receipts ready to be shown. ReceiptError if one is not there as it was
        named, StorageError if the batch's folder is in the output already, or if Spark's writer wrote elsewhere."""
        target = batch_folder(self.output.place, batch)
        if target.exists():
            raise taken(target)
        if self.form is None:
            files = self._written(sum(sum(receipt.results) for receipt in receipts))
        else:
            files = [file for receipt in receipts for file in receipt.files]
        rowless = self._bare and self.form is not None and not self.form.partition_by
        if not files and not rowless:
            return self._shown("", batch)
        staged = self._moved(files) if files else [self._without_rows()]
        self._check(staged)
        if self.place.renames:
            self._ready.write(SUCCESS, success(staged))
        else:
            self.place.room_for(f"{READY}/{self._name}.json")
            self.place.write(f"{READY}/{self._name}.json", success(staged))
        return self._shown(self._name, batch)

    def done(self) -> None:
        """The batch is shown: delete what is left of its tries."""
        self._bare = False
        for name in self._tries:
            for folder in (TASKS, READY):
                sweep(self.place.below(folder).below(name), self.place)
        self._tries = []

    def _shown(self, ready: str, batch: int) -> Shown:
        return Shown(self.output.place.location, self.recorded, ready, batch)

    def _written(self, results: int) -> list[ResultFile]:
        """What Spark's writer has made of so many results. Files that it keeps for itself, or has not finished, are in
        folders with `_` before their names, where no value of a column is."""
        files = [(name, -1, size) for name, size in self.tasks.sizes().items() if not _hidden(name)]
        if results and not files and self.handed == "all":
            raise StorageError(
                f"Spark's writer was given {results:,} results and left no file in {self.tasks.location}; the batch "
                "was not committed. Spark and pyarrow must mean the same folder by this name: give the checkpoint, the "
                "output and the stagingLocation as URIs with a host"
            )
        return files

    def _moved(self, files: Sequence[ResultFile]) -> list[Listed]:
        """The files, moved into the ready folder where files are moved."""
        flat = self.form is not None  # tasks write all files into one folder
        staged = {name: f"{TASKS}/{self._name}/{name.rpartition('/')[2] if flat else name}" for name, _, _ in files}
        if self.place.renames:
            for folder in {name.rpartition("/")[0] for name in staged}:
                (self._ready.below(folder) if folder else self._ready).make()
            for name, old in staged.items():
                staged[name] = f"{READY}/{self._name}/{name}"
                self._move(old, staged[name])
        return [(staged[name], name, rows, size) for name, rows, size in files]

    def _without_rows(self) -> Listed:
        """A file that tells readers the schema."""
        assert self.form is not None
        folder = READY if self.place.renames else TASKS
        self.place.below(folder).below(self._name).make()
        name, rows, size = empty_file(self.place.below(folder).below(self._name), "part-0.parquet", self.form)
        return f"{folder}/{self._name}/{name}", name, rows, size

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


def _hidden(name: str) -> bool:
    """Whether readers that skip hidden files would skip this one: Spark's rule, which reads `_a=b`."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


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
