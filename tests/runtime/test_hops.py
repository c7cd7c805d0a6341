"""A batch of a program with a hop, evaluated twice with its rows in another order: the books agree at both hops."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.runtime import local
from evenjoin.testing import brute_force, multiset
from spark_streams import DISORDER, TRIPLES, triples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

ON, SELECT = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) <= 1 AND r.v <> t.v", ["r.i AS a", "s.v AS b", "t.id AS c"]


@pytest.fixture
def _evaluated_twice(monkeypatch):
    """Every batch is dispatched and joined once more, with its rows in another order. Its results go nowhere."""
    execute, rng = local._Batch.execute, np.random.default_rng(1)

    def twice(self, work, watermark):
        sides, sink = self._sides, self._sink
        self._sides = [rows.take(pa.array(rng.permutation(rows.num_rows))) for rows in sides]
        self._sink = None
        execute(self, work, watermark)
        self._sides, self._sink = sides, sink
        execute(self, work, watermark)

    monkeypatch.setattr(local._Batch, "execute", twice)


@pytest.mark.usefixtures("_evaluated_twice")
@pytest.mark.parametrize("strategy", ["trijoin", "trijoin(packing=paired)", "tree"])
@pytest.mark.parametrize("pair_limit", [16, 1 << 17], ids=["packs made in several goes", "at once"])
def test_the_order_of_rows_does_not_matter(strategy, pair_limit, tmp_path):
    """Not even where `pair_limit` cuts the pairs of a hub into several packs: what is sent is counted by pairs."""
    whole = triples(tmp_path, batches=4, rows=40)
    with evenjoin.local(TRIPLES, on=ON, select=SELECT, strategy=strategy, pair_limit=pair_limit,
                        checkpoint=tmp_path / "ck") as join:  # fmt: skip
        found, sent = [], 0
        for batch in range(4):
            found.append(join.process({alias: table.slice(40 * batch, 40) for alias, table in whole.items()}))
            sent += join.progress().packs_sent
        assert sent > 100
        assert multiset(pa.concat_tables(found)) == brute_force(join._spec, whole)


@pytest.mark.parametrize("before", ["trijoin", "trijoin(packing=paired)", "tree"])
def test_a_restart_with_a_strategy_that_keeps_no_packs(before, tmp_path):
    """With a watermark, by which stores expire: those of packs are gone, and the rest of the answer is right."""
    whole, found = triples(tmp_path, rows=40), []
    on, options = f"{ON} AND s.ts BETWEEN r.ts - 2 AND r.ts + 2 AND t.ts BETWEEN s.ts - 2 AND s.ts + 1", {
        "event_time": "ts", "watermark": DISORDER, "select": SELECT, "checkpoint": tmp_path / "ck"}  # fmt: skip
    for batch, strategy in enumerate([before, "hypercube", "hypercube"]):
        with evenjoin.local(TRIPLES, on=on, strategy=strategy, instances=3, **options) as join:
            found.append(join.process({alias: table.slice(40 * batch, 40) for alias, table in whole.items()}))
            assert multiset(pa.concat_tables(found)) <= brute_force(join._spec, whole)
    assert multiset(pa.concat_tables(found)) == brute_force(join._spec, whole)
