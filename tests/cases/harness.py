"""The join cases of cases/public.json as runs: input steps, options of the join, what each step must give.

A case that this engine cannot run yet is not left out: `reason_to_wait` names what it waits for, and the tests show
it as skipped with that reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import evenjoin

CASES = json.loads((Path(__file__).parent / "public.json").read_text())

CONDITIONS = {"pathway.band.forget_after_2_keep_results": "l.t = r.t"}
"""Where a case's condition is prose, the SQL it means."""

EAGER = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
"""Guards that let every plan through: a scheme changes whenever its strategy wants to."""
SIDES = {"l": "left", "r": "right", "t": "third"}
"""By alias the name of a side's rows in a case. Not every case has a third side."""
SIZED = ("square(task_capacity=6, most=64)", "adsp(task_capacity=6, most=64)", "dynamic(task_capacity=6, most=16)")
"""Strategies for conditions without an equality that have a planner, with tasks so small that it plans."""


@dataclass
class Step:
    rows: dict[str, pa.Table]
    new: Counter | None = None
    restart: bool = False
    rescale: bool = False
    stored: int | None = None


@dataclass
class Run:
    on: str
    select: list[str]
    options: dict[str, Any]
    steps: list[Step]
    expected: Counter
    schemas: dict[str, pa.Schema] = field(default_factory=dict)


def reason_to_wait(case: dict[str, Any]) -> str | None:
    """Why a case is not run by the engine of inner joins, or None."""
    if case.get("third") and case["how"] != "inner":
        return f"outer joins of three sides ({', '.join(case['how'])}), which are not there yet"
    if case["how"] != "inner":
        return f"an outer, semi or anti join ({case['how']})"
    window = case["window"]
    if window and window["type"] == "session":
        return "a session window"
    return None


def has_equality(case: dict[str, Any]) -> bool:
    """Whether only equal keys (or equal windows) can match: else one region must take all tuples."""
    return bool(case["window"]) or bool(re.search(r"<=>|(?<![<>!])=", str(case["condition"])))


def strategies(case: dict[str, Any]) -> list[str | None]:
    """Under what a case runs; one without an equality under those whose tables keep every pair together. Of three sides
    one without an equality or range of its own is joined by those strategies that need none."""
    if case.get("third"):
        drives = "t.la = l.la + r.la" not in case["condition"]
        return [None, "hypercube", "tree", *(["hash", "trijoin", "trijoin(packing=paired)"] if drives else [])]
    if has_equality(case):
        return ["hash", "random", "contrand(groups=2)"]
    return [None, "random", "contrand(groups=1)", *SIZED]


def read_case(case: dict[str, Any]) -> Run:
    """The case as a run."""
    case = _written_out(case)
    schemas = {alias: _schema(case, side) for alias, side in SIDES.items() if case.get(side) is not None}
    select = [f"{_expression(s)} AS c{i}" for i, s in enumerate(case["select"])]
    run = Run(
        CONDITIONS.get(case["name"], case["condition"]), select, _options(case), [], rows(case["expected"]), schemas
    )
    for step in _steps(case):
        tables = {a: pa.Table.from_pylist(step.get(SIDES[a]) or [], schemas[a]) for a in schemas}
        new = rows(step["expect_new"]) if "expect_new" in step else None
        run.steps.append(
            Step(
                tables,
                new,
                step.get("restart_before", False),
                "repartition_state_before" in step,
                step.get("state_rows_total"),
            )
        )
    return run


def _written_out(case: dict[str, Any]) -> dict[str, Any]:
    """Generated rows as rows; a count(*) as that many rows."""
    if "left_gen" in case:
        made = case["left_gen"]
        case = case | {"left": [{made["col"]: n} for n in range(made["from"], made["to"] + 1)]}
    if case["select"] == ["count(*)"]:
        case = case | {"select": ["1"], "expected": [[1]] * case["expected"][0][0]}
    return case


def rows(values: list[list[Any]]) -> Counter:
    return Counter(tuple(row) for row in values)


def _schema(case: dict[str, Any], side: str) -> pa.Schema:
    kinds: dict[str, pa.DataType] = {}
    for row in case[side]:
        for name, value in row.items():
            if value is not None or name not in kinds:
                kinds[name] = pa.array([value]).type if value is not None else kinds.get(name, pa.int64())
    return pa.schema(list(kinds.items()))


def _expression(text: str) -> str:
    return {"w.end": "window.end", "w.start": "window.start", "l.wstart": "window.start"}.get(text, text)


def _options(case: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    window = case["window"]
    if window:
        options["event_time"] = {t.split(".")[0]: t.split(".")[1] for t in window["time"]}
        size = window["size"]
        options["window"] = (
            evenjoin.tumbling(size) if window["type"] == "tumbling" else evenjoin.sliding(size, window["slide"])
        )
    elif "l.t" in case["condition"] and "r.t" in case["condition"] and _whole_times(case):
        options["event_time"] = "t"
    if case.get("watermark"):
        options["watermark"] = {{"left": "l", "right": "r"}[side]: delay for side, delay in case["watermark"].items()}
    if case.get("grace") is not None:  # Kafka's stream time is the greatest of all, not the least of the sides
        options |= {"watermark": case["grace"], "watermark_policy": "max"}
    if case.get("cutoff") is not None:
        options["watermark"] = case["cutoff"]
    if "arrival" in case and "WM(" in case["arrival"]:
        options["watermark"] = 0
    return options


def _whole_times(case: dict[str, Any]) -> bool:
    return not any(isinstance(row.get("t"), float) for side in ("left", "right") for row in case[side])


def _steps(case: dict[str, Any]) -> list[dict[str, Any]]:
    if case.get("steps"):
        return case["steps"]
    if "arrival" in case:
        return _arrival(case)
    if case.get("late_dropped") or case.get("cutoff") is not None:  # the watermark moves row by row
        pairs = range(max(len(case["left"]), len(case["right"])))
        steps = [{"left": case["left"][i : i + 1], "right": case["right"][i : i + 1]} for i in pairs]
        restore = case.get("restore_after")
        if restore:
            steps[restore["left"]]["restart_before"] = True
        return steps
    return [{side: case[side] for side in SIDES.values() if side in case}]


def _arrival(case: dict[str, Any]) -> list[dict[str, Any]]:
    """One step per row, in the order of arrival: L1 R1 ... takes the next row of that side."""
    left, right, steps = iter(case["left"]), iter(case["right"]), []
    for token in re.findall(r"\b([LR])[\d(]", case["arrival"]):
        steps.append({"left": [next(left)]} if token == "L" else {"right": [next(right)]})
    return steps
