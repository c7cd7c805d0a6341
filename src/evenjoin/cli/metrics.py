"""``evenjoin metrics CHECKPOINT``: what a join does now, as Prometheus reads it. The metrics are in page/metrics.py."""

from __future__ import annotations

import click

from evenjoin.page.extra import require
from evenjoin.page.follow import read_newest
from evenjoin.page.model import RECENT


@click.command()
@click.argument("checkpoint")
def metrics(checkpoint: str) -> None:
    """Print metrics in the text format of Prometheus: CHECKPOINT is the folder or URI of a join.

    For a cron job and node_exporter's textfile collector. `evenjoin ui` serves the same at /metrics.
    """
    require("prometheus_client")
    from evenjoin.page.metrics import exposition

    click.echo(exposition(read_newest(checkpoint, RECENT)), nl=False)
