"""Joins of three sides on equal keys: one that all share, one with further keys in pairs, and a triangle.

    common-key     l.k = r.k AND r.k = t.k, zipf 0.4, times at most 2 s apart from side to side
    live-commerce  visits to a live room, products shown there and purchases: the room is common to all, a purchase has
                   its visit's user and its showing's product as well; rooms follow zipf 1       TriJoin, introduction
    triangle       R(a, b), S(b, c), T(c, a): three different keys, each of two sides           the worst case for trees

In `live-commerce` a purchase follows a visit of the batch before, and most buy what the room shows at that moment: each
room shows its products in turn, a new one every SHOW_US. The hottest room has about an eighth of everything, so there
are many pairs of visits and showings and few purchases: such pairs are what a tree would store in vain.
In `triangle` nodes follow zipf 0.8 with the same order for all three keys, so that hot nodes meet.

A batch covers its own span of event time. Invariant: the same value gives the same batches, and any can be made alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenjoin.bench.join_workload import OWN, SEED, THETA, JoinWorkload, Size
from evenjoin.bench.workloads import EPOCH_US, ZipfStreams, draw, zipf_weights

NAMES = ("common-key", "live-commerce", "triangle")
SHARED = "hash,djb,lsstream"
"""Strategies that keep all sides of a key together."""
TIME = pa.timestamp("us", "UTC")
SPAN_US, SHOW_US = 10_000_000, 4_000_000
PRODUCTS = 50
"""Of a room."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """Visits (0), purchases (1) and products shown (2); `rows_per_batch` are the visits."""

    rows_per_batch: int = 8_000
    batches: int = 12
    rooms: int = 2_000
    users: int = 100_000
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        make = (self.visits, self.purchases, self.shown)[number]
        return (make(batch) for batch in range(self.batches))

    def visits(self, batch: int) -> pa.Table:
        """Somebody enters a room."""
        rng, rows = np.random.default_rng([self.seed, 0, batch]), self.rows_per_batch
        room, user = self._rooms(rows, rng), rng.integers(0, self.users, rows)
        return pa.table({"id": _ids(batch, rows), "ts": _times(batch, rows, rng), "room": room, "user": user})

    def shown(self, batch: int) -> pa.Table:
        """A room's streamer shows a product: a quarter as many as visits."""
        rng, rows = np.random.default_rng([self.seed, 1, batch]), max(1, self.rows_per_batch // 4)
        room, ts = self._rooms(rows, rng), _times(batch, rows, rng)
        return pa.table({"id": _ids(batch, rows), "ts": ts, "room": room, "product": product_of(room, ts)})

    def purchases(self, batch: int) -> pa.Table:
        """Somebody who entered in the batch before (in the first: in this one) buys: half as many as visits."""
        rng, rows = np.random.default_rng([self.seed, 2, batch]), max(1, self.rows_per_batch // 2)
        visits = self.visits(max(batch - 1, 0))
        chosen, ts = rng.integers(0, visits.num_rows, rows), _times(batch, rows, rng)
        room, user = (visits[name].to_numpy()[chosen] for name in ("room", "user"))
        other = room * PRODUCTS + rng.integers(0, PRODUCTS, rows)
        product = np.where(rng.random(rows) < 0.8, product_of(room, ts), other)
        cents = np.round(rng.lognormal(7.0, 0.8, rows)).astype(np.int64)
        columns = {"id": _ids(batch, rows), "ts": ts, "room": room, "user": user, "product": product, "cents": cents}
        return pa.table(columns)

    def _rooms(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return _shuffled(self.rooms, self.seed)[draw(zipf_weights(self.rooms, 1.0), rows, rng)]


@dataclass(frozen=True, slots=True)
class Triangles:
    """Edges between three kinds of nodes: R(a, b), S(b, c), T(c, a)."""

    rows_per_batch: int = 5_000
    batches: int = 12
    nodes: int = 4_000
    exponent: float = 0.8
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        return (self.batch(number, batch) for batch in range(self.batches))

    def batch(self, number: int, batch: int) -> pa.Table:
        """Batch ``batch`` of R (0), S (1) or T (2)."""
        rng, rows = np.random.default_rng([self.seed, number, batch]), self.rows_per_batch
        one, two = ("ab", "bc", "ca")[number]
        nodes, weights = _shuffled(self.nodes, self.seed), zipf_weights(self.nodes, self.exponent)
        ends = {name: nodes[draw(weights, rows, rng)] for name in (one, two)}
        return pa.table({"id": _ids(batch, rows), "ts": _times(batch, rows, rng), **ends})


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    rows, batches, seed = size.rows, size.batches, size.seed_or(SEED)
    if name == "common-key":
        return _common_key(rows or 50_000, batches or 10, seed)
    if name == "live-commerce":
        return _live_commerce(Rooms(rows or 8_000, batches or 12, seed=seed))
    return _triangle(Triangles(rows or 5_000, batches or 12, seed=seed))


def _common_key(rows: int, batches: int, seed: int) -> JoinWorkload:
    aliases = ("l", "r", "t")
    streams = ZipfStreams(5 * rows, 0.4, rows, batches, seed=seed, aliases=aliases)
    steps = tuple(f"{a}.k = {b}.k AND {within(b, a, 2, 2)}" for a, b in (("l", "r"), ("r", "t")))
    select = ("l.k AS k", "l.id AS l_id", "r.id AS r_id", "t.id AS t_id", "t.v AS v")
    return JoinWorkload(
        name="common-key", streams=streams, aliases=aliases, condition=" AND ".join(steps), select=select,
        watermark="0 seconds", reach_us=4_000_000, steps=steps, strategies=SHARED,
    )  # fmt: skip


def _live_commerce(rooms: Rooms) -> JoinWorkload:
    """Who bought what is shown, after having entered in the 20 seconds before; shown in the 4 seconds before."""
    steps = (
        f"v.room = b.room AND v.user = b.user AND {within('b', 'v', 0, 20)}",
        f"p.room = b.room AND p.product = b.product AND {within('b', 'p', 0, 4)}",
    )
    select = ("v.id AS visit", "p.id AS showing", "b.id AS purchase", "b.room AS room", "b.cents AS cents")
    return JoinWorkload(
        name="live-commerce", streams=rooms, aliases=("v", "b", "p"), condition=" AND ".join(steps),
        select=select, watermark="5 seconds", reach_us=20_000_000, steps=steps, strategies=SHARED,
    )  # fmt: skip


def _triangle(streams: Triangles) -> JoinWorkload:
    steps = (
        f"r.b = s.b AND {within('s', 'r', 5, 5)}",
        f"s.c = t.c AND t.a = r.a AND {within('t', 's', 5, 5)} AND {within('t', 'r', 5, 5)}",
    )
    select = ("r.id AS r_id", "s.id AS s_id", "t.id AS t_id", "r.a AS a", "s.b AS b", "t.c AS c")
    return JoinWorkload(
        name="triangle", streams=streams, aliases=("r", "s", "t"), condition=" AND ".join(steps), select=select,
        watermark="5 seconds", reach_us=5_000_000, steps=steps, strategies=THETA,
    )  # fmt: skip


def within(side: str, other: str, before_s: int, after_s: int) -> str:
    """SQL: the time of a side is at most so many seconds before or after that of another."""
    low = f"{other}.ts - INTERVAL {before_s} SECONDS" if before_s else f"{other}.ts"
    return f"{side}.ts BETWEEN {low} AND {other}.ts + INTERVAL {after_s} SECONDS"


def product_of(room: NDArray[np.int64], ts: pa.Array) -> NDArray[np.int64]:
    """The product that a room shows at a time: its PRODUCTS in turn, not all rooms beginning with the first."""
    turn: NDArray[np.int64] = ts.cast(pa.int64()).to_numpy() // SHOW_US
    return room * PRODUCTS + (turn + room) % PRODUCTS


@lru_cache(maxsize=4)
def _shuffled(count: int, seed: int) -> NDArray[np.int64]:
    """The numbers below `count`, from the most frequent to the least."""
    return np.asarray(np.random.default_rng([seed, count]).permutation(count), np.int64)


def _ids(batch: int, rows: int) -> NDArray[np.int64]:
    return np.arange(batch * rows, (batch + 1) * rows)


def _times(batch: int, rows: int, rng: np.random.Generator) -> pa.Array:
    return pa.array(EPOCH_US + batch * SPAN_US + rng.integers(0, SPAN_US, rows), TIME)
