"""The theta joins of the TriJoin paper: three streams of near numbers, as a cycle and as a chain.

    tri-cyclic        abs(r.i - s.i) <  e AND abs(s.int - t.int) <  e AND abs(r.int - t.i) < e        TriJoin 6.1
    tri-chain         abs(r.i - s.i) <= e AND abs(s.int - t.int) <= e                                 TriJoin 6.1
    packets-cyclic, packets-chain   the same conditions over packets of a network trace               TriJoin Fig. 21

each with times at most `window` batches apart for every two sides that the condition compares. A name may have
settings: ``tri-cyclic(e=3,matches=2.5,window=1,tied=0.3,skew=0)``.

What the paper says of its data: three subsets of 15 million tuples, from DiDi's GPS traces or from the MAWI archive of
network traffic; six fields S, D, L, I, Int, Str of types string, double, long, int, int, string; about 80 bytes each; e
is "a small value according to the actual situation". It does not say which attribute became which field, how values
are distributed, how many match, nor how long a window is. All of that is chosen here:

* ``tri``: I and Int are whole numbers below `values`, even, or piled up at small values (`skew` below 1 is the power
  law u^(1 + skew)). `values` follows from `matches`, the tuples that a tuple meets along one edge within the window:

      values = matches^-1 * (tuples of a side in the window) * (whole numbers that are near one)

  Fig. 18 and 19 (71 and 66 % fewer packs than pairs) imply 3.3 and 2.8 pairs for each newcomer and unit.
  With independent fields a cycle would close about matches^3 times a window, however many tuples there are. So a share
  `tied` of the tuples has its Int within e of its I, as a place has a longitude that goes with its latitude.
* ``packets``: I is the source port and Int the destination port, so that `r.int ~ t.i` is a packet and one that may
  answer it. Three in ten packets go to one of a thousand services (zipf 1), three in ten come from one, three in a
  hundred have the same service's port on both ends, as time and name servers do, and close the cycles. Other ports are
  even above 1024. S and Str begin with the addresses, heavy-tailed (zipf 1.1 over 50,000 hosts); D is the packet's
  length, 40 to 1,500 bytes and mostly one of the two. Flows are not modelled: each packet is drawn by itself.
  `matches`, `tied` and `skew` do not apply.

L is the tuple's number: with it a result names its tuples. Event time is a seventh column.
Invariant: the same value gives the same batches, and any batch can be made alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenjoin.bench.jobs import Near
from evenjoin.bench.join_workload import OWN, SEED, THETA, JoinWorkload, Size
from evenjoin.bench.workloads import EPOCH_US, draw, zipf_weights
from evenjoin.errors import SpecError

NAMES = ("tri-cyclic", "tri-chain", "packets-cyclic", "packets-chain")
SIDES = ("r", "s", "t")
SCHEMA = pa.schema(
    [
        ("s", pa.string()), ("d", pa.float64()), ("l", pa.int64()), ("i", pa.int32()), ("int", pa.int32()),
        ("str", pa.string()), ("ts", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip
SELECT = ("r.l AS r_id", "s.l AS s_id", "t.l AS t_id", "r.i AS r_i", "s.int AS s_int", "t.str AS t_str")
SPAN_US = 10_000_000
"""Event time that a batch covers."""
HOSTS, SERVICES, PORTS = 50_000, 1_000, 65_536
Shape = Literal["cyclic", "chain"]
EDGES: dict[Shape, tuple[tuple[str, str], ...]] = {
    "cyclic": (("r.i", "s.i"), ("s.int", "t.int"), ("r.int", "t.i")),
    "chain": (("r.i", "s.i"), ("s.int", "t.int")),
}


@dataclass(frozen=True, slots=True)
class Density:
    """How near is near, and how much of it there is; see the top of this file. `window` is in batches."""

    e: int = 3
    matches: float = 3.0
    window: float = 1.0
    tied: float = 0.3
    skew: float = 0.0

    def __post_init__(self) -> None:
        good = self.e >= 1 and self.matches > 0 and self.window > 0 and 0 <= self.tied <= 1 and 0 <= self.skew < 1
        if not good:
            raise SpecError("e is at least 1, matches and window are above 0, tied is 0 to 1, skew is below 1")


@dataclass(frozen=True, slots=True)
class NearStreams:
    """Three streams of tuples with two whole numbers each."""

    shape: Shape
    density: Density = Density()
    rows_per_batch: int = 4_000
    batches: int = 12
    seed: int = SEED

    @property
    def values(self) -> int:
        """I and Int are below it."""
        near = 2 * self.density.e + (1 if self.shape == "chain" else -1)
        there = self.rows_per_batch * 2 * self.density.window
        return max(1, round(there * near / self.density.matches))

    def side(self, number: int) -> Iterator[pa.Table]:
        return (self.batch(number, batch) for batch in range(self.batches))

    def batch(self, number: int, batch: int) -> pa.Table:
        """Batch ``batch`` (from 0) of one side, in random order of event time."""
        rng, rows = np.random.default_rng([self.seed, number, batch]), self.rows_per_batch
        one, two = (self._drawn(rng, rows) for _ in range(2))
        close = one + rng.integers(1 - self.density.e, self.density.e, rows)
        two = np.where(rng.random(rows) < self.density.tied, close, two).clip(0, self.values - 1)
        coordinate = 104.0 + rng.random(rows) / 10
        return table(batch, [hex_texts(rng, rows, 12), coordinate, one, two, hex_texts(rng, rows, 28)], rng)

    def _drawn(self, rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = (rng.random(rows) ** (1 + self.density.skew) * self.values).astype(np.int64)
        return drawn


@dataclass(frozen=True, slots=True)
class Packets:
    """Three subsets of one network trace: packets in both directions between heavy-tailed hosts."""

    density: Density = Density()
    rows_per_batch: int = 1_500
    batches: int = 12
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        return (self.batch(number, batch) for batch in range(self.batches))

    def batch(self, number: int, batch: int) -> pa.Table:
        """Batch ``batch`` (from 0) of one subset, in random order of event time."""
        rng, rows = np.random.default_rng([self.seed, number, batch]), self.rows_per_batch
        services = np.random.default_rng([self.seed, SERVICES]).permutation(1024)[:SERVICES]
        source, target = (rng.integers(1024, PORTS, rows) for _ in range(2))
        kind = rng.random(rows)  # to a service, from one, between two of them, none of these
        service = services[draw(zipf_weights(SERVICES, 1.0), rows, rng)]
        target = np.where((kind < 0.3) | (kind > 0.97), service, target)
        source = np.where(kind > 0.67, service, source)
        size = rng.random(rows)
        length = np.select([size < 0.45, size < 0.8], [40, 1500], rng.integers(41, 1500, rows))
        hosts = [address_texts(draw(zipf_weights(HOSTS, 1.1), rows, rng)) for _ in range(2)]
        checked = pc.binary_join_element_wise(hosts[1], hex_texts(rng, rows, 8), " ")
        return table(batch, [hosts[0], length.astype(np.float64), source, target, checked], rng)


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, which may have settings, in its own size or another."""
    base, density = read_settings(name)
    kind, _, form = base.partition("-")
    shape: Shape = "cyclic" if form == "cyclic" else "chain"
    streams: NearStreams | Packets = NearStreams(shape, density) if kind == "tri" else Packets(density)
    streams = replace(
        streams,
        rows_per_batch=size.rows or streams.rows_per_batch,
        batches=size.batches or streams.batches,
        seed=size.seed_or(SEED),
    )
    steps = steps_of(shape, density)
    return JoinWorkload(
        name, streams, SIDES, " AND ".join(steps), SELECT, watermark=f"{SPAN_US // 2_000} milliseconds",
        reach_us=0, near=near_of(shape, density.e), steps=steps, strategies=THETA,
    )  # fmt: skip


def read_settings(name: str) -> tuple[str, Density]:
    """A workload's name without its settings, and these."""
    found = re.fullmatch(r"([\w-]+)(?:\((.*)\))?", name)
    known: dict[str, type[float]] = {field.name: type(getattr(Density(), field.name)) for field in fields(Density)}
    given: dict[str, Any] = {}
    for part in filter(None, (found[2] or "").split(",") if found else ()):
        setting, _, value = (text.strip() for text in part.partition("="))
        if setting not in known:
            raise SpecError(f"{name!r}: no setting {setting!r}; there are {', '.join(known)}")
        try:
            given[setting] = known[setting](value)
        except ValueError:
            raise SpecError(f"{name!r}: {setting} is a number, not {value!r}") from None
    if found is None or found[1] not in NAMES:
        raise SpecError(f"unknown workload {name!r}; known: {', '.join(NAMES)}")
    return found[1], Density(**given)


def near_of(shape: Shape, e: int) -> tuple[Near, ...]:
    """What is near to what in a result: a cycle says less than e, a chain at most e."""
    return tuple((one, two, e - 1 if shape == "cyclic" else e) for one, two in EDGES[shape])


def steps_of(shape: Shape, density: Density) -> tuple[str, str]:
    """The conditions between r and s, and between t and both."""
    sign, parts = ("<" if shape == "cyclic" else "<="), []
    window_ms = round(density.window * SPAN_US / 1000)
    for one, two in EDGES[shape]:
        a, b = one[0], two[0]
        low, high = (f"{a}.ts {way} INTERVAL {window_ms} MILLISECONDS" for way in "-+")
        parts.append(f"abs({one} - {two}) {sign} {density.e} AND {b}.ts BETWEEN {low} AND {high}")
    return parts[0], " AND ".join(parts[1:])


def table(batch: int, columns: list[Any], rng: np.random.Generator) -> pa.Table:
    """A batch of s, d, i, int and str, with its numbers and event times."""
    s, d, i, number, text = columns
    rows = len(d)
    ts = EPOCH_US + batch * SPAN_US + rng.integers(0, SPAN_US, rows)
    ids = np.arange(batch * rows, (batch + 1) * rows)
    columns = [s, d, ids, i.astype(np.int32), number.astype(np.int32), text, pa.array(ts, SCHEMA.field("ts").type)]
    return pa.table(columns, schema=SCHEMA)


def hex_texts(rng: np.random.Generator, rows: int, length: int) -> pa.Array:
    """Random texts of an even number of hexadecimal digits."""
    return texts(np.frombuffer(rng.bytes(rows * length // 2).hex().encode(), np.uint8).reshape(rows, length))


def address_texts(hosts: NDArray[np.int64]) -> pa.Array:
    """Addresses of hosts, all written with three digits a part: 010.004.119.201."""
    parts = np.stack([np.full_like(hosts, 10), hosts >> 16, (hosts >> 8) & 255, hosts & 255], axis=1)
    digits = parts[:, :, None] // np.array([100, 10, 1]) % 10 + ord("0")
    dots = np.full((*parts.shape, 1), ord("."))
    letters = np.concatenate([digits, dots], axis=2).reshape(len(hosts), 16)[:, :15]
    return texts(np.ascontiguousarray(letters.astype(np.uint8)))


def texts(letters: NDArray[np.uint8]) -> pa.Array:
    """uint8 [rows, length] of ASCII as strings."""
    rows, length = letters.shape
    offsets = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes()))
