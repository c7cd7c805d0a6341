"""The kinds of joins that the campaign draws: for each the condition, the options, and DuckDB's answer to the same
question (oracle.py). A new kind of join is a new entry of JOINS.

Invariant: a join reads only the columns of SCHEMA, and `answer` shares nothing with the engine.
Not here: the rows (rows.py), and which strategy runs a join (case.py asks the engine which ones it accepts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

import evenjoin
import oracle
from oracle import Windows

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("t", pa.int64()),
                    ("v", pa.int64()), ("x", pa.float64())])  # fmt: skip
BOUNDS = "r.t BETWEEN l.t - 4 AND l.t + 3"
THREE = f"{BOUNDS} AND m.t BETWEEN r.t - 2 AND r.t + 4"
SELECT = ("l.id AS a", "r.id AS b", "l.name", "r.v")


@dataclass(frozen=True, slots=True)
class Join:
    """One kind of join. `times` says whether it has an event time; `window` is (size, slide); `sides` are the aliases,
    two or three."""

    on: str
    times: Literal["timed", "untimed"] = "untimed"
    window: tuple[int, int] | None = None
    sides: str = "lr"

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return dict.fromkeys(self.sides, SCHEMA)

    @property
    def select(self) -> list[str]:
        return [*SELECT, *(["m.id AS c"] if "m" in self.sides else [])]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of a result."""
        return ["a", "b", "name", "v", *(["c"] if "m" in self.sides else []), *(["w"] if self.window else [])]

    def options(self, delay: int | None, late: str) -> dict[str, Any]:
        """The arguments of `evenjoin.local` and `evenjoin.join` that say what is joined."""
        options: dict[str, Any] = {"on": self.on, "select": self.select}
        if self.times == "timed":
            options |= {"event_time": "t", "late": late} | ({} if delay is None else {"watermark": delay})
        if self.window is not None:
            options["window"] = evenjoin.sliding(*self.window)
            options["select"].append("window.start AS w")
        return options


JOINS = {
    "integer key": Join("l.k = r.k"),
    "integer key, bounds": Join(f"l.k = r.k AND {BOUNDS}", "timed"),
    "integer key, one bound": Join("l.k = r.k AND r.t >= l.t", "timed"),
    "string key": Join("l.name = r.name"),
    "string key, bounds": Join(f"l.name = r.name AND {BOUNDS}", "timed"),
    "composite key": Join("l.k = r.k AND l.name = r.name"),
    "composite key, bounds": Join(f"l.k = r.k AND l.name = r.name AND {BOUNDS}", "timed"),
    "NULL-safe key, bounds": Join(f"l.k <=> r.k AND {BOUNDS}", "timed"),
    "residual": Join("l.k = r.k AND l.v <> r.v AND l.v + r.v > 2"),
    "residual and filter, bounds": Join(f"l.k = r.k AND l.v <= r.v AND l.v < 3 AND {BOUNDS}", "timed"),
    "band": Join("abs(l.x - r.x) <= 1.5"),
    "band, bounds": Join(f"r.k BETWEEN l.k - 1 AND l.k + 2 AND {BOUNDS}", "timed"),
    "comparison, bounds": Join(f"l.k < r.k AND {BOUNDS}", "timed"),
    "unequal, bounds": Join(f"l.k <> r.k AND {BOUNDS}", "timed"),
    "times only": Join(BOUNDS, "timed"),
    "tumbling window": Join("l.k = r.k", "timed", (5, 5)),
    "sliding window": Join("l.name = r.name", "timed", (6, 2)),
    "window and band": Join("abs(l.k - r.k) <= 1", "timed", (5, 5)),
    "three sides, key": Join("l.k = r.k AND r.k = m.k", sides="lrm"),
    "three sides, string key, bounds": Join(f"l.name = r.name AND m.name = l.name AND {THREE}", "timed", sides="lrm"),
    "three sides, triangle": Join("l.k = r.k AND r.name = m.name AND l.v = m.v", sides="lrm"),
    "three sides, bands, bounds": Join(
        f"abs(l.k - r.k) <= 1 AND abs(r.x - m.x) < 2 AND l.v <= m.v AND {THREE}", "timed", sides="lrm"
    ),
    "three sides, chain": Join("abs(l.x - r.x) <= 1.5 AND r.k = m.k AND l.v + r.v <> m.v", sides="lrm"),
    "three sides, chain, bounds": Join(f"l.k = m.k AND abs(r.x - m.x) <= 2 AND {THREE}", "timed", sides="lrm"),
    "three sides, chain in windows": Join("l.name = r.name AND m.k = l.k", "timed", (6, 3), "lrm"),
    "three sides, one that nothing drives": Join("l.k = r.k AND m.v <> l.v AND m.v < 2", sides="lrm"),
}


def answer(join: Join, data: Mapping[str, pa.Table]) -> Counter[tuple[Any, ...]]:
    """What DuckDB makes of the whole input."""
    windows = None if join.window is None else Windows(*join.window, dict.fromkeys(data, "t"))
    return oracle.answer(data, join.on, join.select, windows)
