"""The table of a restart that asks for another strategy, layout or size than the last commit was made for.

    the same strategy and layout, another size    buckets are handed over, keys stay (strategies/handover.py)
    the same, and `instances="auto"`              the size that there was, or the nearest within the limits
    another strategy or layout                    the strategy's initial table

    last commit (table, planned table, load) + settings  ->  the planned table on so many instances; None: begin anew

The table of the last batch and the one planned for the next may differ: a plan counts once it is committed, and so it
is the planned one that is handed over. The state however is still that of the last batch (`following`).

Guarantee: the same commit and settings give the same table, so a start that dies on its way is repeated by the next
one. Nothing is lost that can be kept: if the size is what it was, the planned table itself is the answer.
Not here: tables without buckets to hand over (grids, areas, cubes). Of another size they begin anew.
"""

from __future__ import annotations

from dataclasses import replace

from evenjoin.load.items import planning_items
from evenjoin.load.refined import comparable
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.table import RoutingTable, Succession
from evenjoin.strategies.base import Strategy
from evenjoin.strategies.handover import can_resize, measure_of, resized


def handed_over(
    strategy: Strategy, report: LoadReport | None, present: RoutingTable, planned: RoutingTable, initial: RoutingTable
) -> RoutingTable | None:
    """The planned table on as many instances as the strategy's initial one has, after a batch that ran under `present`.
    None if one of the two has nothing to hand over, or the program is another."""
    if planned.program != initial.program:
        return None
    if planned.instances == initial.instances:
        return planned
    if report is None or not (can_resize(planned, initial.instances) and can_resize(initial)):
        return None
    items = comparable(planning_items(report, present), present, planned).items
    made = resized(planned, initial.instances, items, measure_of(strategy))
    return check(following(made, planned, present))


def following(made: RoutingTable, planned: RoutingTable, present: RoutingTable) -> RoutingTable:
    """The table `made` of the planned one, as it follows the table that the state is placed by."""
    if planned.name == present.name or (made.follows is None and planned.follows is None):
        return made
    first = planned.follows.of if planned.follows is not None else tuple(range(planned.instances))
    then = made.follows.of if made.follows is not None else tuple(range(made.instances))
    of = tuple(first[i] if 0 <= i < len(first) else -1 for i in then)
    known = tuple(i if i < present.instances else -1 for i in of)
    return replace(made, follows=Succession(present.name, known))
