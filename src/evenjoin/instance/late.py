"""Late rows on their way to the user's side output.

    instance writes late/<batch>/... -> its receipt names the files -> driver delivers the rows -> commit -> deleted

Rows are delivered before the commit. So none is lost by a crash, but a batch that is replayed delivers its rows again,
under the same batch number. A file's name ends with the CRC-32 of its content, so a damaged one is never delivered.
Not here: which rows are late (runtime/dispatch.py), and where they go (the runtimes).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from evenjoin.errors import ReceiptError
from evenjoin.state.files import Folder


def write_late(folder: Folder, late: Mapping[int, Sequence[pa.RecordBatch]], batch: int, mark: str) -> tuple[str, ...]:
    """Write each side's late rows as one file. Returns the names of the files; `mark` makes them unique."""
    files = []
    for side, batches in sorted(late.items()):
        if batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batches[0].schema) as writer:
                for rows in batches:
                    writer.write_batch(rows)
            data = sink.getvalue()
            files.append(f"late/{batch}/{side}-{mark}-{zlib.crc32(data):08x}.arrow")
            folder.write(files[-1], data)
    return tuple(files)


def late_rows(folder: Folder, files: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """The late rows in these files, as one table for each side that has any. ReceiptError if a file cannot be read."""
    by_side: dict[int, list[pa.Table]] = {}
    for name in files:
        side = int(name.rsplit("/", 1)[1].split("-")[0])
        with pa.ipc.open_file(_intact(folder, name)) as reader:
            by_side.setdefault(side, []).append(reader.read_all())
    for side, tables in sorted(by_side.items()):
        yield side, pa.concat_tables(tables)


def _intact(folder: Folder, name: str) -> pa.Buffer:
    try:
        data = folder.reload(name)
    except FileNotFoundError:
        raise ReceiptError(f"{name} of the checkpoint is missing; the batch will be replayed") from None
    if not name.endswith(f"-{zlib.crc32(data):08x}.arrow"):
        raise ReceiptError(f"{name} of the checkpoint is damaged; the batch will be replayed")
    return data
