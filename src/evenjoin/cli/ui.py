"""``evenjoin ui CHECKPOINT``: the live page of a join, beside its query or after it. Serving is in page/server.py."""

from __future__ import annotations

import os
import secrets

import click

from evenjoin.console import markup, open_console
from evenjoin.page.extra import require


@click.command()
@click.argument("checkpoint")
@click.option("--port", default=5007, type=click.IntRange(0, 65535), show_default=True, help="0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--token", help="What readers must give; 'new' makes one. Also read from EVENJOIN_TOKEN, which others cannot list."
)
@click.option("--name", "names", multiple=True, help="A name by which browsers call this machine; may be repeated.")
def ui(checkpoint: str, port: int, host: str, token: str | None, names: tuple[str, ...]) -> None:
    """Serve a live page that shows what a join does: CHECKPOINT is its folder or URI.

    It reads commits only, so it neither disturbs the query nor needs it to run. Without a token it listens on this
    machine only. /metrics of the same address is for Prometheus.
    """
    require("bokeh", "prometheus_client")
    from evenjoin.page.server import Address, serve

    given = token if token is not None else os.environ.get("EVENJOIN_TOKEN", "")
    secret = secrets.token_urlsafe(24) if given == "new" else given
    console = open_console()

    def opened(url: str) -> None:
        console.print(f"[bold]EvenJoin's page:[/] {markup(url)}", soft_wrap=True, highlight=False)
        console.print("Ctrl-C ends it.")

    serve(checkpoint, Address(host, port, secret, names), opened)
