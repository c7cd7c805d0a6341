"""Names of keys are labels: whatever bytes a key has, the batch goes on, and the label stays short."""

from __future__ import annotations

import pyarrow as pa
from alone import Alone

from evenjoin.instance.batch import join_batch
from evenjoin.instance.tally import LABEL
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.spec import build_spec
from evenjoin.state.segment import Segments

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def text(*values: bytes) -> pa.Array:
    """A column of texts with these bytes, valid UTF-8 or not, as Spark may hand them over."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def join(keys):
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", select=["l.v AS a", "r.v AS b"])
    alone = Alone(spec)
    work = alone.work()
    arrivals = alone.arrivals({}, work)
    for side in (0, 1):
        data = pa.RecordBatch.from_arrays([keys, pa.array(range(len(keys)))], names=["k", "v"])
        arrivals.tuples[side] = [piece for _, piece, _ in Dispatcher(work, None).dispatch(side, data).pieces]
    results = list(join_batch(work, 0, arrivals, alone.folder, Segments(alone.folder), "a"))
    return sum(batch.num_rows for batch in results), {key.name for key in alone.receipts()[0].heavy}


def test_a_bad_byte_in_a_key_is_shown_as_a_replacement_character():
    """The join matches bytes; only the label is text."""
    assert join(text(b"caf\xc3\xa9", b"bad \xff byte")) == (2, {"café", "bad � byte"})


def test_a_long_key_has_a_short_label():
    """Cut, with a sign that it was."""
    _, names = join(text(b"x" * 500))
    assert names == {"x" * (LABEL - 1) + "…"}
