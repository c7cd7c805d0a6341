"""The walk of a tuple and of a rebalance, counted: which files somebody has to read, in which order.

    python tests/walk.py            both walks on the embedded engine, one line a hop

A *hop* is the first call of a function (or constructor) of one file by another file: the place where a reader who
follows the run must go on in another file. What he has read already does not count again, nor do properties, private
functions and operators, which are read where they stand. A *return* is a hop to a file that was open before.
Functions that are called one after the other in the same file are one hop.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import evenjoin
from evenjoin.placement.place import bucket_of
from evenjoin.testing import Hooks

SOURCE = f"{Path(evenjoin.__file__).parent}/"
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True, slots=True)
class Hop:
    """`caller` (a file) goes on in `file`, at `function`."""

    caller: str
    file: str
    function: str


@dataclass(frozen=True, slots=True)
class Walk:
    hops: tuple[Hop, ...]

    @property
    def files(self) -> int:
        return len({hop.file for hop in self.hops})

    @property
    def returns(self) -> int:
        return len(self.hops) - self.files


def walk(run: Callable[[], Any], start: str = "") -> Walk:
    """The walk through a call. With `start`, the name of a function, it begins where that is first called."""
    looked_at: set[CodeType] = {code for module in _modules() for code in _properties(module)}
    hops: list[Hop] = []
    begun = [not start]

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or code in looked_at:
            return
        looked_at.add(code)
        begun[0] = begun[0] or code.co_name == start
        if (code.co_name.startswith(("_", "<")) and code.co_name != "__init__") or not begun[0]:
            return
        file, caller = code.co_filename.removeprefix(SOURCE), _caller(frame)
        if caller != file and not (hops and hops[-1].file == file):
            hops.append(Hop(caller, file, getattr(code, "co_qualname", code.co_name)))

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return Walk(tuple(hops))


def _caller(frame: FrameType) -> str:
    """The file of ours that made a call, be it through numpy or the standard library."""
    back = frame.f_back
    while back is not None and not back.f_code.co_filename.startswith(SOURCE):
        back = back.f_back
    return "" if back is None else back.f_code.co_filename.removeprefix(SOURCE)


def _modules() -> list[Any]:
    return [module for name, module in sys.modules.items() if name.startswith("evenjoin")]


def _properties(module: Any) -> list[CodeType]:
    kinds = [value for value in vars(module).values() if isinstance(value, type)]
    found = [member for kind in kinds for member in vars(kind).values()]
    plain = [member.fget.__code__ for member in found if isinstance(member, property) and member.fget]
    return plain + [member.func.__code__ for member in found if isinstance(member, functools.cached_property)]


def tuple_walk(batch: int = 1) -> Walk:
    """A batch of a join, counted from 0: equal keys within a window of time, hash placement, files on disk.

    The first batch of a start is longer: it also makes the program, the columns of stored tuples and the first table.
    """
    with tempfile.TemporaryDirectory() as folder, _join("hash", folder) as join:
        for earlier in range(batch):
            join.process(_rows(earlier))
        rows = _rows(batch)
        return walk(lambda: join.process(rows))


def rebalance_walk() -> Walk:
    """From the receipts of a skewed batch until the next one has migrated: what is read after the walk of a tuple has
    come to its receipts."""

    def stop(step: str, _: int) -> None:
        if step == "migrated":
            raise _Migrated

    with tempfile.TemporaryDirectory() as folder, _join("fastjoin", folder, Hooks(step=stop)) as join:
        join.process(_rows(0))
        one, two = _rows(1), _rows(2)

        def rebalance() -> None:
            join.process(one)
            with contextlib.suppress(_Migrated):
                join.process(two)
                raise AssertionError("the load called for no rebalance")

        return walk(rebalance, start="advance")


class _Migrated(Exception):
    """A rebalance has got as far as it is looked at."""


def _join(strategy: str, folder: str, hooks: Hooks | None = None) -> Any:
    return evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA},
        "l.k = r.k AND r.ts BETWEEN l.ts - 5 AND l.ts + 5",
        event_time="ts",
        watermark=10,
        strategy=strategy,
        instances=2,
        guards=evenjoin.Guards(cooldown=1, min_work=0),
        checkpoint=folder,
        hooks=hooks,
    )


def _rows(batch: int) -> dict[str, pa.Table]:
    """A thousand rows a side; a handful of keys have most of them, and they hash to one instance."""
    rng = np.random.default_rng(batch)
    one_half = np.flatnonzero(bucket_of(np.arange(50), 2) == 0)
    hot = rng.choice(one_half[:8], 700)
    keys = np.concatenate([hot, rng.integers(0, 50, 300)])
    table = pa.table({"k": keys, "ts": batch * 5 + rng.integers(0, 5, 1000), "v": np.arange(1000)}, schema=SCHEMA)
    return {"l": table, "r": table}


def main() -> None:
    for name, found in (("a tuple", tuple_walk()), ("a rebalance", rebalance_walk())):
        print(f"\nthe walk of {name}: {len(found.hops)} hops, {found.files} files, {found.returns} returns")
        open_before: set[str] = set()
        for hop in found.hops:
            print(f"  {'back to ' if hop.file in open_before else '':8}{hop.file:36}{hop.function:40}from {hop.caller}")
            open_before.add(hop.file)


if __name__ == "__main__":
    main()
