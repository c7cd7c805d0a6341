"""All that the campaign knows of the engine's insides. When those change, this file changes and no other one.

* the names of the steps, as `evenjoin.testing.Hooks` calls them
* `make` and `accepts`: a join with the settings of a start
* `watched`: a checkpoint folder that tells of each operation on it
* `tapped`: who is told when instances of the embedded engine run, so that they can be held up or run twice; meanwhile
  everything that the engine draws at random (names of attempts, the checkpoint's identity) comes from a seed
* `holds_told`: who is told when a join of this process takes its checkpoint, and gives it back
* `forgetful` and `unverified`: two faults that the campaign must find
* `kind_of`: what kind of file a name in a checkpoint is

Not here: any decision about a run.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

import evenjoin
from capricious import EAGER, Capricious
from chaos.joins import Join
from evenjoin.commit import identity
from evenjoin.commit.owner import Owner
from evenjoin.errors import SpecError
from evenjoin.runtime import driver, local
from evenjoin.state.files import open_folder
from evenjoin.state.segment import Segments

DRIVER_STEPS = ("begin", "migrated", "executed", "receipts", "commit", "committed", "collected")
WORKER_STEPS = ("joined", "sealed", "receipt", "moved")
HOP_STEPS = ("joined at hop 1", "sealed at hop 1", "receipt at hop 1")
"""Further steps of programs with a second hop."""
MOMENTS: tuple[Literal["before", "after", "half"], ...] = ("before", "after", "half")
WRITES = ("write", "create")
"""The operations of a folder that make a file of some bytes: (name, bytes)."""

EAGERLY = {
    "contrand": "contrand(groups=1)",
    "fastjoin": "fastjoin(theta=1.05, sure=0)",
    "djb": "djb(theta_max=0.05)",
    "lsstream": "lsstream(alpha=0.05)",
    "readj": "readj(theta=0.05, sigma=0.001)",
    "square": "square(task_capacity=8, most=64)",
    "dynamic": "dynamic(task_capacity=8, most=8)",
    "adsp": "adsp(task_capacity=8, most=64)",
}
"""Settings under which a strategy plans after nearly every small batch. Others run as they are."""


def strategies() -> list[str]:
    """Every registered strategy, and one for tests that migrates after every batch."""
    known = evenjoin.strategies.strategies()
    more = ["contrand(groups=2)", "trijoin(packing=paired)", "capricious"]
    return [*(EAGERLY.get(name, name) for name in known), *more]


def may_follow(before: str, strategy: str) -> bool:
    """Whether a checkpoint that was run with one strategy may go on with another. Those that keep intermediate results
    need a state that has them."""
    family = strategy.partition("(")[0]
    return family not in ("trijoin", "tree") or family == before.partition("(")[0]


def make(join: Join, options: dict[str, Any], start: Any, **more: Any) -> local.LocalJoin:
    """The embedded join with the settings of a start (case.py)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", evenjoin.UnboundedStateWarning)
        return evenjoin.local(join.schemas, **options, **settings(start), **more)


def settings(start: Any) -> dict[str, Any]:
    """The settings of a start as arguments of `evenjoin.local` or `evenjoin.join`."""
    given: dict[str, Any] = {
        "strategy": Capricious(tuple(EAGER)) if start.strategy == "capricious" else start.strategy,
        "instances": start.instances,
        "layout": start.layout,
        "merge_budget": start.merge_budget,
        "pair_limit": start.pair_limit,
        "guards": evenjoin.Guards(cooldown=0, min_gain=0, min_work=0),
    }
    if start.capacity is not None:
        scaling = evenjoin.Scaling(start.capacity, min_instances=start.instances, max_instances=8)
        given |= {"instances": "auto", "scaling": scaling}
    return given | ({} if start.sub_window is None else {"sub_window": start.sub_window})


def accepts(join: Join, start: Any) -> bool:
    """Whether this join can run with these settings. The strategy for tests needs what `hash` needs."""
    try:
        if start.strategy == "capricious":
            start = replace(start, strategy="hash")
            make(join, join.options(None, "drop"), replace(start, instances=4, capacity=None)).close()
        make(join, join.options(None, "drop"), start).close()
    except SpecError:
        return False
    return True


Operation = Callable[[str, str, Any, Literal["before", "after"]], None]
"""Called with (operation, name of the file or folder, the bytes to be written or None, moment)."""


def watched(path: str, tell: Operation) -> Any:
    """The checkpoint folder at a path; `tell` is called before and after each operation on it."""
    plain = open_folder(path)

    def around(name: str, operation: Any) -> Any:
        def call(self: Any, *given: Any) -> Any:
            what = str(given[0]) if given else ""
            tell(name, what, given[1] if name in WRITES else None, "before")
            result = operation(self, *given)
            tell(name, what, None, "after")
            return result

        return call

    kind = type(plain)
    public = {n: getattr(kind, n) for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))}
    return type("Watched", (kind,), {n: around(n, operation) for n, operation in public.items()})(path)


def leave_half(path: str, name: str, data: Any) -> None:
    """What a process leaves that is killed while it writes a file: a part file with half of the bytes."""
    whole = bytes(memoryview(data))
    target = os.path.join(path, f"{name}.{random.Random(name).getrandbits(64):016x}.part")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as part:
        part.write(whole[: len(whole) // 2])


@dataclass(frozen=True, slots=True)
class Task:
    """Instance `number` of `count` in a batch, at hop `hop` of `hops`."""

    batch: int
    number: int
    count: int
    hop: int
    hops: int


class Taps(Protocol):
    """Who is told of instances that run."""

    def instance(self, task: Task, run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """An instance is to run: `run()` does it. Returns its results."""

    def evaluation(self, batch: int, run: Callable[[int | None, Literal["sink", "no sink"]], None]) -> None:
        """A batch is to be dispatched and joined: `run(order, sink)` does it, with the rows in the order that the
        seed `order` gives (None: as they came), and calls the sink or not."""


@contextmanager
def tapped(taps: Taps, seed: int, identity_seed: int = 0) -> Iterator[None]:
    """Within this block every embedded join tells `taps` what it does, and draws nothing at random. The names of
    attempts come from `seed`, the identities of new checkpoints from `identity_seed`."""
    rng, drawn = random.Random(seed), random.Random(f"identity {identity_seed}")
    join_batch, execute = local.join_batch, local._Batch.execute

    def instance(work: Any, number: int, *rest: Any) -> Any:
        task = Task(work.batch, number, work.table.instances, rest[-1], len(work.program.hops))
        return taps.instance(task, lambda: join_batch(work, number, *rest))

    def evaluate(self: Any, work: Any, watermark: int | None) -> None:
        taps.evaluation(work.batch, lambda order, sink: _evaluated(execute, self, work, watermark, order, sink))

    changes = [
        (local, "join_batch", instance),
        (local, "new_attempt", lambda: f"{rng.getrandbits(48):012x}"),
        (local._Batch, "execute", evaluate),
        (
            identity.Identity,
            "drawn",
            lambda: identity.Identity(f"{drawn.getrandbits(128):032x}", drawn.getrandbits(64)),
        ),
    ]
    with _changed(changes):
        yield


@contextmanager
def holds_told(tell: Callable[[Literal["held", "free"]], None]) -> Iterator[None]:
    """Within this block `tell` is called right after a join has taken its checkpoint, and right before the join gives
    it back. A forked child, which holds nothing, tells nothing."""
    take, release = Owner.__init__, Owner.release
    held: WeakKeyDictionary[Owner, int] = WeakKeyDictionary()  # one that is dropped loses its lock, here as elsewhere

    def taken(self: Owner, *given: Any) -> None:
        take(self, *given)
        held[self] = os.getpid()
        tell("held")

    def released(self: Owner) -> None:
        if held.pop(self, None) == os.getpid():
            tell("free")
        release(self)

    with _changed([(Owner, "__init__", taken), (Owner, "release", released)]):
        yield


@contextmanager
def _changed(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Within this block these attributes, given as (owner, name, value), have these values."""
    before = [getattr(owner, name) for owner, name, _ in changes]
    try:
        for owner, name, new in changes:
            setattr(owner, name, new)
        yield
    finally:
        for (owner, name, _), old in zip(changes, before, strict=True):
            setattr(owner, name, old)


def _evaluated(execute: Any, runtime: Any, work: Any, watermark: int | None, order: int | None, sink: str) -> None:
    """One evaluation of a batch by the embedded runtime."""
    sides, to = runtime._sides, runtime._sink
    try:
        if order is not None:
            runtime._sides = [_permuted(rows, order + n) for n, rows in enumerate(sides)]
        runtime._sink = to if sink == "sink" else None
        execute(runtime, work, watermark)
    finally:
        runtime._sides, runtime._sink = sides, to


def _permuted(rows: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    return rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))


@contextmanager
def forgetful() -> Iterator[None]:
    """A fault, to see that the campaign finds one: what a migration brought to its recipients is forgotten."""
    real = driver.migrated

    def migrated(last: Any, work: Any, new: Any, donors: Any, *rest: Any) -> Any:
        return real(last, work, new, [replace(donor, come={}) for donor in donors], *rest)

    with _changed([(driver, "migrated", migrated)]):
        yield


@contextmanager
def unverified() -> Iterator[None]:
    """A fault, to see that the campaign finds one: segments are read without a look at their checksums."""
    with _changed([(Segments, "_verified", lambda self, run: pa.ipc.open_file(self._folder.load(run.file)))]):
        yield


def kind_of(name: str) -> str:
    """The kind of a file by its name within the checkpoint: `commits`, `segments`, `spark/offsets`, `join.json`."""
    parts = name.split("/")
    return "/".join(parts[:2] if parts[0] == "spark" else parts[:1])
