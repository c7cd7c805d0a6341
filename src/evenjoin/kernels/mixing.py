"""Mixers: secret bijections on 64 bits, one for each seed, from which keyed hashes are made.

    mix(x)                 x ^ start, then twice: fold the upper half into the lower, multiply by a secret odd number
    chain(h, x)            mix(h * fold ^ x): the hash of a sequence that so far had the hash h
    of_bytes(...)          the chain of a value's length and its words of eight bytes

`start`, `fold` and the multipliers come from the seed, so every step depends on it, from the first one on. Values whose
hashes under one seed agree, wholly or in part, agree under another no more often than any others. So whoever does not
know the seed cannot tell which values will collide.
Values of equal length and at most eight bytes never share a hash, because `mix` is a bijection.

Not guaranteed: what a cryptographic hash would promise. Somebody who sees many hashes together with their values may
work out the seed; hashes leave the engine only as codes of 32 bits, in the files of its checkpoint.
Pure. Not here: columns, NULLs and codes of keys (hashing.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

WORD = 8
STEPS = 256
"""Bytes of a value that are chained, eight at a step. The rest, its tail, is added up."""
CHUNK = 1 << 16
"""Words of tails that are worked on at a time. A value that has more is taken whole."""
_ALL = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Mixer:
    """The bijection of one seed, and the hashes made of it; see the top of this file. The multipliers are odd."""

    start: np.uint64
    fold: np.uint64
    first: np.uint64
    second: np.uint64
    null: np.uint64

    @classmethod
    def of(cls, seed: int, number: int = 0) -> Mixer:
        """The mixer of a seed of 64 bits. Those of two numbers are independent of each other."""
        return _mixer(seed, number)

    def mix(self, values: npt.NDArray[Any]) -> U64:
        """A hash of each 64-bit value; different values have different ones. O(n)."""
        x = values.view(np.uint64) ^ self.start
        x ^= x >> np.uint64(32)
        x *= self.first
        x ^= x >> np.uint64(29)
        x *= self.second
        x ^= x >> np.uint64(32)
        return x

    def unmix(self, mixed: U64) -> U64:
        """The inverse of `mix`. O(n)."""
        x = mixed ^ (mixed >> np.uint64(32))
        x *= np.uint64(pow(int(self.second), -1, 1 << 64))
        x ^= (x >> np.uint64(29)) ^ (x >> np.uint64(58))
        x *= np.uint64(pow(int(self.first), -1, 1 << 64))
        x ^= x >> np.uint64(32)
        return x ^ self.start

    def chain(self, hashed: U64, values: npt.NDArray[Any]) -> U64:
        """The hash of a sequence, one value longer than the sequence that `hashed` is the hash of. O(n)."""
        return self.mix(hashed * self.fold ^ values.view(np.uint64))

    def of_bytes(self, data: npt.NDArray[np.uint8], starts: I64, lengths: I64) -> U64:
        """[n] A hash of each byte string data[start : start + length]. `data` has WORD more bytes at its end. O(bytes),
        eight bytes a step for all strings at once."""
        words = np.ndarray((len(data) - WORD + 1,), "<u8", data, strides=(1,))
        hashed = self.mix(lengths)
        rows: Any = slice(None)
        for done in range(0, min(int(lengths.max(initial=0)), STEPS), WORD):
            if not isinstance(rows, slice) or int(lengths.min()) <= done:
                rows = np.flatnonzero(lengths > done)
            found = words[starts[rows] + done] & _mask(lengths[rows] - done)
            hashed[rows] = self.chain(hashed[rows], found)
        tails = np.flatnonzero(lengths > STEPS)
        if len(tails):
            hashed[tails] = self.chain(hashed[tails], self._tails(words, starts[tails] + STEPS, lengths[tails] - STEPS))
        return hashed

    def _tails(self, words: U64, starts: I64, lengths: I64) -> U64:
        """[n] A hash of each string of at least one byte. Each word is mixed with secrets of its place in the string,
        and the words of a string are added."""
        counts = -(-lengths // WORD)
        ends = np.cumsum(counts)
        places = np.arange(2 * int(counts.max()), dtype=np.uint64)
        before, after = self.mix(places).reshape(-1, 2).T
        out = np.empty(len(starts), np.uint64)
        cuts = np.flatnonzero(np.diff(ends // CHUNK, prepend=0))
        for one, two in pairwise(np.unique([0, *cuts.tolist(), len(starts)]).tolist()):
            count = counts[one:two]
            firsts = ends[one:two] - count - (ends[one] - counts[one])
            place = np.arange(int(count.sum())) - np.repeat(firsts, count)
            at = np.repeat(starts[one:two], count) + place * WORD
            left = np.repeat(lengths[one:two], count) - place * WORD
            mixed = self.mix((words[at] & _mask(left)) ^ before[place]) * (after[place] | np.uint64(1))
            out[one:two] = np.add.reduceat(mixed, firsts)
        return out


@lru_cache(maxsize=64)
def _mixer(seed: int, number: int) -> Mixer:
    secret = blake2b(f"{seed} {number}".encode(), digest_size=5 * WORD).digest()
    start, fold, first, second, null = np.frombuffer(secret, "<u8").astype(np.uint64)
    one = np.uint64(1)
    return Mixer(start, fold | one, first | one, second | one, null)


def _mask(left: I64) -> U64:
    """For each word the bits of it that belong to a string which has `left` more bytes, of which there is one."""
    bits = np.minimum(left, WORD).astype(np.uint64) * np.uint64(8)
    return np.uint64(_ALL) >> (np.uint64(64) - bits)
