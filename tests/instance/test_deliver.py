"""What an instance sends on depends on the tuples that it got, not on their order: a task that runs again sends the
same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.state.files import MemoryFolder

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


class Receipts(MemoryFolder):
    """A folder that remembers the sums in the names of all receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[tuple[str, str]] = []

    def write(self, name, data):
        if name.startswith("receipts/"):
            _, batch, _, file = name.split("/")
            self.sums.append((batch, file.rsplit("-", 1)[0]))
        super().write(name, data)


@pytest.mark.parametrize("pair_limit", [1, 2**17])
@pytest.mark.parametrize("strategy", ["trijoin", "trijoin(forward=t)", "trijoin(packing=paired)", "tree"])
def test_the_books_do_not_depend_on_the_order_of_rows(strategy, pair_limit):
    """Rows that tie in code and time come in another order: got, said and sent are the same at both hops, even if so
    many pairs are found that packs are made early. What was committed before is the same."""
    seen = []
    for order in (0, 1, 2):
        folder = Receipts()
        rng = np.random.default_rng(3)
        options = {"strategy": strategy, "instances": 3, "pair_limit": pair_limit, "checkpoint": folder}
        with evenjoin.local(dict.fromkeys("rst", SCHEMA), "r.a = s.a AND s.b = t.b", **options) as join:
            for number in range(2):
                batch = {}
                for name in "rst":
                    keys = rng.integers(0, 3, (2, 12))
                    table = pa.table([np.arange(12), keys[0], keys[1]], schema=SCHEMA)
                    batch[name] = table.take(pa.array(np.random.default_rng(order * number).permutation(12)))
                join.process(batch)
        seen.append(sorted(folder.sums))
    assert seen[0] == seen[1] == seen[2]
