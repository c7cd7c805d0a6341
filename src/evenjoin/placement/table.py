"""The routing table: a frozen, versioned value that says where every tuple is stored and what it probes.

A table is a list of *regions*. A region says which tuples it takes and how its units lie on instances (a topology):

    version 7, 4 instances, 8 buckets
      Buckets(0, 1)    Biclique R on 0, S on 0         the initial hash table: each instance has two buckets
      Buckets(2, 3)    Biclique R on 1, S on 1         (2 and 3 likewise)
      Keys(42)         Biclique R on 3, S on 1         a migrated key (FastJoin)
      Keys(77)         Biclique R on 0 1 2, S on 3     a split key (D-JB)

A tuple is looked up by its key's code: first among the keys of `Keys` regions, then by its hash bucket. So a key
that has a region of its own leaves its bucket's region, and exactly one region takes any given code.

Buckets are hashes of codes, unless the table has `cuts`. Then they are *ordered*: intervals of codes, and a tuple
probes all of them that its code can reach (placement/order.py).

A *ranged* table has regions of `Ranges` only (and 0 buckets): areas of the ordered matrix, see placement/ranges.py.
There a tuple is taken by every region whose interval of its side has its code: none, one or several.

`reach` says which codes may match at all: equal ones, unless the condition says otherwise. `check` decides by it.
`compiled` is the same table as flat arrays, for `place`. A table never changes: an edit makes the next version. It is
stored under its version and a digest of its content.

Every strategy ends in a table; nothing downstream knows which strategy made it. Not here: whether a table is right
(check.py), and whether it is a good one (strategies/).
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.errors import TableError
from evenjoin.placement.links import Link
from evenjoin.placement.order import Probing, intervals, probing_of
from evenjoin.placement.ranges import EQUAL, Interval, Ranges, Reach
from evenjoin.placement.slots import Role
from evenjoin.placement.topology import Biclique, Cube, Meets, Slot, Topology, meets_from_json, topology_from_json
from evenjoin.shown import Showing, Shown

Layout = Literal["shared", "split"]
"""How the initial table lets instances host units. shared: every instance hosts units of all sides. split: each side
has instances of its own."""


Meeting = Literal["pairs", "together"]
"""What must meet: every two tuples that can match, or all tuples of a combination on one instance."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The tuples whose code is in one of these buckets, unless a `Keys` region takes their code."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """The tuples with one of these codes."""

    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    takes: Buckets | Keys | Ranges
    topology: Topology


@dataclass(frozen=True, slots=True)
class Succession:
    """Whose state the instances of a table take over when it follows the table of this name: instance i goes on with
    all that instance `of[i]` stored; -1: it begins with nothing. An old instance that nobody follows is dissolved."""

    table: str
    of: tuple[int, ...]


@dataclass(frozen=True)
class RoutingTable(Showing):
    """Where tuples live.

    version     counts up with every change of table on a checkpoint
    groups      how many groups of tuples it places: one for each side
    origin      the strategy, with the settings that shaped the initial table
    reach       which codes may match
    layout      how the initial table hosted units on instances
    program     the name of what instances do with the tuples (instance/program.py); a table is for one program
    meeting     what that program needs to meet; the engine states it, as it states the reach
    meets       the pairs of groups that this program lets meet (None: all); stated by the engine too
    links       which codes may match by any index of two sides (links.py), where the table may have a cube; stated too
    follows     how instances are renumbered when this table follows one certain table; None, and after any other
                table: instance i goes on with what instance i stored
    cuts        where the ordered buckets begin, all but the first, ascending; None: buckets are hashes
    """

    version: int
    instances: int
    groups: int
    buckets: int
    regions: tuple[Region, ...]
    origin: str = ""
    reach: Reach = EQUAL
    layout: Layout = "shared"
    program: str = "direct"
    meeting: Meeting = "pairs"
    meets: Meets = None
    links: tuple[Link, ...] = ()
    follows: Succession | None = None
    cuts: tuple[int, ...] | None = None

    def with_regions(self, regions: tuple[Region, ...]) -> RoutingTable:
        """The next version of the table, with these regions; this very object if they are the same."""
        if regions == self.regions:
            return self
        return replace(self, version=self.version + 1, regions=regions, follows=None)

    def refined(self, times: int) -> RoutingTable:
        """The same placement with `times` as many buckets: bucket b becomes the buckets from b * times to
        (b + 1) * times - 1. They are the same hash values, because a bucket is a contiguous range of them.
        TableError if buckets are ordered: their parts are no such ranges."""
        if times == 1:
            return self
        if self.ordered:
            raise TableError("ordered buckets cannot be refined: they are cut anew")
        regions = tuple(
            replace(region, takes=Buckets(tuple(b * times + k for b in region.takes.ids for k in range(times))))
            if isinstance(region.takes, Buckets)
            else region
            for region in self.regions
        )
        return replace(self, buckets=times * self.buckets, regions=regions, follows=None)

    def stating(self, other: RoutingTable) -> RoutingTable:
        """The same table with what the engine has stated on another one, of the same join and program."""
        return replace(self, reach=other.reach, meeting=other.meeting, meets=other.meets, links=other.links)

    @property
    def name(self) -> str:
        """The name by which commits and masked runs refer to the table: its version and the digest of its content."""
        return f"{self.version}-{self.digest}"

    @property
    def title(self) -> str:
        """The table in a few words, for people."""
        return f"{self.origin}/{self.layout} on {self.instances}"

    def shown(self) -> Shown:
        """For each instance in how many buckets (or areas) and for how many keys of their own it stores tuples. A table
        that `check` refuses is shown too."""
        held: dict[type, Counter[int]] = {kind: Counter() for kind in (Keys, Buckets, Ranges)}
        for region in self.regions:
            many = {Keys: "codes", Buckets: "ids"}.get(type(region.takes))
            for instance in _homes(region.topology, self.groups):
                held[type(region.takes)][instance] += len(getattr(region.takes, many)) if many else 1
        areas = Ranges if held[Ranges] else Buckets
        rows = tuple((str(i), f"{held[areas][i]:,}", f"{held[Keys][i]:,}") for i in range(self.instances))
        columns = ("instance", "areas" if held[Ranges] else "buckets", "keys of their own")
        return Shown(f"Routing table {self.version}, {self.title}", columns, rows)

    @property
    def cube(self) -> Cube | None:
        """The cube that places all tuples by their codes, if this table is such a cube."""
        topology = self.regions[0].topology if len(self.regions) == 1 else None
        return topology if isinstance(topology, Cube) and topology.by_code else None

    @property
    def ranged(self) -> bool:
        """Whether regions are areas of the ordered matrix."""
        return len(self.compiled.span) > 1

    @property
    def ordered(self) -> bool:
        """Whether buckets are intervals of codes."""
        return self.cuts is not None

    @property
    def cells(self) -> int:
        """The number of cells in which load is counted (see `cells_of` in place.py). They are the buckets and the codes
        with a region of their own; in a ranged table the elementary intervals, which lie between neighbouring ends of
        its intervals."""
        return self.buckets + len(self.compiled.key_codes) if not self.ranged else len(self.compiled.cuts) + 1

    @cached_property
    def compiled(self) -> Compiled:
        return _compile(self)

    @cached_property
    def digest(self) -> str:
        return f"{zlib.crc32(json.dumps(self.to_json(), sort_keys=True).encode()):08x}"

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "instances": self.instances,
            "groups": self.groups,
            "buckets": self.buckets,
            "origin": self.origin,
            "layout": self.layout,
            "program": self.program,
            "meeting": self.meeting,
            **({} if self.meets is None else {"meets": [list(pair) for pair in self.meets]}),
            **({"links": [link.to_json() for link in self.links]} if self.links else {}),
            **({} if self.reach == EQUAL else {"reach": [self.reach.low, self.reach.high]}),
            **({} if self.follows is None else {"follows": [self.follows.table, list(self.follows.of)]}),
            **({} if self.cuts is None else {"cuts": list(self.cuts)}),
            "regions": [
                {**_takes_json(region.takes), "topology": region.topology.to_json()} for region in self.regions
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RoutingTable:
        regions = tuple(Region(_takes(item), topology_from_json(item["topology"])) for item in data["regions"])
        reach = Reach(*data["reach"]) if "reach" in data else EQUAL
        return cls(
            data["version"], data["instances"], data["groups"], data["buckets"], regions, data["origin"], reach,
            data["layout"], data["program"], data["meeting"], meets_from_json(data),
            tuple(map(Link.from_json, data.get("links", ()))), _follows(data),
            tuple(data["cuts"]) if "cuts" in data else None,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """A pickled table carries its compiled arrays and its digest, so that tasks need not make them again."""
        return {**self.__dict__, "compiled": self.compiled, "digest": self.digest}


def _follows(data: dict[str, Any]) -> Succession | None:
    return Succession(data["follows"][0], tuple(data["follows"][1])) if "follows" in data else None


def _takes_json(takes: Buckets | Keys | Ranges) -> dict[str, Any]:
    if isinstance(takes, Buckets):
        return {"buckets": list(takes.ids)}
    if isinstance(takes, Keys):
        return {"keys": list(takes.codes)}
    return {"ranges": [[side.low, side.high] for side in (takes.rows, takes.columns)]}


def _takes(item: dict[str, Any]) -> Buckets | Keys | Ranges:
    if "buckets" in item:
        return Buckets(tuple(item["buckets"]))
    if "keys" in item:
        return Keys(tuple(item["keys"]))
    return Ranges(*(Interval(*side) for side in item["ranges"]))


class Compiled(NamedTuple):
    """A table as arrays.

    A cell c (see `cells_of`: the buckets, then the sorted `key_codes`) belongs to region `region_of_cell[c]`.

    The slots of (region, group) are numbers `first_slot[i]` up to `first_slot[i+1]`, with i = region * groups + group.
    Slot k starts at `slot_start[k] = i << 32 | u`. Its targets are `instance[target[k]:target[k+1]]`, with the roles at
    the same places of `role`.

    In a ranged table the elementary interval e begins at `cuts[e-1]`. On side s it is taken by the regions
    `span_region[span[k]:span[k+1]]`, with k = s * (len(cuts) + 1) + e. `apart` says that no two areas share an
    instance.

    In a table of ordered buckets bucket b begins at `bucket_cuts[b-1]`. Slots have only those targets that store, and
    `probing` says what codes probe.
    """

    region_of_cell: npt.NDArray[np.int64]
    key_codes: npt.NDArray[np.int64]
    slot_start: npt.NDArray[np.uint64]
    first_slot: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    instance: npt.NDArray[np.int32]
    role: npt.NDArray[np.uint8]
    cuts: npt.NDArray[np.int64]
    span: npt.NDArray[np.int64]
    span_region: npt.NDArray[np.int64]
    apart: npt.NDArray[np.bool_]
    bucket_cuts: npt.NDArray[np.int64]
    probing: Probing | None

    @property
    def unsplit(self) -> bool:
        """Whether every region has one slot for each group, so that `u` decides nothing."""
        return len(self.first_slot) == len(self.slot_start) + 1


def _homes(topology: Topology, groups: int) -> set[int]:
    """The instances that store tuples of a topology, of whatever group."""
    slots = (slot for group in range(groups) for slot in topology.slots(group))
    return {instance for slot in slots for instance, role in slot.targets if Role.STORE in role}


def _compile(table: RoutingTable) -> Compiled:
    region_of_bucket = np.full(table.buckets, -1, np.int64)
    codes: list[int] = []
    code_regions: list[int] = []
    starts: list[int] = []
    first_slot = [0]
    targets: list[tuple[tuple[int, int], ...]] = []
    slots_of: dict[tuple[Topology, int], tuple[Slot, ...]] = {}
    for number, region in enumerate(table.regions):
        if isinstance(region.takes, Buckets):
            region_of_bucket[list(region.takes.ids)] = number
        elif isinstance(region.takes, Keys):
            codes.extend(region.takes.codes)
            code_regions.extend([number] * len(region.takes.codes))
        for group in range(table.groups):
            key = (region.topology, group)
            slots = slots_of.get(key) or slots_of.setdefault(key, region.topology.slots(group))
            starts.extend(_bounds(number * table.groups + group, slots))
            targets.extend(_storing(slot) if table.ordered else slot.targets for slot in slots)
            first_slot.append(len(targets))
    order = np.argsort(np.array(codes, np.int64), kind="stable")
    flat = [target for slot in targets for target in slot]
    return Compiled(
        np.concatenate([region_of_bucket, np.array(code_regions, np.int64)[order]]),
        np.array(codes, np.int64)[order],
        np.array(starts, np.uint64),
        np.array(first_slot, np.int64),
        np.cumsum([0] + [len(slot) for slot in targets]).astype(np.int64),
        np.array([instance for instance, _ in flat], np.int32),
        np.array([int(role) for _, role in flat], np.uint8),
        *_compile_ranges(table),
        np.array(_apart(table, slots_of)),
        np.array(table.cuts or (), np.int64),
        _compile_probing(table) if table.ordered else None,
    )


def _storing(slot: Slot) -> tuple[tuple[int, Role], ...]:
    return tuple((instance, Role.STORE) for instance, role in slot.targets if role & Role.STORE)


def _compile_probing(table: RoutingTable) -> Probing:
    """What the codes of each side probe. A cell that no region with units takes is probed by nobody."""
    homes: dict[int, Topology] = {}
    keys: dict[int, Topology] = {}
    for region in table.regions:
        if isinstance(region.takes, Buckets):
            homes.update(dict.fromkeys(region.takes.ids, region.topology))
        elif isinstance(region.takes, Keys):
            keys.update(dict.fromkeys(region.takes.codes, region.topology))
    cells = [*intervals(table.cuts or ()), *(Interval.between(code, code) for code in sorted(keys))]
    topologies = [*map(homes.get, range(table.buckets)), *(keys[code] for code in sorted(keys))]
    units = [one.units if isinstance(one, Biclique) else ((),) * table.groups for one in topologies]
    return probing_of(table.reach, cells, units)


def _apart(table: RoutingTable, slots: Mapping[tuple[Topology, int], tuple[Slot, ...]]) -> bool:
    """Whether no two areas use the same instance. Then a tuple never gets two messages for one instance."""
    used = [
        {instance for group in range(table.groups) for slot in slots[topology, group] for instance, _ in slot.targets}
        for topology in (region.topology for region in table.regions if isinstance(region.takes, Ranges))
    ]
    return len(set().union(*used)) == sum(map(len, used))


def _compile_ranges(
    table: RoutingTable,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`cuts`, `span` and `span_region` of `Compiled`: step 1 of A-DSP's Alg. 3, from a code to the areas that take
    it."""
    areas = [(n, region.takes) for n, region in enumerate(table.regions) if isinstance(region.takes, Ranges)]
    ends = {end for _, area in areas for side in (area.rows, area.columns) for end in (side.low, side.high)}
    cuts = sorted(end for end in ends if end is not None)
    span, regions = [0], []
    for side in range(table.groups if areas else 0):
        at: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
        for number, area in areas:
            codes = area.side(side)
            first = 0 if codes.low is None else bisect_right(cuts, codes.low)
            last = len(cuts) if codes.high is None else bisect_right(cuts, codes.high) - 1
            for elementary in range(first, last + 1):
                at[elementary].append(number)
        for numbers in at:
            regions += numbers
            span.append(len(regions))
    return np.array(cuts, np.int64), np.array(span, np.int64), np.array(regions, np.int64)


def _bounds(index: int, slots: tuple[Slot, ...]) -> list[int]:
    """Where each slot begins: index << 32 | u, `index` being that of (region, group). Integers, so that every machine
    agrees."""
    total = sum(slot.weight for slot in slots)
    begin, out = 0.0, []
    for slot in slots:
        out.append(index << 32 | min(int(begin / total * 2**32), 2**32 - 1))
        begin += slot.weight
    return out
