"""Rectangles of the ordered matrix, and which of its pairs may match.

Where codes sort like keys, the pairs of two sides form a matrix: side 0's codes downwards, side 1's to the right. A
condition such as |x - y| <= 2 leaves a band of it in which results can be; A-DSP covers the band with rectangles:

            y: .. 9 | 10 .. 19 | 20 ..
    x: .. 9    # #    #                    area A = rows .. 9,      columns .. 11
       10 .. 19  #    # #        #         area B = rows 10 .. 19,  columns 8 .. 21
       20 ..            #        # #       area C = rows 20 ..,     columns 18 ..

A tuple goes to every area whose interval of its side has its code: y = 9 is copied to A and B. The outermost intervals
are unbounded, so that a key nobody has seen yet has its place too.

`Interval` is half-open, [low, high). `Reach` says what may match: low <= y - x <= high, in codes. The condition decides
the reach, and the engine states it on the first table; planners never change it. A reach that is wider than need be
costs copies, never results. Codes that cannot be added (floats that are not in steps, for example) have the reach
EVERYTHING, or a one-sided one for a comparison.
Pure values. Not here: where an area's tuples are stored (topology.py), and how areas are chosen (strategies/adsp/).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_CODE, LAST_CODE = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """The codes from `low` on, below `high`; None is unbounded."""

    low: int | None = None
    high: int | None = None

    @property
    def first(self) -> int:
        return FIRST_CODE if self.low is None else self.low

    @property
    def last(self) -> int:
        return LAST_CODE if self.high is None else self.high - 1

    def __contains__(self, code: int) -> bool:
        return self.first <= code <= self.last

    @classmethod
    def between(cls, first: int, last: int) -> Interval:
        """The codes first .. last, both included; what reaches the end of int64 is unbounded."""
        return cls(None if first <= FIRST_CODE else first, None if last >= LAST_CODE else last + 1)


@dataclass(frozen=True, slots=True)
class Ranges:
    """A rectangle of the matrix (an area): the codes of side 0 in `rows` and those of side 1 in `columns`."""

    rows: Interval = Interval()
    columns: Interval = Interval()

    def side(self, side: int) -> Interval:
        return self.rows if side == 0 else self.columns


ACROSS = (1, 0)
"""ACROSS[side] is the other one of the matrix's two sides."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which pairs may match: low <= y - x <= high for codes x of side 0 and y of side 1; None is no bound."""

    low: int | None = None
    high: int | None = None

    def columns_of(self, rows: Interval) -> Interval:
        """The codes of side 1 that some code of these rows may match.

        Rows that reach an end of int64 reach that end of the columns too, whatever the bounds are, so that every code
        has a place."""
        return _shifted(rows, self.low, self.high)

    def rows_of(self, columns: Interval) -> Interval:
        """The codes of side 0 that some code of these columns may match."""
        return _shifted(columns, _minus(self.high), _minus(self.low))

    def touched(self, rows: Interval, columns: Sequence[Interval]) -> range:
        """Which of the columns (disjoint, ascending) have a pair with these rows that may match."""
        wanted = self.columns_of(rows)
        first = bisect_left([c.last for c in columns], wanted.first)
        return range(first, bisect_right([c.first for c in columns], wanted.last))


EQUAL = Reach(0, 0)
EVERYTHING = Reach()


def _shifted(interval: Interval, low: int | None, high: int | None) -> Interval:
    first = FIRST_CODE if low is None or interval.first == FIRST_CODE else _held(interval.first + low)
    last = LAST_CODE if high is None or interval.last == LAST_CODE else _held(interval.last + high)
    return Interval.between(first, last)


def _held(code: int) -> int:
    return min(max(code, FIRST_CODE), LAST_CODE)


def _minus(bound: int | None) -> int | None:
    return None if bound is None else -bound
