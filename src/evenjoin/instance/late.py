"""Late rows on their way to the user's side output.

    instance writes late/<batch>/... -> its receipt names the files -> driver delivers the rows -> commit -> deleted

Rows are delivered before the commit. So none is lost by a crash, but a batch that is replayed delivers its rows again,
under the same batch number. Not here: which rows are late (runtime/dispatch.py), and where they go (the runtimes).
"""

from __future__ import annotations

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
            files.append(f"late/{batch}/{side}-{mark}.arrow")
            folder.write(files[-1], sink.getvalue())
    return tuple(files)


def late_rows(folder: Folder, files: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """The late rows in these files, as one table for each side that has any. ReceiptError if a file cannot be read."""
    by_side: dict[int, list[pa.Table]] = {}
    for name in files:
        side = int(name.rsplit("/", 1)[1].split("-")[0])
        try:
            with pa.ipc.open_file(folder.load(name)) as reader:
                by_side.setdefault(side, []).append(reader.read_all())
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise ReceiptError(f"{name} of the checkpoint is missing or damaged; the batch will be replayed") from error
    for side, tables in sorted(by_side.items()):
        yield side, pa.concat_tables(tables)
