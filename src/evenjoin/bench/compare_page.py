"""The files of a comparison: compare.json, a picture for each plot, and compare.html, which holds all of it.

    tables and pictures of all runs          what only a comparison has
    a board for each run of ours             the panels of `evenjoin report` (page/), read from the run's own commits

Guarantee: the page is one file that loads nothing. Names and conditions stand in it through `html` only.
Not here: the tables themselves (compare_report.py) and the pictures (compare_plots.py).
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from evenjoin.bench.compare import Comparison
from evenjoin.bench.compare_plots import plots
from evenjoin.bench.compare_report import (
    MIGRATION_COLUMNS,
    SENT_COLUMNS,
    SETTLED,
    agreement,
    as_document,
    main_table,
    measure_columns,
    measure_rows,
    migration_rows,
    order_of_tasks,
    sent_rows,
)
from evenjoin.bench.report import machine
from evenjoin.console import html
from evenjoin.page.frame import Frame
from evenjoin.page.report import render

MEASURES = """<p>Imbalance: 1.0 is even by busy time; "own" is the strategy's own measure, against its threshold.</p>
<h2>Imbalance by each planner's own measure</h2>
<p>Mean (last batch) of every run, and the share of the batches after the first {settled} that were within the
threshold; red is above it after the last batch.</p>
{table}"""


def save(comparison: Comparison, folder: Path) -> list[Path]:
    """Write compare.json, the plots and compare.html; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "compare.json"  # first: it is what took the time, whatever becomes of the pictures
    record.write_text(json.dumps(as_document(comparison), indent=2, allow_nan=False) + "\n")
    pictures = plots(comparison)
    for name, data in pictures.items():
        (folder / f"{name}.png").write_bytes(data)
    whole = folder / "compare.html"
    whole.write_text(page(comparison, pictures), encoding="utf-8")
    return [record, *(folder / f"{name}.png" for name in pictures), whole]


def page(comparison: Comparison, pictures: Mapping[str, bytes]) -> str:
    """The whole comparison as one HTML page: what all runs have in common, then a board for each of ours."""
    workload = comparison.workload
    watermark = f", watermark {workload.watermark}" if workload.watermark else ", the whole history"
    where = ", ".join(f"{name} {value}" for name, value in machine().items())
    frame = Frame(
        f"evenjoin compare {workload.name}", workload.condition + watermark, told(comparison, pictures), where
    )
    return render([(run.name, run.past) for run in comparison.runs if run.past is not None], frame, time.time())


def told(comparison: Comparison, pictures: Mapping[str, bytes]) -> str:
    """The tables and pictures of all runs, as HTML."""
    workload, moved = comparison.workload, migration_rows(comparison)
    size = f"tasks of {workload.capacity:,} tuples" if comparison.sized else f"{comparison.instances} instances"
    images = "\n".join(
        f'<img alt="{html(name)}" src="data:image/png;base64,{b64encode(data).decode()}">'
        for name, data in pictures.items()
    )
    return f"""<p>{workload.batches} batches, {comparison.oracle.rows:,} rows, {size}.
{html(repr(workload.streams))}</p>
<p class="{"right" if comparison.counts_agree else "wrong"}">{html(agreement(comparison))}</p>
{_table(*main_table(comparison))}
{_table(SENT_COLUMNS, sent_rows(comparison)) if workload.steps else ""}
{_measures(comparison)}
<h2>Over time and per instance</h2>
{images}
<h2>Migrations</h2>
{_table(MIGRATION_COLUMNS, moved) if moved else "<p>None.</p>"}"""


def _measures(comparison: Comparison) -> str:
    """Each run by each planner's measure; where strategies size themselves, who takes more tasks."""
    if comparison.sized:
        return f"<p>{html(order_of_tasks(comparison))}</p>"
    within, over = '<span class="within">{}</span>', '<span class="over">{}</span>'
    rows = measure_rows(comparison, within, over, html)
    return MEASURES.format(settled=SETTLED, table=_table(measure_columns(comparison), rows, "markup"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], text: Literal["plain", "markup"] = "plain") -> str:
    """A table for the page; cells of `markup` are HTML already."""
    clean: Callable[[str], str] = html if text == "plain" else str
    head = "".join(f"<th>{html(column)}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{clean(item)}</td>" for item in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"
