"""One instance by itself: rows in, results and a receipt out, with nothing but a folder in memory around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from evenjoin.instance.batch import Arrivals, join_batch
from evenjoin.load.receipt import Receipt
from evenjoin.placement import Biclique, Buckets, Region, RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.state.files import MemoryFolder
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Segments
from stations import work_of


def one_region(sides=2, instances=1):
    """Everything is stored on one unit of its side and probes all units of the others."""
    units = (tuple(range(instances)),) * sides
    return RoutingTable(0, instances, sides, 1, (Region(Buckets((0,)), Biclique(units)),))


@dataclass
class Alone:
    """An instance over several batches. `batch` gives (results, receipt); what it sealed is there in the next one."""

    spec: object
    table: RoutingTable = field(default_factory=one_region)
    instance: int = 0
    folder: MemoryFolder = field(default_factory=MemoryFolder)
    manifest: Manifest = field(default_factory=Manifest)
    batches: int = 0

    def work(self, **more):
        return work_of(self.spec, self.table, self.manifest.runs, batch=self.batches, **more)

    def arrivals(self, data, work):
        """What this instance gets of some rows by alias, dispatched by one task."""
        out, dispatcher = Arrivals(), Dispatcher(work, None)
        for number, side in enumerate(self.spec.sides):
            rows = [{name: row.get(name) for name in side.columns} for row in data.get(side.alias, [])]
            wanted = pa.schema([side.schema.field(name) for name in side.columns])
            sent = dispatcher.dispatch(number, pa.RecordBatch.from_pylist(rows, wanted))
            for instance, piece, lines in sent.pieces:
                if instance == self.instance:
                    out.take("tuples", number, [piece], lines)
        out.take_note(dispatcher.note)
        return out

    def stream(self, data, attempt="a", **more):
        """The results of a batch, still to be taken."""
        work = self.work(**more)
        segments = Segments(self.folder)
        return join_batch(work, self.instance, self.arrivals(data, work), self.folder, segments, attempt)

    def batch(self, data, **more):
        """Run a batch to its end and go on from it."""
        results = list(self.stream(data, **more))
        receipt = self.receipts()[-1]
        self.manifest = self.manifest.changed(receipt.merged, receipt.sealed)
        self.batches += 1
        table = pa.Table.from_batches(results, self.spec.schema)
        return [tuple(row.values()) for row in table.to_pylist()], receipt

    def receipts(self):
        """The receipts of the batch under way."""
        folder = f"receipts/{self.batches}/s0t1"
        return [Receipt.from_bytes(self.folder.load(f"{folder}/{n}").to_pybytes()) for n in self.folder.names(folder)]
