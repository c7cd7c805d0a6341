"""One case on the embedded engine: run, disturbed as its events say, and checked.

    start -> batch 0 -> batch 1 -> ...        each of them may die; then: damage?, start again, replay

What a refused start needs is what its message asks for: the damaged file is restored. If that does not help, or batches
were committed since, it is the whole checkpoint of before the damage. Then the run goes on.

Invariant: the sink keeps results by batch number and replaces them on replay. At the end it must hold the answer.
Not here: what disturbs a run (disturbance.py), and what the answer is (check.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from chaos import engine
from chaos.case import Case, Damage, Kill
from chaos.check import Finding, check
from chaos.damage import Damaged, apply
from chaos.disturbance import Disturbance, RivalAccepted, Tally, TaskFailed
from evenjoin.errors import EvenJoinError
from evenjoin.testing import Died, Hooks

MOST_TRIES = 100
"""More starts and tries than any case can need."""


class NotRestored(AssertionError):
    """A damage was refused and the checkpoint restored as the message asks, but the join still does not go on."""


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
        for number, damaged in enumerate(one.damages):
            one.told("damage", f"{damaged.kind}, {damaged.how}: {one.ended(number, finding)}")
        return finding


def memory() -> str | None:
    """A folder in memory, where the system has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class Run(Disturbance):
    """One run under way. `join` is None while the process is down."""

    def __init__(self, case: Case, folder: Path, tally: Tally) -> None:
        super().__init__(case, folder / "ck", tally)
        self.folder, self.data = folder, case.data()
        self.join: Any = None
        self.starts = 0
        self.damages: list[Damaged] = []
        self.endings: dict[int, str] = {}
        self.saved: int | None = None  # the batch at which a copy was made, before a damage that may still be noticed
        self.undone = False  # that damage was noticed, and its file restored

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
        self.saved = None if self.undone else self.saved
        if any(isinstance(event, Damage) and event.how in ("older", "rollback") for event in self.pending):
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
        if case.resume == "asked" or not self.damages:
            if self.damages and self.join.batch < self.number:
                self.endings[len(self.damages) - 1] = "recovered"
            self.number = self.join.batch

    def down(self) -> None:
        """The process is gone."""
        if self.join is not None:
            self.join.close()
            self.join = None

    def damage(self, event: Damage) -> None:
        self.copy("saved")
        damaged = apply(event, self.checkpoint, self.elsewhere)
        if damaged is None:
            self.told("damage not possible", event.how)
            return
        self.damages.append(damaged)
        self.saved, self.undone = self.number, False

    def copy(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.checkpoint, self.folder / name)

    def elsewhere(self, how: str) -> Path | None:
        """Another checkpoint of the join: this one after an earlier batch, or one of other rows."""
        other = self.folder / how
        if how == "older":
            return other if other.exists() else None
        events, self.pending = self.pending, []
        with engine.make(self.case.spec, self.case.options, self.case.starts[0], checkpoint=str(other)) as join:
            for number, batch in enumerate(self.data[: self.number]):
                others = [*list(batch)[1:], *list(batch)[:1]]
                join.process({alias: batch[other] for alias, other in zip(batch, others, strict=True)}, batch=number)
        self.pending = events
        return other

    def refused(self, error: Exception) -> None:
        """An error after a damage is a refusal: restore the file, and if that does not help or batches were committed
        since, the whole checkpoint. Any other error is a finding."""
        if self.saved is None or isinstance(error, RivalAccepted):
            raise NotRestored(f"{type(error).__name__}: {error}") if self.damages and self.saved is None else error
        self.down()
        last = len(self.damages) - 1
        if self.undone:
            self.endings[last] = "refused, after its start had deleted state: only a whole copy helps"
        else:
            in_words = isinstance(error, EvenJoinError)
            self.endings[last] = "refused in words" if in_words else f"error {type(error).__name__}"
        if self.saved == self.number and not self.undone:
            self.damages[-1].undo()
            self.undone = True
        else:
            shutil.rmtree(self.checkpoint)
            shutil.copytree(self.folder / "saved", self.checkpoint)
            self.number, self.saved = self.saved, None

    def ended(self, number: int, finding: Finding | None) -> str:
        """How a damage ended. A wrong answer is laid to it unless it was refused."""
        return self.endings.get(number, "harmless" if finding is None else finding.kind)
