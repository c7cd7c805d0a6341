"""The tuples of one side that probe in one batch, prepared once for all the runs they meet.

low <= t1 - t0 <= high, so a tuple of side 0 asks for times [t0 + low, t0 + high] and one of side 1 for
[t1 - high, t1 - low]. Without an equality the same holds for codes: see spec/band.py.
Also counts what each of them found, for the receipt: pairs, before a residual predicate looks at them, and results.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from evenjoin.instance.verify import dirty_codes
from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.hashing import I64
from evenjoin.kernels.probe import I32, Probes, Ranges, shifted
from evenjoin.kernels.sorting import group_starts
from evenjoin.spec import JoinSpec
from evenjoin.state.layout import Tuples
from evenjoin.state.segment import Run


class Probing:
    """Sorted probing tuples of a side."""

    def __init__(self, spec: JoinSpec, side: int, tuples: Tuples) -> None:
        self.side, self.tuples = side, tuples
        self.pairs: npt.NDArray[np.int64] = np.zeros(len(tuples), np.int64)
        self.results = 0
        self._spec = spec

    @cached_property
    def probes(self) -> Probes:
        low, high = self._spec.low, self._spec.high
        if self.side == 1:
            low, high = (None if high is None else -high), (None if low is None else -low)
        times = self.tuples.times
        return Probes(
            self.tuples.codes,
            group_starts(self.tuples.codes),
            None if times is None or low is None else shifted(times, low),
            None if times is None or high is None else shifted(times, high),
        )

    @cached_property
    def asked(self) -> tuple[I64, I64] | None:
        """The closed range of codes that each group of equal codes asks for; None: its own code."""
        band = self._spec.band
        if band is None:
            return None
        codes = self.probes.codes[self.probes.starts[:-1]]
        return asked_codes(codes, band.kind, *band.seen_from(self.side), band.slack)

    @cached_property
    def checks_time(self) -> bool:
        """Whether the time bounds are to be checked pair by pair: codes are not equal, so times are not sorted."""
        bounded = self.probes.low is not None or self.probes.high is not None
        return bounded and self._spec.band is not None and not self._spec.band.on_time

    @cached_property
    def time_span(self) -> tuple[int | None, int | None]:
        """The least and the greatest time that any of the tuples asks for; None is unbounded."""
        low, high = self.probes.low, self.probes.high
        return None if low is None else int(low.min()), None if high is None else int(high.max())

    @cached_property
    def dirty(self) -> tuple[int, ...]:
        """Codes that more than one of these tuples' keys share."""
        return dirty_codes(self._spec, self.side, self.tuples)

    def misses(self, run: Run) -> bool:
        """No tuple's time bounds reach this run, or there is no tuple."""
        if len(self.tuples) == 0:
            return True
        if self.tuples.times is None:
            return False
        low, high = self.time_span
        return (low is not None and run.high < low) or (high is not None and run.low > high)

    def count_ranges(self, found: Ranges) -> None:
        """Add pairs, by the ranges of the probing rows; each row occurs once."""
        self.pairs[found.rows] += found.stop - found.start

    def count(self, rows: I32) -> None:
        """Add pairs, by their probing rows, which ascend."""
        if len(rows):
            first, last = int(rows[0]), int(rows[-1])
            self.pairs[first : last + 1] += np.bincount(rows - first, minlength=last + 1 - first)
