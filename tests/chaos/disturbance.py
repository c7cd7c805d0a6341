"""The events of a case at work: what the engine calls while a run goes on, and what then happens to it.

    driver_step, worker_step    hooks of the engine: kills, stale tasks that go on, a second driver
    operation                   each operation on the checkpoint's folder: kills at any instant
    instance, evaluation        each instance that runs (engine.Taps): tasks left standing, and second readers

A death is an exception that no code of the engine catches.
Invariant: an event happens once, in the batch that it names, and is then used up. What a stale task does is not
disturbed itself.
Not here: how the run goes on after a death (embedded.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from chaos import engine, stale
from chaos.case import Case, Event, Fail, Kill, Rival, Stale, Twice
from evenjoin.errors import CheckpointInUseError
from evenjoin.testing import Died

Tally = Counter[tuple[str, str]]
Evaluate = Callable[[int | None, Literal["sink", "no sink"]], None]
WORDS = {"before": "before", "after": "after", "half": "in the middle of"}


class TaskFailed(Exception):
    """A sink or a task fails on purpose; the driver lives on."""


class RivalAccepted(AssertionError):
    """A second join was let in on a checkpoint that is in use."""


class Disturbance:
    """The events of one run that are still to come, and the batch that it is at."""

    def __init__(self, case: Case, checkpoint: Path, tally: Tally) -> None:
        self.case, self.checkpoint, self.tally = case, checkpoint, tally
        self.pending: list[Event] = list(case.events)
        self.suspended: list[tuple[Stale, stale.StaleTask]] = []
        self.sunk: dict[int, pa.Table] = {}
        self.number = self.operations = 0
        self._only: int | None = None

    def told(self, what: str, which: str) -> None:
        self.tally[what, which] += 1

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
                self._let_go(event, task)
        if self.due(Rival, step=name):
            self._rival(name)
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
        if stale.current() is not None:
            return
        self.operations += moment == "before"
        kills = (event for event in self.pending if isinstance(event, Kill))
        kill = next((event for event in kills if self._dies_here(event, name, moment)), None)
        if kill is None:
            return
        self.pending.remove(kill)
        self.told("kill", f"{WORDS[kill.moment]} {name} of {engine.kind_of(file) or 'the folder'}")
        if kill.moment == "half":
            engine.leave_half(str(self.checkpoint), file, data)
        raise Died

    def _dies_here(self, kill: Kill, operation: str, moment: str) -> bool:
        if kill.step != "operation" or kill.batch != self.number:
            return False
        if kill.moment == "half":
            return moment == "before" and operation in engine.WRITES and self.operations > kill.at
        return kill.moment == moment and self.operations == kill.at + 1

    def instance(self, task: engine.Task, run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        if self._only is not None and task.number >= self._only and task.hop == task.hops - 1:
            return iter(())
        stales = (e for e in self.pending if isinstance(e, Stale))
        event = next((e for e in stales if e.batch == task.batch and e.hop == task.hop), None)
        chosen = [i for i in event.instances if i < task.count] if event is not None else []
        if event is None or task.number not in chosen:
            return run()
        step = event.stop if event.hop == 0 or event.stop == "start" else f"{event.stop} at hop {event.hop}"
        standing = stale.StaleTask(run, step)
        standing.begin()
        self.suspended.append((event, standing))
        if task.number == chosen[-1]:
            self.pending.remove(event)
            self.told("kill", f"stale tasks, then {event.then}")
            raise Died if event.then == "kill" else TaskFailed
        return iter(())

    def _let_go(self, event: Stale, task: stale.StaleTask) -> None:
        self.suspended.remove((event, task))
        task.finish()
        how = "wrote all it had" if task.error is None else f"failed with {type(task.error).__name__}"
        where = f"{event.stop} at hop {event.hop}" if event.hop else event.stop
        self.told("stale task", f"stopped at {where}, {how}")

    def evaluation(self, batch: int, run: Evaluate) -> None:
        event = self.due(Twice)
        if event is not None and event.order == "before":
            self._again(event, run)
        run(None, "sink")
        if event is not None and event.order == "after":
            self._again(event, run)

    def _again(self, event: Twice, run: Evaluate) -> None:
        """The second reader: some instances of the last hop only, rows in another order, and no sink."""
        self._only = event.instances
        try:
            run(event.seed, "no sink")
        finally:
            self._only = None
        self.told("second reader", f"{event.order} the sink")

    def _rival(self, step: str) -> None:
        start = self.case.starts[-1]
        try:
            engine.make(self.case.spec, self.case.options, start, checkpoint=str(self.checkpoint)).close()
        except CheckpointInUseError:
            self.told("second driver", f"refused at {step}")
            return
        raise RivalAccepted(f"at step {step} a second join was let in on the same checkpoint")
