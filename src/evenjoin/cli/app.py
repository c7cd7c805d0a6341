"""The group of verbs, and how an error becomes a message and an exit code.

    click's own errors      2    the command line is wrong
    CheckpointError         3    the folder is damaged, in use, or no checkpoint
    any other EvenJoinError 1    the run failed

A verb raises; it never prints an error or exits by itself.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from evenjoin.cli.compare import compare
from evenjoin.cli.demo import demo
from evenjoin.cli.inspect import inspect
from evenjoin.cli.metrics import metrics
from evenjoin.cli.repair import repair
from evenjoin.cli.report import report
from evenjoin.cli.simulate import simulate
from evenjoin.cli.ui import ui
from evenjoin.console import visible
from evenjoin.errors import CheckpointError, EvenJoinError

RUN_FAILED, CHECKPOINT_UNUSABLE = 1, 3
NEWLINE = "\n"
"""Errors have lines: a condition, and a caret under the place at fault."""


class Verbs(click.Group):
    """Turns the engine's errors into one line on standard error and the documented exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvenJoinError as error:
            click.echo(f"evenjoin: {visible(error, keep=NEWLINE)}", err=True)
            ctx.exit(CHECKPOINT_UNUSABLE if isinstance(error, CheckpointError) else RUN_FAILED)


def _version() -> str:
    try:
        return version("evenjoin")
    except PackageNotFoundError:  # run from a source tree that was never installed
        from evenjoin import __version__

        return __version__


EXIT_CODES = """\b
Exit codes:
  0  all went well
  1  the run failed
  2  the command line is wrong
  3  the folder is damaged or not a checkpoint
"""


@click.group(cls=Verbs, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="evenjoin")
def evenjoin() -> None:
    """Skew-aware stream joins for PySpark."""


evenjoin.add_command(compare)
evenjoin.add_command(demo)
evenjoin.add_command(inspect)
evenjoin.add_command(metrics)
evenjoin.add_command(repair)
evenjoin.add_command(report)
evenjoin.add_command(simulate)
evenjoin.add_command(ui)
