"""Where a key lives: a text that somebody typed becomes a key, its code, and what `place` does with it.

    "Zürich"  ──►  code -2122868632  ──►  place(table, side, code, u for many u)  ──►  side o: instance 3, all of it
                                                                                      side t: 0 (70 %) and 1 (30 %)

The codec is that of the join: `join.json` has its condition and the types of its columns, and the seed of its hashes. A
position `u` is uniform, so the share of an instance is the part of POSITIONS even steps of it that `place` sends there.

Guarantee: what is said is what `place` says of the table that the next batch will use; nothing here knows what a region
is. A text that is no key of this join, or a table whose placement needs more than one key, is a sentence that says so.
Not guaranteed: that the key has ever been seen.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from evenjoin.commit.history import RecordedJoin
from evenjoin.errors import EvenJoinError
from evenjoin.kernels.hashing import Codes, KeyCodec
from evenjoin.page.follow import Past
from evenjoin.page.recorded import spec_of
from evenjoin.placement.place import At, place, routed
from evenjoin.placement.slots import Role
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.state.tuples import tuple_schemas

POSITIONS = 4096
NULL = "NULL"
"""How a missing part of a key is typed, where the condition compares with <=>."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Where the tuples of one side with a key live: by instance the percentage that is stored there, and that probes
    there."""

    side: str
    stored: dict[int, float]
    probing: dict[int, float]


Kind = Literal["own", "bucket", "neighbours", "areas", "grid", "anywhere"]
"""What has the key: a region of its own, because a planner moved or divided it; a bucket of hashes, or of neighbouring
keys; the areas that it can reach; a grid of instances, which takes every key; or a table that sends every tuple
anywhere."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a key lives, and what has it there. If `wrong` is not empty, it says why the question has no answer."""

    key: str
    code: int = 0
    stays: tuple[Stay, ...] = ()
    kind: Kind = "bucket"
    wrong: str = ""


class Finder:
    """Answers for one checkpoint. The spec of the join is read back once."""

    def __init__(self, join: RecordedJoin, seed: int) -> None:
        self._join, self._why = join, ""
        self._codecs: tuple[KeyCodec, ...] = ()
        try:
            spec = spec_of(join)
        except EvenJoinError as error:
            self._why = f"the condition could not be read back: {error}"
            return
        schemas = tuple_schemas(spec, seed, "redacted" if join.redact_keys else "shown")
        self._codecs = tuple(schema.codec for schema in schemas)

    def find(self, text: str, past: Past) -> Whereabouts:
        """Where the key that was typed lives. The parts of a composite key are separated by commas, and one with a
        comma in it stands in double quotes; a name that a report gave to a key is found as well."""
        table = past.table
        if table is None:
            return Whereabouts(text, wrong="no batch is committed yet")
        if table.cube is not None:
            return Whereabouts(text, wrong="this table is a cube: a tuple is placed by several keys at once")
        named = {key.name: key.code for moment in past.moments for key in moment.keys}
        try:
            code = self._code(text)
        except (ValueError, pa.ArrowException) as error:
            if text not in named:
                return Whereabouts(text, wrong=str(error).split("\n")[0])
            code = np.array([named[text]], np.int64)
        return where(table, text, code, self._join.sides)

    def _code(self, text: str) -> Codes:
        if self._why:
            raise ValueError(self._why)
        codec = self._codecs[0]
        if not codec.types:
            raise ValueError("this join has no key: every tuple has the same code")
        parts = [text] if len(codec.types) == 1 else _parts(text)
        if len(parts) != len(codec.types):
            raise ValueError(f"a key has {len(codec.types)} parts, separated by commas, not {len(parts)}")
        columns = [_value(*both) for both in zip(parts, codec.types, strict=True)]
        codes, valid = codec.encode(columns, 1)
        if valid is not None and not valid[0]:
            raise ValueError("NULL matches nothing under =")
        return codes


def where(table: RoutingTable, key: str, code: Codes, sides: tuple[str, ...]) -> Whereabouts:
    """Where the tuples with this code [1] live, by side."""
    u = np.linspace(0, 2**32 - 1, POSITIONS).astype(np.uint32)
    at = At(np.repeat(code, POSITIONS), u)
    stays = []
    for group, side in enumerate(sides):
        found = place(table, group, at)
        stays.append(Stay(side, *({} for _ in range(2))))
        for role, into in ((Role.STORE, stays[-1].stored), (Role.PROBE, stays[-1].probing)):
            held = np.bincount(found.only(role).instance, minlength=table.instances)
            into.update({int(i): 100.0 * float(held[i]) / POSITIONS for i in np.flatnonzero(held)})
    return Whereabouts(key, int(code[0]), tuple(stays), kind_of(table, code))


def kind_of(table: RoutingTable, code: Codes) -> Kind:
    """What the table has for this code [1]."""
    if table.ranged:
        return "areas"
    if routed(table, code)[0] >= 0:
        return "own"
    if table.ordered:
        return "neighbours"
    whole = table.regions[0].topology if len(table.regions) == 1 else None
    if whole is None or table.instances == 1:
        return "bucket"
    return "anywhere" if isinstance(whole, Biclique) else "grid"


def _parts(text: str) -> list[str]:
    """The parts of a composite key: a, "b, c" are two."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [""])]


def _value(text: str, type_: pa.DataType) -> pa.Array:
    """What was typed as a value of the key's type."""
    if text == NULL and not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        return pa.nulls(1, type_)
    zoned = pa.types.is_timestamp(type_) and type_.tz is not None
    try:
        return pa.array([f"{text}Z" if zoned and not re.search(r"(Z|[+-]\d\d:?\d\d)$", text) else text]).cast(type_)
    except pa.ArrowException:
        raise ValueError(f"{text!r} is no key of type {type_}") from None
