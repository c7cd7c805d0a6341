"""The verdict of a batch in words: in progress, in the log and in `inspect`; and no key where it should not be."""

from __future__ import annotations

import json
import logging

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.events import tells_more
from evenjoin.load.cost import Cost
from evenjoin.runtime.watch import line
from evenjoin.strategies import Auto

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64())])
HOT = "customer 987\x1b654"
"""The name of the hot key; a terminal must not get its control character."""
SEEN = "customer 987\\x1b654"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Tuples are what takes time, so that a small stream is worth a rebalance."""
    counted = Cost(np.array([1e-3, 1.0, 1.0, 0.1]), 0.01)
    monkeypatch.setattr("evenjoin.strategies.auto.planner.NOTHING_SEEN", counted)
    monkeypatch.setattr("evenjoin.strategies.auto.planner.fit", lambda batches: counted)


def rows(number, side):
    """Side 0 is mostly the hot key from the third batch on."""
    keys = [f"c{key}" for key in np.random.default_rng([number, side]).integers(0, 200, 300)]
    if side == 0 and number >= 2:
        keys[:250] = [HOT] * 250
    keys[-9:] = [HOT] * 9
    return pa.table([keys, [5 * number] * 300], schema=SCHEMA)


def run(folder, **options):
    """Six batches; the verdict and the progress after each, and the rebalances."""
    told = []
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, "l.k = r.k AND r.t BETWEEN l.t - 9 AND l.t + 9", strategy=Auto(cores=4),
        instances=4, event_time="t", watermark=0, checkpoint=folder, **options,
    ) as join:  # fmt: skip
        for number in range(6):
            join.process({alias: rows(number, side) for side, alias in enumerate("lr")})
            told.append((join._driver.last.verdict, join.progress()))
        return told, join.migrations()


def inspected(folder, *arguments):
    result = CliRunner().invoke(command, ["inspect", str(folder), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_progress_has_the_sentence_and_so_has_the_line_of_a_long_query(tmp_path):
    """Word for word; in the line every character can be seen."""
    told, made = run(tmp_path)
    assert [progress.verdict for _, progress in told] == [verdict.sentence for verdict, _ in told]
    called = next(n for n, (verdict, _) in enumerate(told) if verdict.calls_for_rebalance and verdict.key)
    assert told[called][0].key == HOT
    assert told[called][1].to_json()["verdict"].startswith(f"key {HOT} is ")
    shown = line(told[called][1])
    assert shown.isprintable()
    assert f"key {SEEN} is " in shown
    assert [event.sentence for event in made] == [v.sentence for v, _ in told if v.calls_for_rebalance]


def test_the_log_tells_each_rebalance_and_each_new_sentence(tmp_path, caplog):
    """One line a change of the sentence, not a line a batch."""
    with caplog.at_level(logging.INFO, "evenjoin"):
        told, made = run(tmp_path)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("batch ")]
    assert lines[0] == f"batch 0: {told[0][0].sentence}"
    assert made
    for event in made:
        assert f"batch {event.batch - 1}: {event.sentence.replace(HOT, SEEN)}" in lines
    news = [n for n in range(6) if tells_more(told[n][0], told[n - 1][0] if n else None)]
    assert [int(line.split()[1].rstrip(":")) for line in lines] == news


@pytest.mark.parametrize("keys", ["shown", "not shown"])
def test_inspect_tells_the_last_verdict_and_why_each_rebalance_was_made(keys, tmp_path):
    """As text and as JSON. Keys are named on request only."""
    told, made = run(tmp_path)
    more = ["--show-keys"] if keys == "shown" else []
    text = " ".join(inspected(tmp_path, *more).split())
    document = json.loads(inspected(tmp_path, "--json", *more))
    name = HOT if keys == "shown" else "…"
    assert told[-1][0].sentence in text
    assert f"key {SEEN if keys == 'shown' else name} is " in text
    assert document["verdict"]["verdict"] == told[-1][0].sentence
    assert [entry["verdict"] for entry in document["history"]] == [
        verdict.sentence.replace(HOT, name) for verdict, _ in told
    ]
    assert [event["verdict"] for event in document["migrations"]] == [
        event.sentence.replace(HOT, name) for event in made
    ]
    assert keys == "shown" or "customer 987" not in text + json.dumps(document)


def test_a_redacted_key_is_told_by_its_salted_code_only(tmp_path, caplog):
    """In progress, the log, `inspect`, and every file of the checkpoint but the segments."""
    with caplog.at_level(logging.INFO, "evenjoin"):
        told, made = run(tmp_path, redact_keys=True)
    assert any(event.sentence.startswith("key key-") for event in made)
    every = [caplog.text, repr(told), repr(made), inspected(tmp_path, "--show-keys")]
    every.append(inspected(tmp_path, "--show-keys", "--json"))
    for path in tmp_path.rglob("*"):
        if path.is_file() and "segments" not in path.relative_to(tmp_path).parts:
            every.append(path.read_bytes().decode(errors="replace"))
    assert not [text for text in every if "customer 987" in text]
