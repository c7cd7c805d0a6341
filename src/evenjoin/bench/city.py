"""FastJoin's city: orders and taxi tracks over half a million places, joined over their whole history.

What the paper says of the data of Chengdu (section V-A, Fig. 1 and 11), and what it is here:

    orders and tracks    7 million and 3 billion records, 1 to 430          430 tracks for each order, in every batch
    places               20 % have 80 % of the orders                       80.0 %
                         24 % have 80 % of the tracks                       80.1 %
    joined               an order asks for taxis that passed its place,     both directions of one join, without a
                         a taxi for the orders of its new place             window
    hashed over 48       LI about 2.5, the heaviest stored x probes over    2.3 to 2.7 for the seeds 0 to 29
    units a side         the lightest

HOT, HOT_SHARE and SHIFT were fitted to that LI on the seeds 0 to 29. For 30 other seeds (100 to 129) it is 2.4 to 3.0,
and above 2.8 for one of them, where hot places share a unit.

The number of places is not in the paper. Half a million is a grid of about 50 m over the city.

    share of a place = (rank + SHIFT)^-e, and for the first HOT ranks rank^-2 besides, which add up to HOT_SHARE

The exponents e are those with which 20 % and 24 % of the places have 80 % (tests ask). Under a plain zipf law with
these shares one place would have 3.6 % of the orders, and LI would be 11 to 13. So most of the law is flat at its head
(SHIFT), and the unevenness that the paper saw comes from a few hot places (a station, an airport), the hottest of which
has 1 % of the orders. Orders and tracks have the same hot places; of the others, those with many orders have many
tracks, but in an order of their own (SHUFFLE).

Not here: time. The day with hours and drift is LS-Stream's (ride_hailing.py). The law is the same in every batch.
Invariant: the same seed gives the same files, and any batch can be made alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenjoin.bench.join_workload import OWN, JoinWorkload, Size
from evenjoin.bench.workloads import draw, zipf_weights

NAMES = ("city",)
PLACES = 500_000
TRACKS_PER_ORDER = 430
HOT, HOT_SHARE, SHIFT, SHUFFLE = 8, 0.016, 40_000.0, 0.5
EXPONENTS = (2.1169, 1.9372)
"""Of orders and tracks."""
SEED = 1
CONDITION = "o.place = t.place"
SELECT = ("o.id AS order_id", "t.id AS track", "t.taxi AS taxi", "o.place AS place")
ORDERS_SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64()), ("fare_cents", pa.int64())])
TRACKS_SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64()), ("taxi", pa.int64()), ("speed_kmh", pa.int64())])


@dataclass(frozen=True, slots=True)
class City:
    """Orders and tracks in equal batches, with TRACKS_PER_ORDER tracks for each order."""

    orders_per_batch: int = 200
    batches: int = 24
    taxis: int = 8_000
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        """The orders (0) or the tracks (1)."""
        return map(self.batch_tracks if number else self.batch_orders, range(self.batches))

    def batch_orders(self, batch: int) -> pa.Table:
        rows, rng = self.orders_per_batch, np.random.default_rng([self.seed, 0, batch])
        fares = np.round(rng.lognormal(7.0, 0.5, rows)).astype(np.int64)
        return pa.table([_ids(batch, rows), draw(shares(0, self.seed), rows, rng), fares], schema=ORDERS_SCHEMA)

    def batch_tracks(self, batch: int) -> pa.Table:
        rows, rng = self.orders_per_batch * TRACKS_PER_ORDER, np.random.default_rng([self.seed, 1, batch])
        taxis, speeds = rng.integers(0, self.taxis, rows), rng.integers(0, 90, rows)
        places = draw(shares(1, self.seed), rows, rng)
        return pa.table([_ids(batch, rows), places, taxis, speeds], schema=TRACKS_SCHEMA)


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The city, in its own size or another; `rows` are the orders of a batch."""
    own = City(seed=size.seed_or(SEED))
    city = replace(own, orders_per_batch=size.rows or own.orders_per_batch, batches=size.batches or own.batches)
    return JoinWorkload(name, city, ("o", "t"), CONDITION, SELECT, event_time=None)


@lru_cache(maxsize=4)
def shares(side: int, seed: int) -> NDArray[np.float64]:
    """float64 [PLACES] The share of the orders (0) or the tracks (1) that each place has; sums to 1."""
    law = (1.0 - HOT_SHARE) * zipf_weights(PLACES, EXPONENTS[side], SHIFT)
    law[:HOT] += HOT_SHARE * zipf_weights(HOT, 2.0)
    out = np.empty(PLACES)
    out[places_by_rank(side, seed)] = law
    return out


def places_by_rank(side: int, seed: int) -> NDArray[np.int64]:
    """int64 [PLACES] The places from the one with most orders (0) or tracks (1) to the one with least."""
    rng = np.random.default_rng([seed, 2])
    places = rng.permutation(PLACES)
    if side:
        order = np.argsort(np.log(np.arange(1, PLACES - HOT + 1)) + rng.normal(0.0, SHUFFLE, PLACES - HOT))
        places[HOT:] = places[HOT:][order]
    return places


def _ids(batch: int, rows: int) -> NDArray[np.int64]:
    return np.arange(batch * rows, (batch + 1) * rows)
