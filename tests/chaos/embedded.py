"""One case on the embedded engine: run, disturbed as its events say, and checked.

    start -> batch 0 -> batch 1 -> ...        each of them may die; then: damage?, start again, replay

A death is an exception that no code of the engine catches, raised at a step or at an operation on the folder; the
caller then drops the join. What a refused start needs is what its message asks for: the damaged file is restored, or,
if batches were committed since, the whole checkpoint of before the damage; then the run goes on.

Invariant: the sink keeps results by batch number and replaces them on replay. At the end it must hold the answer.
Not here: what the answer is (check.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from chaos import engine, stale
from chaos.case import Case, Damage, Event, Fail, Kill, Rival, Stale, Twice
from chaos.check import Finding, check
from chaos.damage import Damaged, apply
from evenjoin.errors import CheckpointInUseError, EvenJoinError
from evenjoin.testing import Died, Hooks

MOST_TRIES = 100
"""More starts and tries than any case can need."""
Tally = Counter[tuple[str, str]]


class TaskFailed(Exception):
    """A sink or a task fails on purpose; the driver lives on."""


class RivalAccepted(AssertionError):
    """A second join was let in on a checkpoint that is in use."""


class NotRestored(AssertionError):
    """A damage was refused and its file restored as the message asks, but the join still does not go on."""


def run(case: Case, tally: Tally | None = None) -> Finding | None:
    """Run a case. Returns what is wrong with its output, or None. `tally` counts what happened on the way."""
    with tempfile.TemporaryDirectory(prefix="evenjoin-chaos-", dir=memory()) as folder:
        one = Run(case, Path(folder), Counter() if tally is None else tally)
        with engine.tapped(one, case.seed):
            try:
                one.whole()
                finding = check(case, one.sunk)
            except Exception as error:
                finding = Finding.raised(error)
            finally:
                one.down()
        for damaged in one.damages:
            one.told("damage", f"{damaged.kind}, {damaged.how}: {one.ended(damaged, finding)}")
        return finding


def memory() -> str | None:
    """A folder in memory, where the system has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass
class Run:
    """The state of one run. It is also who the engine tells of its instances (engine.Taps)."""

    case: Case
    folder: Path
    tally: Tally
    sunk: dict[int, pa.Table] = field(default_factory=dict)
    join: Any = None
    starts: int = 0
    operations: int = 0
    pending: list[Event] = field(default_factory=list)
    suspended: list[tuple[Stale, stale.StaleTask]] = field(default_factory=list)
    damages: list[Damaged] = field(default_factory=list)
    endings: dict[int, str] = field(default_factory=dict)
    saved: tuple[Path, int] | None = None
    number: int = 0
    evaluating: int | None = None

    def __post_init__(self) -> None:
        self.pending = list(self.case.events)
        self.data = self.case.data()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "ck"

    def told(self, what: str, which: str) -> None:
        self.tally[what, which] += 1

    def whole(self) -> None:
        """All batches, with as many starts as it takes."""
        for _ in range(MOST_TRIES):
            try:
                if self.join is None:
                    self.up()
                if self.number == len(self.data):
                    return
                self.one_batch()
            except Died:
                self.down()
            except TaskFailed:
                pass
            except Exception as error:
                self.refused(error)
        raise RuntimeError(f"the run did not end within {MOST_TRIES} starts and tries")

    def one_batch(self) -> None:
        if self.due(Kill, step="between"):
            self.told("kill", "between batches")
            raise Died
        self.operations = 0
        self.join.process(self.data[self.number], batch=self.number, sink=self.sink)
        self.number += 1
        if any(isinstance(e, Damage) and e.how == "older" for e in self.pending):
            self.copy("older")

    def up(self) -> None:
        """Start the join, with the settings that are next."""
        case, self.operations = self.case, 0
        if self.starts and (damage := self.due(Damage)) is not None:
            self.damage(damage)
        start = case.starts[min(self.starts, len(case.starts) - 1)]
        self.starts += 1
        self.told("strategy", start.strategy)
        self.told("layout", start.layout)
        hooks = Hooks(step=self.driver_step, worker_step=self.worker_step)
        folder = engine.watched(str(self.checkpoint), self.operation)
        self.join = engine.make(case.spec, case.options, start, checkpoint=folder, hooks=hooks)
        following = self.join.batch
        if following > self.number + 1:
            raise AssertionError(f"batch {self.number} is next, but the checkpoint says that {following} is")
        if case.resume == "asked" or not self.damages:
            self.went_back(following)
            self.number = following

    def down(self) -> None:
        """The process is gone."""
        if self.join is not None:
            self.join.close()
            self.join = None

    def due(self, kind: type[Event], **details: Any) -> Any:
        """The event of this kind that is due in this batch, which is then used up."""
        for event in self.pending:
            here = type(event) is kind and event.batch == self.number
            if here and all(getattr(event, name) == value for name, value in details.items()):
                self.pending.remove(event)
                return event
        return None

    def sink(self, results: pa.Table, batch: int) -> None:
        if self.due(Fail):
            self.told("kill", "the sink fails")
            raise TaskFailed
        self.sunk[batch] = results

    def driver_step(self, name: str, batch: int) -> None:
        for event, task in list(self.suspended):
            if event.finish == name and batch >= event.batch + event.later:
                self.let_go(event, task)
        if self.due(Rival, step=name):
            self.rival(name)
        if self.due(Kill, step=name, instance=None):
            self.told("kill", name)
            raise Died

    def worker_step(self, name: str, instance: int) -> None:
        task = stale.current()
        if task is not None:
            task.reached(name)
        elif self.due(Kill, step=name, instance=instance):
            self.told("kill", f"task: {name}")
            raise Died

    def operation(self, name: str, file: str, data: Any, moment: str) -> None:
        """An operation on the folder: the place for a kill at any instant."""
        if stale.current() is not None:
            return
        self.operations += moment == "before"
        kill = next((e for e in self.pending if self.dies_here(e, name, moment)), None)
        if kill is not None:
            self.pending.remove(kill)
            self.told("kill", f"{moment} {name} {engine.kind_of(file)}" if data is None else f"{moment} {name}")
            if isinstance(kill, Kill) and kill.moment == "half":
                engine.leave_half(str(self.checkpoint), file, data)
            raise Died

    def dies_here(self, event: Event, operation: str, moment: str) -> bool:
        if not isinstance(event, Kill) or event.step != "operation" or event.batch != self.number:
            return False
        if event.moment == "half":
            return moment == "before" and operation in engine.WRITES and self.operations > event.at
        return event.moment == moment and self.operations == event.at + 1

    def instance(self, batch: int, number: int, count: int, run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        if self.evaluating is not None and number >= self.evaluating:
            return iter(())
        event = next((e for e in self.pending if isinstance(e, Stale) and e.batch == batch), None)
        chosen = [i for i in event.instances if i < count] if event is not None else []
        if event is None or number not in chosen:
            return run()
        task = stale.StaleTask(run, event.stop)
        task.begin()
        self.suspended.append((event, task))
        if number == chosen[-1]:
            self.pending.remove(event)
            self.told("kill", f"stale tasks, then {event.then}")
            raise Died if event.then == "kill" else TaskFailed
        return iter(())

    def let_go(self, event: Stale, task: stale.StaleTask) -> None:
        self.suspended.remove((event, task))
        task.finish()
        how = "wrote all it had" if task.error is None else f"failed with {type(task.error).__name__}"
        self.told("stale task", f"stopped at {event.stop}, {how}")

    def evaluation(self, batch: int, run: Callable[[int | None, Literal["sink", "no sink"]], None]) -> None:
        event = self.due(Twice)
        if event is not None and event.order == "before":
            self.again(event, run)
        run(None, "sink")
        if event is not None and event.order == "after":
            self.again(event, run)

    def again(self, event: Twice, run: Callable[[int | None, Literal["sink", "no sink"]], None]) -> None:
        self.evaluating = event.instances
        try:
            run(event.seed, "no sink")
        finally:
            self.evaluating = None
        self.told("second reader", f"{event.order} the sink")

    def rival(self, step: str) -> None:
        start = self.case.starts[-1]
        try:
            engine.make(self.case.spec, self.case.options, start, checkpoint=str(self.checkpoint)).close()
        except CheckpointInUseError:
            self.told("second driver", f"refused at {step}")
            return
        raise RivalAccepted(f"at step {step} a second join was let in on the same checkpoint")

    def damage(self, event: Damage) -> None:
        self.copy("saved")
        damaged = apply(event, self.checkpoint, self.elsewhere)
        if damaged is None:
            self.told("damage not possible", event.how)
            return
        self.damages.append(damaged)
        self.saved = self.folder / "saved", self.number

    def copy(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.checkpoint, self.folder / name)

    def elsewhere(self, how: str) -> Path | None:
        """Another checkpoint of the join: this one after an earlier batch, or one of other rows."""
        if how == "older":
            return self.folder / "older"
        other = self.folder / "foreign"
        with engine.make(self.case.spec, self.case.options, self.case.starts[0], checkpoint=str(other)) as join:
            taps, self.evaluating = (self.pending, self.suspended), None
            self.pending, self.suspended = [], []
            for number, batch in enumerate(self.data[: self.number]):
                join.process({"l": batch["r"], "r": batch["l"]}, batch=number)
            self.pending, self.suspended = taps
        return other

    def went_back(self, following: int) -> None:
        if self.damages and following < self.number:
            self.endings[len(self.damages) - 1] = "recovered"

    def refused(self, error: Exception) -> None:
        """An error after a damage is a refusal: restore what was damaged. Any other error is a finding."""
        if self.saved is None or isinstance(error, RivalAccepted):
            raise NotRestored(f"{type(error).__name__}: {error}") if self.damages and not self.saved else error
        kind = "refused in words" if isinstance(error, EvenJoinError) else f"error: {type(error).__name__}"
        self.endings[len(self.damages) - 1] = kind
        self.down()
        (copy, number), self.saved = self.saved, None
        if number == self.number:
            self.damages[-1].undo()
        else:
            shutil.rmtree(self.checkpoint)
            shutil.copytree(copy, self.checkpoint)
            self.number = number

    def ended(self, damaged: Damaged, finding: Finding | None) -> str:
        """How a damage ended. A wrong answer is laid to it unless it was refused."""
        return self.endings.get(self.damages.index(damaged), "harmless" if finding is None else finding.kind)
