"""A synthetic ride-hailing day: orders and taxi tracks over the cells of a Hilbert grid.

The city is a 16 x 16 grid whose cells are numbered along the Hilbert curve. Its districts (centres with a reach) pull
orders and tracks towards them:

    rank of a cell   = order of  min over districts (distance / reach) + noise        a little different for each stream
    share of a cell  = (rank + SHIFT)^-e, with the exponent e that puts 80 % of the rows ...
                       orders: ... on 20 % of the cells        tracks: ... on 24 % of the cells

So the hot cells are clustered on the map, hence on the curve, and mostly the same for both streams.
What is published of the data of Chengdu that the papers use, and what it is here over the whole day:

    FastJoin, Fig. 1    20 % of the places have 80 % of the orders, 24 % have 80 % of the tracks    78 and 79 %
    LS-Stream, Fig. 2   hashed over 100 instances, the top tenth gets 39.6 % of the tuples          39 % (the mean over
                        and the bottom tenth none                                                   hashes; by our own
                                                                                                    33 to 38), and 0.1 %

Few cells leave some of 100 instances without any, and SHIFT makes the hottest cells alike, as the second figure asks:
with plain zipf (SHIFT 0) the top tenth would get 59 % of an hour's tuples.

The day drifts: a district's reach swells and shrinks with the hours (PULL), the station and the university in the
morning, the old town at noon, harbour and stadium in the evening, so each hour has hot cells of its own.
The volume follows the hours of a working day, with a morning and an evening peak; orders and tracks follow it alike.
Batch b covers its own slice of the day, so no row is late. The same seed gives the same day.

Two things can be asked for besides, and neither changes any other column of the day: a `Crowd`, which puts a part of
the rows of some hours into one cell, and where in its cell a row is, in metres.

Not here: taxis do not drive from cell to cell, every report is drawn by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenjoin.bench.hilbert import cell_of, xy_of
from evenjoin.bench.workloads import EPOCH_US, draw, exponent_for, zipf_weights

ORDER = 4
CELLS = 1 << (2 * ORDER)
HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US
DISTRICTS: dict[str, tuple[int, int, float]] = {  # x, y, reach
    "Old Town": (7, 8, 3.0),
    "Central Station": (9, 7, 2.2),
    "Harbour": (5, 10, 1.6),
    "University": (10, 10, 1.5),
    "Airport": (13, 3, 1.8),
    "Stadium": (3, 4, 1.2),
}
PULL: dict[str, tuple[float, float, float, float]] = {  # factor of the reach at 0, 6, 12 and 18 o'clock
    "Old Town": (0.9, 0.7, 1.3, 1.1),
    "Central Station": (0.7, 1.5, 1.0, 0.9),
    "Harbour": (0.9, 0.7, 1.0, 1.5),
    "University": (0.5, 1.4, 1.3, 0.7),
    "Airport": (1.4, 1.2, 0.9, 0.9),
    "Stadium": (0.6, 0.6, 0.8, 1.9),
}
# orders and tracks per hour of the day, relative to each other
HOURS = np.array([3, 2, 1, 1, 1, 2, 4, 7, 9, 8, 6, 6, 7, 6, 6, 6, 7, 9, 11, 10, 8, 7, 6, 4], np.float64)
ORDERS_TOP, TRACKS_TOP, MASS, SHIFT = 0.20, 0.24, 0.80, 32.0
ORDERS_SCHEMA = pa.schema(
    [("id", pa.int64()), ("cell", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("fare_cents", pa.int64())]
)
TRACKS_SCHEMA = pa.schema(
    [("taxi", pa.int64()), ("cell", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("speed_kmh", pa.int64())]
)
CELL_M = 1_000
PLACE = (pa.field("x_m", pa.int64()), pa.field("y_m", pa.int64()))
"""Metres from the city's south-western corner. A cell is CELL_M wide."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """An event in one cell: of the orders and tracks from hour `start` to hour `end`, the part `share` is there. The
    others are where they would be without it."""

    cell: int
    start: float
    end: float
    share: float

    def drawn(self, cells: NDArray[np.int64], ts_us: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """The cells of rows with these event times, with the crowd in them."""
        hour = (ts_us - EPOCH_US) / HOUR_US
        there = (hour >= self.start) & (hour < self.end) & (rng.random(len(cells)) < self.share)
        return np.where(there, self.cell, cells)


@dataclass(frozen=True)
class Day:
    """One day: how many orders and tracks, in how many batches of equal event time.

    crowd    an event that draws a crowd; None for a day without
    places   "metres": rows also have the columns of PLACE, which are even over the row's cell
    """

    orders: int = 200_000
    tracks: int = 600_000
    batches: int = 24
    taxis: int = 8_000
    seed: int = 1
    crowd: Crowd | None = None
    places: Literal["cells", "metres"] = "cells"

    @cached_property
    def order_shares(self) -> NDArray[np.float64]:
        """The share of the day's orders that each cell gets; float64 of length ``CELLS``, sums to 1."""
        return self._over_the_day(ORDERS_TOP, 0)

    @cached_property
    def track_shares(self) -> NDArray[np.float64]:
        """The share of the day's tracks that each cell gets."""
        return self._over_the_day(TRACKS_TOP, 1)

    def _over_the_day(self, top: float, stream: int) -> NDArray[np.float64]:
        shares = [_shares(top, hour, np.random.default_rng([self.seed, stream])) for hour in range(24)]
        return np.asarray(np.average(shares, axis=0, weights=HOURS), np.float64)

    def _now(self, top: float, stream: int, batch: int) -> NDArray[np.float64]:
        """The shares in the middle of a batch's slice of the day."""
        return _shares(top, 24 * (batch + 0.5) / self.batches, np.random.default_rng([self.seed, stream]))

    def side(self, number: int) -> Iterator[pa.Table]:
        """The day's orders (0) or tracks (1)."""
        return map(self.batch_tracks if number else self.batch_orders, range(self.batches))

    def batch_orders(self, batch: int) -> pa.Table:
        """The orders of one slice of the day."""
        rng = np.random.default_rng([self.seed, 2, batch])
        first, rows = _slice(self.orders, self.batches, batch)
        ids = np.arange(first, first + rows)
        fares = np.round(rng.lognormal(7.0, 0.5, rows)).astype(np.int64)
        cells, ts = draw(self._now(ORDERS_TOP, 0, batch), rows, rng), self._times(batch, rows, rng)
        return self._placed(0, batch, ts, pa.table([ids, cells, ts, fares], schema=ORDERS_SCHEMA))

    def batch_tracks(self, batch: int) -> pa.Table:
        """The taxi tracks of one slice of the day."""
        rng = np.random.default_rng([self.seed, 3, batch])
        _, rows = _slice(self.tracks, self.batches, batch)
        taxis, speeds = rng.integers(0, self.taxis, rows), rng.integers(0, 90, rows)
        cells, ts = draw(self._now(TRACKS_TOP, 1, batch), rows, rng), self._times(batch, rows, rng)
        return self._placed(1, batch, ts, pa.table([taxis, cells, ts, speeds], schema=TRACKS_SCHEMA))

    def _times(self, batch: int, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        start, end = DAY_US * batch // self.batches, DAY_US * (batch + 1) // self.batches
        return np.sort(EPOCH_US + rng.integers(start, end, rows))

    def _placed(self, stream: int, batch: int, ts_us: NDArray[np.int64], rows: pa.Table) -> pa.Table:
        """The rows with the crowd among them, and with their places if these are asked for."""
        cells, at = rows["cell"].to_numpy(), rows.schema.get_field_index("cell")
        if self.crowd is not None:
            cells = self.crowd.drawn(cells, ts_us, np.random.default_rng([self.seed, 4 + stream, batch]))
            rows = rows.set_column(at, rows.schema.field(at), pa.array(cells))
        if self.places == "metres":
            rng = np.random.default_rng([self.seed, 6 + stream, batch])
            for field, corner in zip(PLACE, xy_of(cells, ORDER), strict=True):
                rows = rows.append_column(field, pa.array(CELL_M * corner + rng.integers(0, CELL_M, len(cells))))
        return rows


def cell_name(cell: int) -> str:
    """A cell as a person would say it: its number, its district and the way from the district's centre."""
    x, y = (int(v) for v in xy_of(np.int64(cell), ORDER))  # type: ignore[arg-type]
    district = min(DISTRICTS, key=lambda name: _distance(x, y, name))
    east, north = x - DISTRICTS[district][0], y - DISTRICTS[district][1]
    way = [
        f"{abs(east)}{'E' if east > 0 else 'W'}" if east else "",
        f"{abs(north)}{'N' if north > 0 else 'S'}" if north else "",
    ]
    return " ".join([f"c{cell}", district, *filter(None, way)])


def _distance(x: float, y: float, name: str) -> float:
    cx, cy, reach = DISTRICTS[name]
    return float(np.hypot(x - cx, y - cy)) / reach


def _shares(top: float, hour: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Zipf shares laid over the map at an hour: the nearer a cell is to a busy district, the lower its rank."""
    x, y = np.meshgrid(np.arange(1 << ORDER), np.arange(1 << ORDER))
    busy = {name: np.interp(hour, (0, 6, 12, 18, 24), (*pull, pull[0])) for name, pull in PULL.items()}
    reach = [np.hypot(x - cx, y - cy) / (r * busy[name]) for name, (cx, cy, r) in DISTRICTS.items()]
    pull = np.min(reach, axis=0) + rng.normal(0.0, 0.4, x.shape)
    cells_by_rank = cell_of(x, y, ORDER).ravel()[np.argsort(pull, axis=None)]
    shares = np.empty(CELLS)
    shares[cells_by_rank] = zipf_weights(CELLS, exponent_for(CELLS, top, MASS, SHIFT), SHIFT)
    return shares


def _slice(total: int, batches: int, batch: int) -> tuple[int, int]:
    """First row and number of rows of a batch: the day's rows cut at the cumulative shape of its hours."""
    hours = np.concatenate([[0.0], np.cumsum(HOURS / HOURS.sum())])
    start, end = np.interp([24 * batch / batches, 24 * (batch + 1) / batches], np.arange(25), hours)
    return round(total * float(start)), round(total * float(end)) - round(total * float(start))
