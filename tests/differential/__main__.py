"""Look for differences: python -m differential --first 0 --count 500 --engine spark"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from differential.conditions import draw
from differential.plain import plain
from differential.run import embedded_verdicts, groups, summary, verdicts
from differential.session import session
from differential.tables import Tables


def main() -> None:
    """Judge the cases of some seeds, and print those that differ."""
    parser = argparse.ArgumentParser(prog="differential")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--engine", choices=("spark", "embedded"), default="spark")
    asked = parser.parse_args()
    judged = verdicts if asked.engine == "spark" else embedded_verdicts
    drawn = draw if asked.engine == "spark" else plain
    cases = [drawn(seed) for seed in range(asked.first, asked.first + asked.count)]
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as spark:
        tables, began, found = Tables(spark, Path(folder)), time.monotonic(), []
        for group in groups(cases):
            for verdict in judged(tables, group):
                found.append(verdict)
                if verdict.outcome == "different" or (verdict.outcome == "refused" and asked.engine == "spark"):
                    print(verdict, flush=True)
        print(summary(found))
        print(f"{len(found)} cases in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
