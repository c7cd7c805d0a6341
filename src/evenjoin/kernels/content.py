"""Content hashes: what a tuple holds decides where it stands. Position, occurrence and the books come from here.

    content(columns, seed)        a 64-bit hash of each row, of all its columns bit by bit
    id    = mix(content + occurrence)     occurrence = how many equal rows the task has sent before this one
    u     = the upper 32 bits of the id: the tuple's position
    line  = id * key(role) * key(instance)     of a message: their sum is the book of a task, or of an instance

Guarantees, up to a 64-bit collision:

* The ids of a task's rows are, as a set, a function of the rows as a multiset. Neither the order in which a task meets
  its rows nor how they are cut into batches changes them. Equal rows are interchangeable, so it does not matter which
  of them gets which id. Equal rows of two tasks share an id.
* Rows are equal only if they agree in every bit: -0.0 is not 0.0 here, because a result shows the difference.
* Two sets of messages have the same sum only if they are the same set. Sums are modulo 2^64.

Cost: a column of fixed width is folded in by one multiplication a row, and one mix follows at the end. Equal rows are
found without a sort; only rows that are there more than once cost more.
Pure. Not here: what is done with positions and lines (placement/place.py), and with sums (load/receipt.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.hashing import GOLDEN, U64, hash_column
from evenjoin.kernels.runs import group_starts

CHUNK = 1 << 14
"""Rows that are folded at a time, so that what is worked on stays in the processor's cache."""
_NULL = 0x6E756C6C6E756C6C
_LINE = 0x5851F42D4C957F2D
_MIXER = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""The steps of splitmix64's finaliser: xor with the value shifted right, then multiply."""

Bits = npt.NDArray[Any]
"""An unsigned or signed integer for each row."""


def content(columns: Sequence[Bits | pa.Array], seed: int) -> U64:
    """[rows] A hash of each row, of the seed and all columns in their order. Columns are arrays of one length."""
    parts = [column if isinstance(column, np.ndarray) else bits_of(column, seed) for column in columns]
    rows = len(parts[0])
    keys = np.array([scrambled(seed + k) | 1 for k in range(len(parts))], np.uint64)
    out = np.full(rows, scrambled(seed - 1), np.uint64)
    scratch = np.empty((2, min(CHUNK, rows)), np.uint64)
    for start in range(0, rows, CHUNK):
        total = out[start : start + CHUNK]
        bits, high = scratch[:, : len(total)]
        for part, key in zip(parts, keys, strict=True):
            bits[:] = part[start : start + CHUNK]
            np.right_shift(bits, np.uint64(32), out=high)  # lets the upper half reach the lower bits of the product
            np.bitwise_xor(bits, high, out=bits)
            np.multiply(bits, key, out=bits)
            np.add(total, bits, out=total)
        mix_in_place(total, high)
    return out


def mix_in_place(values: U64, scratch: U64) -> None:
    """`mix64` of each value, in place. `scratch` has the same length."""
    for shift, key in _MIXER:
        np.right_shift(values, np.uint64(shift), out=scratch)
        np.bitwise_xor(values, scratch, out=values)
        if key != 1:
            np.multiply(values, np.uint64(key), out=values)


@lru_cache(maxsize=1 << 16)
def scrambled(number: int) -> int:
    """One number, mixed to 64 bits: for keys and seeds. 0 does not stay 0."""
    mixed = (number * int(GOLDEN) + _LINE) % 2**64
    for shift, key in _MIXER:
        mixed = (mixed ^ mixed >> shift) * key % 2**64
    return mixed


class Occurrences:
    """Numbers equal rows: 0 for the first of its kind that a task has, 1 for the second, and so on, over all the
    batches that the task hands in."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)

    def ids(self, hashes: U64) -> U64:
        """[rows] The id of each row, given the content hash of each."""
        before = len(self._hashes)
        self._hashes = np.concatenate([self._hashes, hashes]) if before else hashes
        ids = hashes.copy()
        several = repeated(self._hashes)
        if len(several):
            kinds = np.minimum(np.searchsorted(several, self._hashes), len(several) - 1)
            rows = np.flatnonzero(several[kinds] == self._hashes)
            rows = rows[np.argsort(kinds[rows], kind="stable")]
            starts = group_starts(kinds[rows])
            number = np.arange(len(rows)) - np.repeat(starts[:-1], np.diff(starts))
            new = rows >= before
            ids[rows[new] - before] += number[new].astype(np.uint64) * GOLDEN
        mix_in_place(ids, np.empty_like(ids))
        return ids


def repeated(hashes: U64) -> U64:
    """The hashes that stand more than once, each once, ascending. O(n), without a sort, where few do.

    Every row writes its number into a table, at a place that its hash names. Who does not find his own number there
    lost the place to another row: to an equal one, or to one of those few that have the place in common by chance.
    """
    if len(hashes) < 2:
        return hashes[:0]
    shift = np.uint64(64 - (4 * len(hashes) - 1).bit_length())
    place = (hashes >> shift).astype(np.int64)
    mine = np.arange(len(hashes), dtype=np.int32)
    table = np.empty(1 << (64 - int(shift)), np.int32)  # what is read was written
    table[place] = mine
    owner = table[place]
    lost = np.flatnonzero(owner != mine)
    equal = hashes[lost] == hashes[owner[lost]]
    found, rest = hashes[lost[equal]], repeated(hashes[lost[~equal]])
    return np.unique(np.concatenate([found, rest])) if len(found) or len(rest) else found


def bits_of(column: pa.Array, seed: int) -> Bits:
    """[rows] Integers that differ wherever the values of a column differ in any bit; NULL has one of its own.

    Values of at most eight bytes are taken as they are. Longer and nested ones are hashed. What a value gives does not
    depend on the values beside it.
    """
    type_ = column.type
    if isinstance(column, pa.ExtensionArray):
        return bits_of(column.storage, seed)
    if pa.types.is_dictionary(type_):
        return bits_of(column.dictionary_decode(), seed)
    if pa.types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    if pa.types.is_struct(type_):
        fields = [bits_of(column.field(k), seed + k + 1) for k in range(type_.num_fields)]
        bits: Bits = content(fields, seed) if fields else np.zeros(len(column), np.uint64)
    elif pa.types.is_nested(type_):
        bits = _lists(column, seed)
    elif _width(column.type) in (1, 2, 4, 8):
        bits = _plain(column)
    elif _width(column.type):
        words = _words(column)
        bits = content([words[:, k] for k in range(words.shape[1])], seed)
    else:
        bits = hash_column(column.cast(pa.large_binary()))
    if column.null_count == 0:
        return bits
    return np.where(np.asarray(column.is_null()), np.uint64(scrambled(seed ^ _NULL)), bits.astype(np.uint64))


def _width(type_: pa.DataType) -> int:
    """Bytes of a value; 0 where they differ from value to value, or are no multiple of what can be taken whole."""
    try:
        width = type_.bit_width // 8
    except ValueError:
        return 0
    return width if width in (1, 2, 4, 8) or (width % 8 == 0 and width) else 0


def _plain(column: pa.Array) -> Bits:
    data, dtype = column.buffers()[1], np.dtype(f"u{_width(column.type)}")
    if data is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(data, dtype)[column.offset : column.offset + len(column)]


def _words(column: pa.Array) -> U64:
    """[rows, words] Values of 16 or more bytes, eight bytes a word."""
    words = _width(column.type) // 8
    data = column.buffers()[1]
    whole = np.zeros((column.offset + len(column), words), np.uint64)
    if data is not None:
        whole = np.frombuffer(data, np.uint64, len(whole) * words).reshape(-1, words)
    return whole[column.offset :]


def _lists(column: pa.Array, seed: int) -> Bits:
    """Hashes of lists and maps: each element is mixed with its place in the list, and the list's elements are added."""
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([("k", column.type.key_type), ("v", column.type.item_type)])))
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0), dtype=np.int64)
    elements = bits_of(column.flatten(), seed + 1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(len(elements)) - np.repeat(starts[:-1], lengths)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(content([elements, places], seed), dtype=np.uint64)])
    return content([lengths, sums[starts[1:]] - sums[starts[:-1]]], seed)
