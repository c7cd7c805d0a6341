"""``evenjoin report CHECKPOINT -o report.html``: the page of a join as one file. Its making is in page/report.py."""

from __future__ import annotations

from pathlib import Path

import click

from evenjoin.console import visible
from evenjoin.page.extra import require


@click.command()
@click.argument("checkpoint")
@click.option(
    "-o", "--out", default=Path("report.html"), type=click.Path(dir_okay=False, path_type=Path), show_default=True,
    help="The file to write.",
)  # fmt: skip
def report(checkpoint: str, out: Path) -> None:
    """Write what a join did as one HTML file: CHECKPOINT is its folder or URI.

    The file needs no server and no network, so it can be mailed or kept. It has the figures of `evenjoin ui`.
    """
    require("bokeh")
    from evenjoin.page.report import write_report

    click.echo(visible(write_report(checkpoint, out).resolve()))
