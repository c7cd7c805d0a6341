"""The hot loops by themselves, against what numpy offers for the same: ``python -m evenjoin.bench.kernels``.

    order     sorting a batch by (code, time): digit by digit, and np.argsort of the same integers
    address   finding the codes that probe in a stored run: by address, and by binary search; and what the address costs

Nanoseconds a tuple (order, and making the address) or a code that probes, one thread, the least of ROUNDS rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.table import Table

from evenjoin.console import open_console
from evenjoin.kernels.runs import Address, code_ranges, radix_order

ROUNDS = 7
SHARE = 8
"""An instance has one of so many keys, at random: so its codes are as far apart."""


def least_ns(work: Callable[[], object], items: int) -> float:
    """What the fastest of several rounds takes for each item."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        work()
        best = min(best, (time.perf_counter_ns() - began) / items)
    return best


def order_table(rng: np.random.Generator) -> Table:
    table = Table("rows", "bits", "digit by digit, ns", "argsort, ns", title="order")
    for rows in (3_000, 25_000, 100_000, 500_000):
        for bits in (16, 32, 44, 60):
            values = rng.integers(0, 2**bits, rows)
            ours, theirs = (
                least_ns(f, rows) for f in (partial(radix_order, values, bits), partial(np.argsort, values))
            )
            table.add_row(f"{rows:,}", str(bits), f"{ours:.0f}", f"{theirs:.0f}")
    return table


def address_table(rng: np.random.Generator) -> Table:
    table = Table(
        "keys", "stored", "codes that probe", "address, ns", "search, ns", "made, ns a tuple", title="address"
    )
    for keys, stored, probing in (
        (100_000, 25_000, 12_500), (100_000, 500_000, 50_000), (1_000_000, 125_000, 50_000),
        (1_000_000, 500_000, 50_000),
    ):  # fmt: skip
        mine = rng.permutation(keys)[: keys // SHARE]
        run, groups = np.sort(rng.choice(mine, stored)), np.unique(rng.choice(mine, probing))
        address = Address.of(run)
        times = (
            least_ns(partial(address.ranges, groups), len(groups)),
            least_ns(partial(code_ranges, run, groups), len(groups)),
            least_ns(partial(Address.of, run), stored),
        )
        table.add_row(f"{keys:,}", f"{stored:,}", f"{len(groups):,}", *(f"{each:.0f}" for each in times))
    return table


def main() -> None:
    rng, console = np.random.default_rng(7), open_console()
    console.print(order_table(rng))
    console.print(address_table(rng))


if __name__ == "__main__":
    main()
