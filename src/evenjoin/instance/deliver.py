"""What becomes of the pairs that a path finds and that are no results yet: packs, kept here or sent on to the next hop.

    follow a path -> pack up -> keep (visible to sources that count as later, sealed at the end)
                            \\-> send (placed as rows of a group, or to all units of a group to probe)

Guarantee: what is sent depends on what the instance got, not on when or where it ran, and holds no clock and no name of
an attempt. A pack is placed by its content. So a task that runs again sends what it sent before, and the books of both
agree at the next hop as well (load/receipt.py).
Not here: packing itself (packing.py), and what the next hop does with what it gets (batch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenjoin.instance.follow import Here, Trail, follow
from evenjoin.instance.packing import Packer
from evenjoin.instance.program import Path, Send
from evenjoin.kernels.content import scrambled
from evenjoin.placement.place import Placement, place
from evenjoin.placement.shares import holdings
from evenjoin.placement.topology import Role
from evenjoin.state.packs import Packs, PackSchema
from evenjoin.state.segment import Run


class Sent(NamedTuple):
    """Rows of a store for an instance at the next hop, and the sum of their lines."""

    instance: int
    store: int
    batch: pa.RecordBatch
    lines: int


Seal = Callable[[int, Packs], tuple[Run, ...]]
"""Seals packs of a store, because they are too many to be held."""


def pack_up(here: Here, path: Path, trail: Trail, seal: Seal) -> Iterator[Sent]:
    """Follow a path whose pairs become packs. Packs that are kept are among `here`'s new rows afterwards."""
    store = path.into if path.into is not None else path.send.store if path.send is not None else -1
    schema = here.work.schemas[store]
    assert isinstance(schema, PackSchema)
    packer = Packer(schema, here.work.program.stores[store].covers, here.work.pair_limit)
    for found in follow(here, path, trail):
        packer.add(found)
        if packer.is_full:
            yield from _made(here, path, store, packer.packs(), seal)
    yield from _made(here, path, store, packer.packs(), None)


def _made(here: Here, path: Path, store: int, packs: Packs | None, seal: Seal | None) -> Iterator[Sent]:
    if packs is None:
        return
    here.counts.made(store, len(packs), len(packs.members))
    if path.into is not None and seal is not None:
        here.sealed[store] = (*here.sealed.get(store, ()), *seal(store, packs))
    elif path.into is not None:
        here.new.setdefault(store, []).append(packs)
    if path.send is not None:
        yield from _sent(here, path.send, packs)


def _sent(here: Here, send: Send, packs: Packs) -> Iterator[Sent]:
    table = here.work.table
    if send.how == "placed":
        where = place(table, send.group, packs.at)
    else:
        units = np.unique(holdings(table, send.group, Role.STORE).instance).astype(np.int32)
        rows = np.repeat(np.arange(len(packs)), len(units))
        where = Placement(rows, np.tile(units, len(packs)), np.full(len(rows), int(Role.PROBE), np.uint8))
    out = where.by_instance(table.instances)
    ids = packs.ids(scrambled(here.work.seed + here.work.batch * 64 + send.store))
    batch = packs.batch.take(pa.array(out.rows))
    batch = pa.RecordBatch.from_arrays([*batch.columns, pa.array(out.roles)], schema=packs.schema.wire)
    for instance, start, stop, lines in zip(
        out.instances.tolist(), out.bounds[:-1].tolist(), out.bounds[1:].tolist(), out.lines(ids), strict=True
    ):
        piece = batch.slice(start, stop - start)
        here.counts.sent(send.store, piece, lines)
        yield Sent(instance, send.store, piece, lines)
