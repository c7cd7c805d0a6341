"""Late rows on their way to a side output: written beside the state by an instance, read by the driver once all
receipts are in, delivered before the commit, deleted after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from evenjoin.state.files import Folder


def write_late(folder: Folder, late: Sequence[Sequence[pa.RecordBatch]], batch: int, mark: str) -> tuple[str, ...]:
    """Write each side's late rows as one file; their names."""
    files = []
    for side, batches in enumerate(late):
        if batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batches[0].schema) as writer:
                for rows in batches:
                    writer.write_batch(rows)
            files.append(f"late/{batch}/{side}-{mark}.arrow")
            folder.write(files[-1], sink.getvalue())
    return tuple(files)


def late_rows(folder: Folder, files: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """The late rows of each side, one table a side."""
    by_side: dict[int, list[pa.Table]] = {}
    for name in files:
        side = int(name.rsplit("/", 1)[1].split("-")[0])
        with pa.ipc.open_file(folder.load(name)) as reader:
            by_side.setdefault(side, []).append(reader.read_all())
    for side, tables in sorted(by_side.items()):
        yield side, pa.concat_tables(tables)
