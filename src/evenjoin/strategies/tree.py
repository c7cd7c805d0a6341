"""BiStream+Tree's placement: four groups of units, for the three sides and for the pairs of the first two.

    tree                      joins the two sides with the best edge first
    tree(last=t)              t is joined last
    tree(units=2:2:2:2)       units of the three sides and of the pairs; layout "split" only

The two joins are join-bicliques of their own: a tuple of the first two sides probes the units of the other one only, a
pair those of the third side. There is no planner. Not here: what units do with tuples (instance/tree.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenjoin.errors import SpecError
from evenjoin.instance.tree import third_of, tree
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.placement.topology import Meets
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Static, register
from evenjoin.strategies.trijoin import one_region, sized


@register("tree")
@dataclass(frozen=True, slots=True)
class Tree(Static):
    """See the top of this file. `program` and `meets` are filled in for a join."""

    last: str = ""
    units: str = ""
    program: str = ""
    meets: Meets = None

    @property
    def origin(self) -> str:
        told = ", ".join(f"{name}={value}" for name, value in (("last", self.last), ("units", self.units)) if value)
        return f"tree({told})" if told else "tree"

    def for_join(self, spec: JoinSpec) -> Tree:
        aliases = [side.alias for side in spec.sides]
        if self.last and self.last not in aliases:
            raise SpecError(f"{self.origin}: last must be one of the sides {', '.join(aliases)}")
        third = aliases.index(self.last) if self.last else third_of(spec)
        return replace(self, program=f"tree {third}", meets=tree(spec, str(third)).meets)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        if sides != 3:
            raise SpecError(f"tree joins three sides, not {sides}")
        units = sized("tree", self.units, instances, 4, layout)
        return one_region(self.origin, self.program or "tree", units, self.meets or ((0, 1), (2, 3)), instances, layout)
