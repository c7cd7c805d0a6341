"""Runs that lose a few tuples in a migration are masked, not rewritten: the copies left behind must stay dead."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable
from evenjoin.spec import build_spec
from evenjoin.testing import Fixed, brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b"]
HOME = Region(Buckets((0,)), Biclique(((0,), (0,))))
MOVED = Region(Keys((7,)), Biclique(((1,), (1,))))
SPLIT = Region(Keys((7,)), Biclique(((0, 1), (0, 1))))


def tables(*regions):
    """Successive versions on two instances; None is the table without a region for key 7."""
    return tuple(
        RoutingTable(n, 2, 2, 1, (HOME,) if region is None else (HOME, region), "drawn")
        for n, region in enumerate(regions)
    )


@pytest.mark.parametrize(
    "regions", [(None, MOVED, MOVED), (None, SPLIT, SPLIT), (None, SPLIT, None), (None, MOVED, None, SPLIT)]
)
def test_a_key_moves_out_of_a_large_run_and_back(regions):
    """Key 7 (a tenth of the tuples) is moved or split, and comes back: a mask is used, and no result comes twice."""
    batches = [
        {a: pa.table([range(n * 40, n * 40 + 40), [i % 10 for i in range(40)]], schema=SCHEMA) for a in "lr"}
        for n in range(len(regions))
    ]
    with evenjoin.local(SCHEMAS, "l.k = r.k", select=SELECT, strategy=Fixed(tables(*regions)), instances=2) as join:
        found, masks = Counter(), []
        for batch in batches:
            found += multiset(join.process(batch))
            masks += [run.mask for _, _, run in join._driver.last.manifest if run.mask is not None]
    whole = {a: pa.concat_tables(batch[a] for batch in batches) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, "l.k = r.k", select=SELECT), whole)
    assert masks
