"""The embedded engine's answer to the same conditions, or why it refuses them.

It has columns, literals and comparisons, and no session: a time zone is an argument of the join. Whatever else a
condition needs must be refused, by name.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

import evenjoin
from differential.answers import Answer, Failed, Refused, first_line, pairs
from differential.conditions import Case
from differential.tables import SIDES, Tables
from evenjoin.errors import EvenJoinError, SpecError, UnboundedStateWarning


def answer(tables: Tables, case: Case) -> Answer:
    """What the embedded engine gives."""
    rows = {side: tables.arrow(case.flavour, side) for side in SIDES}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnboundedStateWarning)
            join = evenjoin.local(
                {side: table.schema for side, table in rows.items()}, case.on, event_time=case.event_time,
                select=["l.id AS a", "r.id AS b"], instances=2, time_zone=case.zone,
            )  # fmt: skip
    except SpecError as error:
        return Refused(first_line(error))
    with join:
        try:
            got = pa.concat_tables([join.process({"l": rows["l"]}), join.process({"r": rows["r"]})])
        except EvenJoinError as error:
            return Failed(first_line(error))
    return pairs(got["a"].to_pylist(), got["b"].to_pylist())


def reasons(refusals: Iterable[str]) -> Counter[str]:
    """Refusals by their kind: names, numbers and texts left out."""
    return Counter(re.sub(r"'[^']*'|`[^`]*`|[lr]\.\w+|\d+", "…", why)[:80] for why in refusals)
