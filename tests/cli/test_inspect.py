"""``evenjoin inspect`` says what the checkpoint holds, and its exit codes are the documented ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.commit.history import RecordedJoin
from evenjoin.spec import build_spec

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ON = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"


def rows(keys: list[int], second: int) -> pa.Table:
    return pa.table([keys, [second * 1_000_000] * len(keys), keys], schema=SCHEMA)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Four batches: key 7 is hot, batch 3 brings one row that is far too late."""
    folder = tmp_path / "ck"
    sides = {"l": SCHEMA, "r": SCHEMA}
    with evenjoin.local(sides, ON, event_time="ts", watermark="0 seconds", instances=3, checkpoint=folder) as join:
        for second in range(10, 13):
            join.process({"l": rows([1, 2, 7, 7, 7], second), "r": rows([1, 3, 7], second)})
        join.process({"l": rows([5], 0), "r": rows([7], 13)})
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_it_shows_table_segments_history_and_late_counts(checkpoint: Path) -> None:
    """Every part a user asks for is on the page, and no key is."""
    result = run("inspect", checkpoint)
    assert result.exit_code == 0, result.output
    for text in ("auto", "3 instances", "Segments", "History", "late", "l 1, r 0", "1970-01-01T00:00:12"):
        assert text in result.output
    assert "Heaviest keys" not in result.output


def test_json_is_one_document_with_the_same_facts(checkpoint: Path) -> None:
    """--json parses, and its numbers are those of the run."""
    document = json.loads(run("inspect", checkpoint, "--json").stdout)
    assert document["batch"] == 3
    assert document["join"]["sides"] == ["l", "r"]
    assert document["totals"]["rows"] == [16, 10]
    assert document["totals"]["late"] == [1, 0]
    assert [line["batch"] for line in document["history"]] == [0, 1, 2, 3]
    assert sum(line["results"] for line in document["history"]) == document["totals"]["results"]
    assert sum(total["results"] for total in document["instances"]) == document["totals"]["results"]
    stored = sum(sum(total["stored"]) for total in document["instances"])
    assert sum(item["alive"] for item in document["segments"]) == stored > 0
    assert document["table"]["instances"] == 3
    assert "heaviest_keys" not in document


def test_history_can_be_cut_and_keys_shown(checkpoint: Path) -> None:
    """--batches shortens the history; --show-keys names the hot key first."""
    document = json.loads(run("inspect", checkpoint, "--json", "--batches", 2, "--show-keys").stdout)
    assert [line["batch"] for line in document["history"]] == [2, 3]
    assert document["heaviest_keys"][0]["name"] == "7"
    assert document["heaviest_keys"][0]["share"] == pytest.approx(13 / 26)
    assert "Heaviest keys" in run("inspect", checkpoint, "--show-keys").output


def test_a_restart_on_other_instances_shows_as_a_migration(checkpoint: Path) -> None:
    """What moved, from where to where, stays in the log."""
    sides = {"l": SCHEMA, "r": SCHEMA}
    with evenjoin.local(sides, ON, event_time="ts", watermark="0 seconds", instances=2, checkpoint=checkpoint) as join:
        join.process({"l": rows([1], 13)})
    document = json.loads(run("inspect", checkpoint, "--json").stdout)
    assert [event["batch"] for event in document["migrations"]] == [4]
    assert len(document["instances"]) == 2
    assert "->" in run("inspect", checkpoint).output


@pytest.fixture
def rebalanced(tmp_path: Path) -> Path:
    """FastJoin without guards: the hot keys share a unit at first, and one leaves it."""
    folder = tmp_path / "fast"
    rng = np.random.default_rng(7)
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, ON, event_time="ts", watermark="0 seconds", instances=3, checkpoint=folder,
        strategy="fastjoin", guards=evenjoin.Guards(cooldown=0, min_work=0),
    ) as join:  # fmt: skip
        for second in range(6):
            join.process({side: rows((rng.zipf(1.3, 400) % 50).tolist(), second) for side in "lr"})
    return folder


def test_every_rebalance_is_told_with_why_and_what_it_cost(rebalanced: Path) -> None:
    """--migrations: one line per rebalance with the figures of the log; --json has the same."""
    events = json.loads(run("inspect", rebalanced, "--json").stdout)["migrations"]
    assert events
    for event in events:
        assert event["why"] == "imbalance"
        assert event["imbalance_before"] > 2.2
        assert event["imbalance_forecast"] < event["imbalance_before"]
        assert event["tuples"] > 0
        assert {"bytes", "pause_ms", "planner_ms", "imbalance_after"} <= set(event)
    text = run("inspect", rebalanced, "--migrations").output
    table = text[text.index("Migrations") :]
    assert all(word in table for word in ("why", "forecast", "pause ms", "planner ms"))
    for event in events:
        assert f"{event['imbalance_before']:,.2f}" in table
        assert f"{event['tuples']:,}" in table


def test_a_change_that_was_asked_for_has_no_forecast_and_no_migration_says_so(checkpoint: Path) -> None:
    """Dashes for what nobody planned; a word where the table would be empty."""
    assert "None in the log" in run("inspect", checkpoint, "--migrations").output
    sides = {"l": SCHEMA, "r": SCHEMA}
    with evenjoin.local(sides, ON, event_time="ts", watermark="0 seconds", instances=2, checkpoint=checkpoint) as join:
        join.process({"l": rows([1], 13)})
    text = run("inspect", checkpoint, "--migrations").output
    assert re.search(r"4\s+asked for\s+-\s+-", text)


def test_verify_reads_every_segment(checkpoint: Path) -> None:
    """--verify passes on a sound checkpoint and says how many files it read."""
    document = json.loads(run("inspect", checkpoint, "--json", "--verify").stdout)
    assert document["verified_files"] == len(list((checkpoint / "segments").rglob("*.arrow")))


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_verify_finds_a_damaged_segment(checkpoint: Path, damage: str) -> None:
    """One flipped byte or a lost file is exit code 3 and the file's name."""
    segment = next((checkpoint / "segments").rglob("*.arrow"))
    if damage == "missing":
        segment.unlink()
    else:
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 1
        segment.write_bytes(data)
    result = run("inspect", checkpoint, "--verify")
    assert result.exit_code == 3
    assert segment.name in result.output


def test_a_damaged_commit_is_exit_code_3(checkpoint: Path) -> None:
    """No half history: the file at fault is named."""
    (checkpoint / "commits" / "1").write_text("00000000\n{}")
    result = run("inspect", checkpoint)
    assert result.exit_code == 3
    assert "commits/1" in result.output


@pytest.mark.parametrize("content", ["nothing", "other files", "no folder"])
def test_a_folder_that_is_no_checkpoint_is_exit_code_3(tmp_path: Path, content: str) -> None:
    """The message names the folder and what is missing."""
    folder = tmp_path / "data"
    if content != "no folder":
        folder.mkdir()
    if content == "other files":
        (folder / "part-0.parquet").write_bytes(b"PAR1")
    result = run("inspect", folder)
    assert result.exit_code == 3
    assert "not a checkpoint" in result.output
    assert not result.output.startswith("Traceback")


def test_a_checkpoint_without_commits_is_fine(tmp_path: Path) -> None:
    """A join that has been started and has seen nothing yet."""
    evenjoin.local({"l": SCHEMA, "r": SCHEMA}, ON, event_time="ts", watermark="0 s", checkpoint=tmp_path / "ck").close()
    result = run("inspect", tmp_path / "ck")
    assert result.exit_code == 0
    assert "No batch is committed yet" in result.output
    assert json.loads(run("inspect", tmp_path / "ck", "--json").stdout)["batch"] is None


@pytest.mark.parametrize(
    "arguments", [["inspect"], ["inspect", "x", "--batches", "0"], ["nonsense"], ["demo", "--scale", "0"]]
)
def test_usage_errors_are_exit_code_2(arguments: list[str]) -> None:
    """A wrong command line is told apart from a failed run, with a usage line."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.output


@pytest.mark.parametrize("window", [None, evenjoin.sliding("10 seconds", "5 seconds")], ids=["bounds", "window"])
def test_the_join_of_a_checkpoint_is_the_fingerprint_read_back(window: object) -> None:
    """Every fact that `join.json` has is a field, and the document says the same again."""
    on = ON if window is None else "l.k = r.k"
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, on, event_time="ts", watermark="0 seconds", window=window)
    recorded = {**spec.fingerprint(), "redact_keys": True}
    read = RecordedJoin.from_json(json.loads(json.dumps(recorded)))
    assert (read.sides, read.window, read.has_timestamps) == (("l", "r"), spec.window, True)
    assert json.loads(json.dumps(read.to_json())) == recorded
