"""The command line of the campaign; see `python -m chaos --help`. It ends with 1 if there was a finding."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from chaos.campaign import embedded
from chaos.draw import FEATURES
from chaos.embedded import run
from chaos.report import Report, describe, load


def main() -> int:
    given = _arguments().parse_args()
    if given.replay is not None:
        return replay(given.replay)
    report, began = Report(), time.monotonic()
    if given.what == "damage":
        from chaos.damages import damages

        damages(report, given.seed, given.count, given.spark)
    else:
        spark_minutes = given.minutes / 2 if given.spark_minutes is None else given.spark_minutes
        if given.chains is None:
            seconds = (given.minutes - spark_minutes) * 60
            embedded(report, given.seed, seconds, given.runs, frozenset(given.without), given.sides)
        if given.chains is not None or (given.runs is None and spark_minutes > 0):
            from chaos.chains import chains

            chains(report, given.seed, spark_minutes * 60, given.chains, frozenset(given.without), given.sides)
    report.show()
    print(f"\n{time.monotonic() - began:.0f} s; seed {given.seed}")
    return 1 if report.found else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Joins killed and damaged at random.")
    parser.add_argument("what", nargs="?", choices=["run", "damage"], default="run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0, help="for both engines together")
    parser.add_argument("--spark-minutes", type=float, help="of these for Spark; absent: half of them")
    parser.add_argument("--runs", type=int, help="so many embedded runs instead of minutes, and none on Spark")
    parser.add_argument("--chains", type=int, help="so many chains on Spark instead of minutes, and no embedded runs")
    parser.add_argument(
        "--without", type=lambda text: text.split(","), default=[], help=f"events: {', '.join(FEATURES)}"
    )
    parser.add_argument("--sides", type=int, choices=[2, 3], help="only joins of so many sides")
    parser.add_argument("--replay", type=Path, help="run one saved case again")
    parser.add_argument("--count", type=int, default=1000, help="damage: how many, on both engines together")
    parser.add_argument("--spark", type=int, help="damage: of these so many on Spark; absent: a tenth")
    return parser


def replay(path: Path) -> int:
    case = load(path)
    print(describe(case))
    finding = run(case)
    print(f"{finding.kind}: {finding.text}" if finding else "right")
    return 1 if finding else 0


if __name__ == "__main__":
    sys.exit(main())
