"""How the sides travel through Spark: one union in, packed rows between the stages.

Into the first stage goes one DataFrame for all sides: the number of the side, and *slots*. Columns of the same
type share a slot across sides. So two streams of (bigint, timestamp, bigint) take three slots, not six, and the rows
that Spark turns into Arrow stay narrow. (These slots have nothing to do with those of a topology.)

Between dispatch and join, and between two hops of a join, one row holds many tuples: (task, kind, lines, blob). The
blob is an Arrow IPC stream, and `lines` the sum of its tuples' lines in the books, modulo 2^64. Results that are found
before the last hop travel to the end in the same way.

Whole numbers and times of 64 bits that lie within 2^32 of each other travel as their distance from the least one
(`narrowed`): most of what Spark copies on the way is such columns.

Invariant: unpacking gives back the columns that were packed, under their own names and declared types.
Not here: which instance a tuple goes to (placement/place.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from evenjoin.runtime.spark.division import Piece
from evenjoin.runtime.spark.files import PATH, ParquetFiles, Reading, read_rows

SIDE = "side"
PACKED = StructType(
    [
        StructField("task", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("lines", LongType()),
        StructField("blob", BinaryType()),
    ]
)
PACKED_ARROW = pa.schema([("task", pa.int32()), ("kind", pa.int32()), ("lines", pa.int64()), ("blob", pa.binary())])
NOTE, RESULTS = -1, -2
"""The kinds of rows with the note of a task, and with results. Rows of store s have kind 2 s, late rows of side s
2 s + 1."""

Packed = tuple[int, int, int, pa.Buffer]
"""(number of the task, kind, sum of the lines, blob)."""
FEW = 1024
"""Fewer rows are packed as they are."""
WHOLE, BASES = b"evenjoin.whole", b"evenjoin.bases"
"""Metadata of a blob with narrow columns: the schema that was packed, and by number of the column its least value."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Which slot holds each column of each side: `columns[side]` maps a column to its slot.

    A side that is read from files sends only their names through Spark. `files[side]` says what to read from
    them; None for any other side.
    """

    columns: tuple[Mapping[str, str], ...]
    types: Mapping[str, DataType]
    files: tuple[Reading | None, ...]

    def unpack(self, side: int, batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The side's own columns, under their names and declared types, from a batch of slots (or from its files)."""
        if self.files[side] is not None:
            yield from self.read(side, map(Piece, self.names(side, batch)), schema)
            return
        arrays = []
        for name in self.columns[side]:
            column = batch.column(self.columns[side][name])
            wanted = schema.field(name).type
            arrays.append(column if column.type == wanted else column.cast(wanted))
        yield pa.RecordBatch.from_arrays(arrays, names=list(self.columns[side]))

    def read(self, side: int, pieces: Iterable[Piece], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The columns of a side that is read from files, from some of them."""
        reading = self.files[side]
        assert reading is not None
        return read_rows(pieces, reading, schema)

    def names(self, side: int, batch: pa.RecordBatch) -> list[str]:
        """The names of the files that a batch of slots holds of a side that is read from files."""
        return [str(name) for name in batch.column(self.columns[side][PATH]).to_pylist()]


def assign_slots(sides: Sequence[DataFrame | ParquetFiles], columns: Sequence[Sequence[str]]) -> Slots:
    """Assign slots: the k-th column of a type has the same slot on every side."""
    files = tuple(
        Reading(names, side.base) if isinstance(side, ParquetFiles) else None
        for side, names in zip(sides, columns, strict=True)
    )
    columns = [(PATH,) if reading is not None else names for names, reading in zip(columns, files, strict=True)]
    types: dict[str, DataType] = {}
    numbers: dict[str, int] = {}
    out: list[dict[str, str]] = []
    for side, names in zip(sides, columns, strict=True):
        used: dict[str, int] = {}
        slots: dict[str, str] = {}
        for name in names:
            type_ = StringType() if isinstance(side, ParquetFiles) else side.schema[name].dataType
            text = type_.simpleString()
            nth = used.get(text, 0)
            used[text] = nth + 1
            slot = f"c{numbers.setdefault(f'{text}#{nth}', len(numbers))}"
            types[slot] = type_
            slots[name] = slot
        out.append(slots)
    return Slots(tuple(out), types, files)


def union(sides: Sequence[DataFrame | ParquetFiles], slots: Slots) -> DataFrame:
    """All sides as one streaming DataFrame with the columns (side, slots). Slots that a side does not use are NULL."""
    merged: DataFrame | None = None
    for side, source in enumerate(sides):
        frame = source.names() if isinstance(source, ParquetFiles) else source
        by_slot = {slot: name for name, slot in slots.columns[side].items()}
        shaped = frame.select(
            sf.lit(side).cast("tinyint").alias(SIDE),
            *(
                (frame[f"`{by_slot[slot]}`"] if slot in by_slot else sf.lit(None).cast(type_)).alias(slot)
                for slot, type_ in slots.types.items()
            ),
        )
        merged = shaped if merged is None else merged.unionAll(shaped)
    assert merged is not None
    return merged


def by_side(batch: pa.RecordBatch, sides: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A batch of the union, split by side. As a rule a partition holds one side only, and nothing is copied."""
    numbers = batch.column(SIDE).to_numpy()
    if len(numbers) == 0:
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), batch
        return
    for side in range(sides):
        rows = batch.filter(pa.array(numbers == side))
        if rows.num_rows:
            yield side, rows


def pack(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as an Arrow IPC stream."""
    batch, sink = narrowed(batch), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def unpack(blob: pa.Scalar) -> Iterator[pa.RecordBatch]:
    """The batches of a packed blob. Only its narrow columns are copied."""
    for batch in pa.ipc.open_stream(blob.as_buffer()):
        yield widened(batch)


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with 32 bits for each column of 64 bits whose values lie within 2^32 of each other. O(rows)."""
    if batch.num_rows < FEW:
        return batch
    columns, schema, bases = batch.columns, batch.schema, {}
    for number, column in enumerate(columns):
        base = _base(column)
        if base is None:
            continue
        bases[number] = base
        values = _longs(column).astype(np.uint32)  # modulo 2^32, and so is the difference
        values -= np.uint32(base % 2**32)
        columns[number] = _array(pa.uint32(), values, column)
        schema = schema.set(number, pa.field(schema.field(number).name, pa.uint32()))
    if not bases:
        return batch
    told = {WHOLE: batch.schema.serialize().to_pybytes(), BASES: json.dumps(bases).encode()}
    return pa.RecordBatch.from_arrays(columns, schema=schema.with_metadata(told))


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch that was narrowed."""
    told = batch.schema.metadata or {}
    if BASES not in told:
        return batch
    whole, columns = pa.ipc.read_schema(pa.py_buffer(told[WHOLE])), batch.columns
    for number, base in json.loads(told[BASES]).items():
        column = columns[int(number)]
        values = np.frombuffer(column.buffers()[1], np.uint32)[column.offset :][: len(column)].astype(np.int64)
        values += base
        columns[int(number)] = _array(whole.field(int(number)).type, values, column)
    return pa.RecordBatch.from_arrays(columns, schema=whole)


def _base(column: pa.Array) -> int | None:
    """The least value of a column that can be narrow; None if it cannot."""
    type_ = column.type
    whole = pa.types.is_int64(type_) or (pa.types.is_temporal(type_) and not pa.types.is_interval(type_))
    if not whole or type_.bit_width != 64 or column.null_count == len(column):
        return None
    values = _longs(column)
    if column.null_count:
        values = values[np.asarray(column.is_valid())]
    low, high = int(values.min()), int(values.max())
    return low if high - low < 2**32 else None


def _longs(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column)]


def _array(type_: pa.DataType, values: np.ndarray[tuple[int], np.dtype[np.generic]], like: pa.Array) -> pa.Array:
    """Values as a column, NULL where another column is."""
    valid = pc.is_valid(like).buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(values)])


def packed_rows(rows: Sequence[Packed]) -> pa.RecordBatch:
    """Packed rows as a batch. Their blobs must have less than 2^31 bytes together."""
    tasks, kinds, lines, blobs = zip(*rows, strict=True)
    offsets = np.concatenate([[0], np.cumsum([blob.size for blob in blobs])]).astype(np.int32)
    data = pa.py_buffer(b"".join(blobs))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(tasks, pa.int32()),
            pa.array(kinds, pa.int32()),
            pa.array(lines, pa.uint64()).view(pa.int64()),
            pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), data]),
        ],
        schema=PACKED_ARROW,
    )
