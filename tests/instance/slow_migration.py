"""The slow reference of a migration: every instance opens every run, and asks for every tuple where it was and will be.

What it gives is what `instance/migrate.py` must give. It asks for tuples one by one and shares nothing with it but the
values that go in and come out, and how a segment is written.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa

from evenjoin.instance.batch import sealed
from evenjoin.instance.migrate import MASK_SHARE, Migrated, lasting
from evenjoin.placement.diff import heirs
from evenjoin.placement.place import place
from evenjoin.placement.topology import Role
from evenjoin.state.segment import Segments, cut


def migrate_slowly(work, new, folder, attempt):
    """What every instance does when `new` follows the table of the work."""
    return [_migrated(work, new, instance, folder, attempt) for instance in range(work.table.instances)]


def _migrated(work, new, instance, folder, attempt):
    gone, come, sent, sent_bytes = defaultdict(tuple), defaultdict(tuple), 0, 0
    number, segments = heirs(work.table, new).tolist(), Segments(folder)
    heir = number[instance]
    for store, kept in enumerate(work.program.stores):
        runs = work.runs.get((instance, store), ())
        if store not in lasting(work, new):
            gone[instance, store] = runs
            continue
        parcels = defaultdict(list)
        for run in runs:
            rows = segments.read(work.schemas[store], run)
            alive = np.ones(len(rows), bool)
            if run.mask is not None:
                masked = _stored(work.masks[run.mask], kept.group, rows.at)
                alive = np.array([run.number_in_mask(instance) in one for one in masked], bool)
            were, will = (_stored(table, kept.group, rows.at) for table in (work.table, new))
            sends, stays = defaultdict(list), []
            for row in np.flatnonzero(alive).tolist():
                assert instance in were[row]
                if instance == min(were[row]):
                    for recipient in sorted(will[row] - {number[i] for i in were[row]}):
                        sends[recipient].append(row)
                if heir in will[row]:
                    stays.append(row)
            for recipient in sorted(sends):
                parcels[recipient].append(rows.batch.take(pa.array(sends[recipient])))
                sent += len(sends[recipient])
            if len(stays) == run.alive and heir >= 0:
                continue
            gone[instance, store] += (run,)
            if stays and run.mask is None and run.rows - len(stays) <= MASK_SHARE * run.rows:
                come[heir, store] += (replace(run, alive=len(stays), mask=new.name),)
            elif stays:
                parcels[heir].append(rows.batch.take(pa.array(stays)))
        for recipient, parts in parcels.items():
            whole = work.schemas[store].joined(parts, work.schemas[store].run)
            name = f"segments/{work.batch}/{store}-moved-i{recipient}-from{instance}-{work.mark}-{attempt}.arrow"
            come[recipient, store] += sealed(work, store, cut(whole, work.sub_windows[store]), folder, name)
            sent_bytes += whole.batch.nbytes if recipient != heir else 0
    return Migrated(instance, heir, dict(gone), dict(come), sent, sent_bytes, 0.0)


def _stored(table, group, at):
    """By tuple, the instances that store it."""
    out = [set() for _ in at.codes]
    where = place(table, group, at).only(Role.STORE)
    for row, instance in zip(where.row.tolist(), where.instance.tolist(), strict=True):
        out[row].add(instance)
    return out
