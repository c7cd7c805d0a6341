"""``evenjoin inspect CHECKPOINT``: the table, the segments, the load history and the late counts of a checkpoint.

Reads only; safe beside a running query. Keys can be private, so they are shown on request (``--show-keys``): without
it verdicts say "key …". The table in the JSON document has the codes of keys, which for integers are the keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any

import click
from rich.table import Table

from evenjoin.cli.draw import bar, instances_table, keys_table, migrations_table, plain_table, size
from evenjoin.commit.history import (
    History,
    batch_line,
    heaviest,
    holdings,
    instance_totals,
    pack_totals,
    read_history,
    traffic,
    verify_segments,
)
from evenjoin.console import cell, open_console
from evenjoin.events import Migration
from evenjoin.placement.table import Keys


@click.command()
@click.argument("checkpoint")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.option("--batches", default=20, type=click.IntRange(1), show_default=True, help="Length of the load history.")
@click.option("--show-keys", is_flag=True, help="Name the heaviest keys; they may be private.")
@click.option("--migrations", "show_migrations", is_flag=True, help="Every rebalance: why, what moved, what it cost.")
@click.option("--verify", is_flag=True, help="Read every segment and check its size and checksum.")
def inspect(
    checkpoint: str, as_json: bool, batches: int, show_keys: bool, show_migrations: bool, verify: bool
) -> None:  # fmt: skip
    """Show what the checkpoint of a join holds: CHECKPOINT is its folder or URI.

    The JSON document always has the migrations.
    """
    history = read_history(checkpoint) if show_keys else read_history(checkpoint).without_keys()
    verified = verify_segments(checkpoint, history) if verify else None
    if as_json:
        click.echo(json.dumps(as_document(checkpoint, history, batches, show_keys, verified), indent=2))
        return
    console = open_console()
    console.print(summary(history), highlight=False)
    if history.last is None:
        console.print("No batch is committed yet.")
        return
    console.print("\n[bold]Load[/]", instances_table(instance_totals(history.reports)), sep="\n")
    if history.pack_names:
        console.print("\n[bold]Packs[/] (intermediate results)", packs_table(history), sep="\n")
    console.print("\n[bold]Segments[/]", segments_table(history), sep="\n")
    console.print(f"\n[bold]History[/] (last {batches} batches)", history_table(history, batches), sep="\n")
    if show_migrations:
        console.print(
            "\n[bold]Migrations[/] (imbalance before, forecast and after)", migrations_part(history), sep="\n"
        )
    for event in history.migrations:
        console.print(cell(_told(event)))
    if show_keys:
        keys = heaviest(history.reports, 10)
        table = keys_table("key", history.aliases, keys, [key.name for key in keys])
        console.print("\n[bold]Heaviest keys[/]", table, sep="\n")
    if verified is not None:
        console.print(f"\n{verified} segment files verified")


def evaluated(what: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What Spark evaluates of a join, as name and text. A filter and an output send results through Spark's JVM."""
    for alias, text in what.get("filtered", {}).items():
        yield "Spark filters", f"{alias} by {text}, before the join"
    for alias, columns in what.get("computed", {}).items():
        for name, text in columns.items():
            yield "Spark computes", f"{alias}.{name} = {text}"
    if what.get("filter"):
        yield "Spark filters", f"the results by {what['filter']}"
    if what.get("output"):
        yield "Spark emits", ", ".join(text if text == name else f"{text} AS {name}" for text, name in what["output"])


def summary(history: History) -> Table:
    """The join, its table, and the totals, as name and value."""
    rows = Table.grid(padding=(0, 2))
    rows.add_row("[bold]join[/]", cell(f"{history.join.how}, {history.join.condition}"))
    for name, text in evaluated(history.join.evaluated):
        rows.add_row(f"[bold]{name}[/]", cell(text))
    if history.last is None or history.table is None:
        return rows
    table, totals = history.table, history.last.totals
    keys = sum(len(region.takes.codes) for region in table.regions if isinstance(region.takes, Keys))
    rows.add_row(
        "[bold]table[/]",
        cell(
            f"version {table.version}, {table.origin}, {table.instances} instances, "
            f"{table.buckets} buckets, {len(table.regions)} regions, {keys} keys of their own"
        ),
    )
    rows.add_row("[bold]batches[/]", f"last {history.last.batch}, {len(history.commits)} in the log")
    rows.add_row("[bold]watermark[/]", str(watermark(history) or "none yet"))
    rows.add_row("[bold]rows[/]", cell(_by_side(history.aliases, totals.rows)))
    rows.add_row("[bold]late[/]", cell(_by_side(history.aliases, totals.late)))
    rows.add_row("[bold]unmatchable[/]", cell(_by_side(history.aliases, totals.unmatchable)))
    rows.add_row("[bold]ahead[/]", cell(_by_side(history.aliases, totals.ahead)))
    rows.add_row("[bold]sent[/]", cell(sent(history)))
    rows.add_row("[bold]results[/]", f"{totals.results:,}")
    if history.last.verdict is not None:
        rows.add_row("[bold]verdict[/]", cell(history.last.verdict.sentence))
    return rows


def sent(history: History) -> str:
    """Messages and bytes for each row read, by side."""
    parts = []
    for alias, side in zip(history.aliases, traffic(history.reports), strict=True):
        rows = max(side.rows, 1)
        parts.append(f"{alias} {side.messages / rows:.1f} messages, {side.bytes / rows:.0f} bytes a row")
    return "; ".join(parts)


def packs_table(history: History) -> Table:
    """What was made, sent and kept of each store of packs, and how many were compared."""
    table = plain_table("packs", "made", "pairs", "sent", "bytes sent", "alive", "pairs alive")
    for pack in pack_totals(history.reports):
        counts = [f"{count:,}" for count in (pack.made, pack.pairs, pack.sent)]
        table.add_row(
            cell(pack.name), *counts, size(pack.sent_bytes), f"{pack.alive:,}", f"{pack.alive_pairs:,}"
        )  # fmt: skip
    loads = [load for report in history.reports for load in report.instances]
    hubs, members = sum(load.hubs for load in loads), sum(load.members for load in loads)
    waited = max((load.waited_ms for load in loads), default=0.0)
    table.caption = f"{hubs:,} hubs and {members:,} members compared; the second hop waited {waited:,.0f} ms at most"
    return table


def segments_table(history: History) -> Table:
    """Runs, files and tuples per instance and side."""
    table = plain_table("instance", "side", "runs", "files", "tuples", "alive", "bytes")
    for held in holdings(history):
        counts = [f"{count:,}" for count in (held.runs, held.files, held.tuples, held.alive)]
        table.add_row(str(held.instance), cell(held.side), *counts, size(held.bytes))
    return table


def history_table(history: History, batches: int) -> Table:
    """One line per batch, the latest last."""
    lines = [batch_line(commit) for commit in history.commits[-batches:]]
    table = plain_table("batch", "rows", "late", "results", "stored", "imbalance", "ms", "")
    table.columns[-1].justify = "left"
    top = max((line.duration_ms for line in lines), default=0.0)
    for line in lines:
        counts = [f"{count:,}" for count in (sum(line.rows), sum(line.late), line.results, sum(line.stored))]
        shape = [f"{line.imbalance:.2f}", f"{line.duration_ms:,.0f}", f"[cyan]{bar(line.duration_ms, top, 14)}[/]"]
        table.add_row(str(line.batch), *counts, *shape)
    return table


def _told(event: Migration) -> str:
    """A migration as a line: what moved and, if a planner called for it, why."""
    why = f" ({event.sentence})" if event.sentence else ""
    return f"batch {event.batch}: {event.source} -> {event.target}, {event.tuples:,} tuples moved{why}"


def migrations_part(history: History) -> Table | str:
    """The table of all rebalances, or that there are none."""
    return migrations_table(history.migrations) if history.migrations else "None in the log."


def as_document(location: str, history: History, batches: int, show_keys: bool, verified: int | None) -> dict[str, Any]:
    """The same as one JSON document; sides are in the order of ``join.sides``."""
    last = history.last
    document: dict[str, Any] = {
        "checkpoint": location,
        "join": history.join.to_json(),
        "table": None if history.table is None else history.table.to_json(),
        "batch": None if last is None else last.batch,
        "watermark": watermark(history),
        "verdict": last.verdict.to_json() if last and last.verdict else None,
        "totals": last.totals.to_json() if last else {},
        "instances": [asdict(total) for total in instance_totals(history.reports)],
        "segments": [asdict(held) for held in holdings(history)],
        "sent": [asdict(side) for side in traffic(history.reports)],
        "packs": [pack.to_json() for pack in pack_totals(history.reports)],
        "compared": {
            name: sum(getattr(load, name) for report in history.reports for load in report.instances)
            for name in ("hubs", "members")
        },
        "history": [asdict(batch_line(commit)) for commit in history.commits[-batches:]],
        "migrations": [event.to_json() for event in history.migrations],
    }
    if show_keys:
        document["heaviest_keys"] = [asdict(key) for key in heaviest(history.reports, 10)]
    if verified is not None:
        document["verified_files"] = verified
    return document


def watermark(history: History) -> str | int | None:
    """The watermark of the next batch: a time in UTC, or the number itself for integer event times."""
    value = history.last.watermark.value if history.last else None
    if value is None or not history.join.has_timestamps:
        return value
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=value)).isoformat()


def _by_side(aliases: Sequence[str], counts: Sequence[int]) -> str:
    return ", ".join(f"{alias} {count:,}" for alias, count in zip(aliases, counts, strict=True))
