"""Look for differences: python -m differential --first 0 --count 500"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from differential.conditions import draw
from differential.run import groups, summary, verdicts
from differential.session import session
from differential.tables import Tables


def main() -> None:
    """Judge the cases of some seeds, and print those that differ."""
    parser = argparse.ArgumentParser(prog="differential")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    asked = parser.parse_args()
    cases = [draw(seed) for seed in range(asked.first, asked.first + asked.count)]
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as spark:
        tables, began, found = Tables(spark, Path(folder)), time.monotonic(), []
        for group in groups(cases):
            for verdict in verdicts(tables, group):
                found.append(verdict)
                if verdict.outcome in ("different", "refused"):
                    print(verdict, flush=True)
        print(summary(found))
        print(f"{len(found)} cases in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
