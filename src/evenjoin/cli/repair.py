"""``evenjoin repair CHECKPOINT --back``: go on from the commit before the last one.

Changes the checkpoint, but deletes nothing of the state; refused while a query runs on it. What it does is told in
commit/repair.py.
"""

from __future__ import annotations

import click

from evenjoin.commit.repair import take_back
from evenjoin.state.files import open_folder


@click.command()
@click.argument("checkpoint")
@click.option("--back", is_flag=True, required=True, help="Take the last commit back; its batch will be replayed.")
def repair(checkpoint: str, back: bool) -> None:
    """Take back the last commit of a checkpoint that is damaged: CHECKPOINT is its folder or URI.

    Files of the commit before it are kept for this, so one commit can be taken back. The next start of the query
    replays the batch; a sink that replaces batches (files, memory) then has it once.
    """
    done = take_back(open_folder(checkpoint))
    now = "nothing is committed any more" if done.last is None else f"the last committed batch is now {done.last}"
    click.echo(f"the last entry was taken back: {now}; the next start goes on with batch {done.batch}")
