"""The TPC-H joins of A-DSP and D-JB, on tables by ``tpchgen-cli`` whose join attribute follows zipf.

    E_Q5    (region, nation, supplier) with lineitem on suppkey: the expensive join of Q5               A-DSP 5.1
    Q3      orders of one market segment before a day, lineitems shipped after it, on orderkey          D-JB 5.1
    Q5      orders of one year by customers of a region, lineitems whose supplier is of the customer's
            nation, on orderkey                                                                         D-JB 5.1
    Band    lineitems by truck and above 48 pieces, and those without instructions, whose orderkeys
            are at most 1 apart                                                                         D-JB 5.1
    B_NCI   Band without its clause on the pieces: a small range, sides of like size                    A-DSP 5.1
    B_MR    the same lineitems within 2,600 days, which is all of them: each meets every one of the
            other side; and few results, for their prices must be near                                  A-DSP 5.1

The bands are self-joins (LINEITEM L1, LINEITEM L2): both sides have the same rows, batch by batch, so a row may match
itself, as it does in the papers' query.
Q5 has six tables. Those that are no streams (customer, supplier, nation, region) are joined to the two that are before
they are fed, orders and lineitem. The condition on the nations is written as a difference: orderkey alone is the join
attribute, which is skewed.

All join their whole history. The papers "adjust the data sets with different degrees of skew on the join attributes
under zipf", z = 1 by default, and do not say how: here every lineitem's suppkey or orderkey is drawn anew, key number r
(in a random order) with probability r^-z. Rows come in random order, each side's in equal batches.

Invariant: the same value gives the same batches, and every key drawn is one of the table it refers to.
Not here: the other operators of the queries (aggregates), and the third table of Q3 but for its filter.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenjoin.bench.join_workload import OWN, SEED, JoinWorkload, Size
from evenjoin.bench.workloads import draw, zipf_weights
from evenjoin.errors import EvenJoinError

LINEITEMS = 6_000_000
"""Lineitems of scale factor 1, about."""
BATCHES = 12
COLUMNS = {
    "lineitem": (
        "orderkey", "suppkey", "linenumber", "quantity", "extendedprice", "shipdate", "shipinstruct", "shipmode",
    ),
    "orders": ("orderkey", "custkey", "orderdate", "shippriority"),
    "customer": ("custkey", "mktsegment", "nationkey"),
    "supplier": ("suppkey", "nationkey"),
    "nation": ("nationkey", "name", "regionkey"),
    "region": ("regionkey", "name"),
}  # fmt: skip
TRUCKS = "a.shipmode = 'TRUCK' AND b.shipinstruct = 'NONE'"
NEAR = "b.orderkey BETWEEN a.orderkey - 1 AND a.orderkey + 1"  # the paper's abs(...) <= 1, for DuckDB's range join
DAYS = "INTERVAL 2600 DAYS"
PAIR = ("a.orderkey AS a_order", "a.linenumber AS a_line", "b.orderkey AS b_order", "b.linenumber AS b_line")


@dataclass(frozen=True, slots=True)
class Query:
    """A join: its tables, the lineitem's attribute that is skewed, what is asked, and V beside the usual size."""

    tables: tuple[str, str]
    skewed: str
    aliases: tuple[str, str]
    condition: str
    select: tuple[str, ...]
    rows: int  # lineitems a batch, usually
    capacity: int


QUERIES = {
    "E_Q5": Query(
        ("supplier", "lineitem"), "suppkey", ("s", "l"), "s.suppkey = l.suppkey",
        ("s.nation AS nation", "s.region AS region", "l.orderkey AS orderkey", "l.extendedprice AS price"),
        25_000, 30_000,
    ),
    "Q3": Query(
        ("orders", "lineitem"), "orderkey", ("o", "l"),
        "o.orderkey = l.orderkey AND o.mktsegment = 'BUILDING' AND o.orderdate < DATE '1995-03-15' "
        "AND l.shipdate > DATE '1995-03-15'",
        ("l.orderkey AS orderkey", "l.extendedprice AS price", "o.orderdate AS day"), 50_000, 50_000,
    ),
    "Q5": Query(
        ("orders", "lineitem"), "orderkey", ("o", "l"),
        "o.orderkey = l.orderkey AND abs(o.nationkey - l.nationkey) < 1 AND o.region = 'ASIA' "
        "AND o.orderdate >= DATE '1994-01-01' AND o.orderdate < DATE '1995-01-01'",
        ("o.nation AS nation", "l.orderkey AS orderkey", "l.extendedprice AS price"), 50_000, 50_000,
    ),
    "Band": Query(
        ("lineitem", "lineitem"), "orderkey", ("a", "b"), f"{NEAR} AND {TRUCKS} AND a.quantity > 48", PAIR,
        40_000, 20_000,
    ),
    "B_NCI": Query(("lineitem", "lineitem"), "orderkey", ("a", "b"), f"{NEAR} AND {TRUCKS}", PAIR, 30_000, 30_000),
    "B_MR": Query(
        ("lineitem", "lineitem"), "orderkey", ("a", "b"),
        f"b.shipdate BETWEEN a.shipdate - {DAYS} AND a.shipdate + {DAYS} AND {TRUCKS} "
        "AND abs(a.extendedprice - b.extendedprice) <= 0.5",
        PAIR, 10_000, 16_000,
    ),
}  # fmt: skip
NAMES = tuple(QUERIES)


@dataclass(frozen=True, slots=True)
class TpchStreams:
    """The two tables of a query, with `rows_per_batch` lineitems a batch."""

    query: str
    rows_per_batch: int
    batches: int
    z: float = 1.0
    seed: int = SEED

    @property
    def scale(self) -> float:
        """A scale factor with enough lineitems, in steps for which the tables are made only once."""
        return float(np.ceil(self.rows_per_batch * self.batches / LINEITEMS * 1.02 * 200) / 200)

    def side(self, number: int) -> Iterator[pa.Table]:
        tables = QUERIES[self.query].tables
        name, itself = tables[number], tables[0] == tables[1]
        rng = np.random.default_rng([self.seed, 0 if itself else number])
        table = self._table(name, rng)
        rows = self.rows_per_batch * self.batches if name == "lineitem" else table.num_rows
        table = table.take(rng.permutation(table.num_rows)[:rows])
        ends = np.linspace(0, rows, self.batches + 1).astype(int)
        return (table.slice(start, end - start) for start, end in pairwise(ends))

    def _table(self, name: str, rng: np.random.Generator) -> pa.Table:
        """A table with what the query asks of the tables that it refers to."""
        table = self._skewed(self._tpch(name), rng) if name == "lineitem" else self._tpch(name)
        if name == "lineitem":
            whose = self._tpch("supplier")
            return joined(table, whose, "suppkey", nationkey="nationkey") if self.query == "Q5" else table
        if self.query == "Q3":
            return joined(table, self._tpch("customer"), "custkey", mktsegment="mktsegment")
        if name == "orders":
            table = joined(table, self._tpch("customer"), "custkey", nationkey="nationkey")
        nation = joined(self._tpch("nation"), self._tpch("region"), "regionkey", region="name")
        return joined(table, nation, "nationkey", nation="name", region="region")

    def _tpch(self, name: str) -> pa.Table:
        return tpch_table(name, self.scale)

    def _skewed(self, lines: pa.Table, rng: np.random.Generator) -> pa.Table:
        """The lineitems with another suppkey or orderkey, whose frequencies are zipf's: the same for both sides."""
        column = QUERIES[self.query].skewed
        keys = tpch_table("supplier" if column == "suppkey" else "orders", self.scale)[column].to_numpy()
        by_rank = np.random.default_rng([self.seed, len(keys)]).permutation(keys)
        drawn = by_rank[draw(zipf_weights(len(keys), self.z), lines.num_rows, rng)]
        return lines.set_column(lines.column_names.index(column), column, pa.array(drawn))


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The TPC-H join of that name."""
    query = QUERIES[name]
    streams = TpchStreams(name, size.rows or query.rows, size.batches or BATCHES, seed=size.seed_or(SEED))
    return JoinWorkload(
        name, streams, query.aliases, query.condition, query.select, event_time=None, capacity=query.capacity
    )


def joined(table: pa.Table, other: pa.Table, key: str, **renamed: str) -> pa.Table:
    """A table with the columns of another that its `key` refers to; `renamed` are new names of some, else all."""
    wanted = renamed or {name: name for name in other.column_names if name != key}
    at = pc.index_in(table[key], other[key])
    for new, old in wanted.items():
        table = table.append_column(new, other[old].take(at))
    return table


@lru_cache(maxsize=16)
def tpch_table(name: str, scale: float) -> pa.Table:
    """The wanted columns of a table, by their names without prefix; decimals are doubles, quantities whole numbers."""
    command = Path(sys.executable).with_name("tpchgen-cli")
    found = str(command) if command.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise EvenJoinError("TPC-H workloads need tpchgen-cli: pip install 'evenjoin[bench]'")
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["parquet", "-s", str(scale), "-T", name, "-o", folder, "-q"]
        subprocess.run([found, *wanted], check=True, capture_output=True)
        columns = {f"{name[0]}_{column}": column for column in COLUMNS[name]}
        table = pq.read_table(Path(folder) / f"{name}.parquet", columns=list(columns), memory_map=False)
    return pa.table({columns[field.name]: _plain(table[field.name], field) for field in table.schema})


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    whole = column.combine_chunks()
    if field.name == "l_quantity":
        return whole.cast(pa.int64())
    if pa.types.is_decimal(field.type):
        return whole.cast(pa.float64())
    return whole.cast(pa.string()) if field.type == pa.string_view() else whole
