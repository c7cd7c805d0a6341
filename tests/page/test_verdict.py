"""What the page says of a join, by made-up batches: the worst thing gives the word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenjoin.events import Totals
from evenjoin.page import cards
from evenjoin.page.concerns import concerns, stood
from evenjoin.page.follow import Past, read_whole
from evenjoin.page.moments import Moment
from evenjoin.page.verdict import verdict
from page.crafted import BEGIN, checkpoint


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return read_whole(checkpoint(tmp_path_factory.mktemp("verdict") / "ck"))


Batch = dict[str, object]


def batches(many: int = 30, **changes: object) -> list[Batch]:
    """Even batches of two sides, 1000 rows of each, 500 results; a second of event time each."""
    return [{"rows": (1000, 1000), "late": 0, "results": 500, "busy": (20, 20, 20, 20), "latest": 1, **changes}] * many


def made(past: Past, told: list[Batch], **changes: object) -> Past:
    """A past of these batches, a second each, ending at 1000 s."""
    moments: list[Moment] = []
    rows, late, results, latest = np.zeros(2, int), 0, 0, np.zeros(2)
    for number, batch in enumerate(told):
        rows, late, results = rows + batch["rows"], late + batch["late"], results + batch["results"]
        latest = latest + batch["latest"]
        times = tuple(BEGIN + int(second * 1e6) for second in latest)
        busy = np.array(batch["busy"], np.float32)
        old = past.moments[-1]
        moments.append(
            replace(
                old, batch=number, ended=1000.0 - len(told) + number + 1, busy=busy, migration=None,
                busy_ratio=float(busy.max() / busy.mean()), results=batch["results"], duration_ms=500.0,
                watermark=replace(old.watermark, value=min(times), latest=times),
                sides=tuple(replace(side, rows=n, late=batch["late"] // 2) for side, n in
                            zip(old.sides, batch["rows"], strict=True)),
                totals=Totals(results, tuple(rows.tolist()), (late // 2, late - late // 2), (0, 0), 0, (0, 0)),
                asked=batch.get("asked", "hash on 4, shared"), own=batch.get("own", float("nan")),
                threshold=batch.get("threshold", float("nan")), sentence=batch.get("sentence", ""),
            )
        )  # fmt: skip
    return replace(past, moments=tuple(moments), migrations=(), reasons=(), **changes)


def test_an_even_join_is_even(past: Past) -> None:
    """The test of those below: nothing else is the matter with these batches."""
    said = verdict(made(past, batches()), now=1001.0)
    assert (said.word, said.tone) == ("Even", "good")
    assert said.sentences == ("The busiest of 4 instances worked 1.00 times the mean over the last 20 batches.",)


SILENT = {"rows": (0, 1000), "latest": np.array([0, 1]), "results": 0}


@pytest.mark.parametrize(
    ("told", "word", "tone", "words"),
    [
        (batches(12) + batches(18, rows=(0, 1000)), "Silent side", "fair", "Side o has sent no rows in the last 18"),
        (batches(12) + batches(18, results=0), "No results", "bad", "Nothing was found in the last 18 batches"),
        (batches(30, results=0), "No results", "fair", "written in the same way"),
        (batches(12) + batches(18, latest=np.array([0, 1])), "Watermark stands", "bad", "because of side o"),
        (batches(12) + batches(18, **SILENT), "No results", "bad", "Side o has sent no rows"),
        (batches(30, late=200), "Late rows", "fair", "10 % of the rows"),
        (batches(30, late=1000), "Late rows", "bad", "50 % of the rows"),
        (batches(30, rows=(0, 0), results=0), "Idle", "none", "No rows came"),
        (batches(30, rows=(1, 1), busy=(1, 1, 1, 4)), "Idle", "none", "too little to say"),
        (batches(30, busy=(0.1, 0.1, 0.1, 0.4)), "Idle", "none", "too little to say"),
        (batches(30, busy=(20, 20, 20, 60)), "Uneven", "bad", "Mostly that is instance 3"),
    ],
)
def test_what_is_the_matter_is_said(past: Past, told: list[Batch], word: str, tone: str, words: str) -> None:
    """However even the work is."""
    said = verdict(made(past, told), now=1001.0)
    assert (said.word, said.tone) == (word, tone)
    assert words in " ".join(said.sentences)


def test_a_side_that_sends_now_and_then_is_not_silent(past: Past) -> None:
    """What stood as long before is usual."""
    told = (batches(1) + batches(8, rows=(0, 1000))) * 4
    assert verdict(made(past, told)).word == "Even"
    assert stood([1, 1, 1, 2, 2, 2, 2, 2, 2], list(range(9))) == 5
    assert stood([1, 2, 2, 2, 3, 3, 3, 3, 3, 3], list(range(10))) == 0


def test_state_without_a_bound_is_named(past: Past) -> None:
    """By the side that grows."""
    assert past.unbounded == ()
    said = verdict(made(past, batches(), unbounded=("t",)))
    assert said.word == "State grows"
    assert "side t (" in said.sentences[0]


def test_a_live_page_tells_that_the_last_batch_is_old_and_a_report_does_not(past: Past) -> None:
    """Ten hours after it; a trigger every hour is used to half an hour."""
    even = made(past, batches())
    assert verdict(even, now=1000.0 + 36000).word == "At rest"
    assert "10 h ago" in verdict(even, now=1000.0 + 36000).sentences[0]
    assert verdict(even).word == "Even"
    hourly = replace(even, moments=tuple(replace(m, trigger_ms=3.6e6) for m in even.moments))
    assert verdict(hourly, now=1000.0 + 1800).word == "Even"


def test_auto_is_judged_by_what_it_acts_by(past: Past) -> None:
    """On one core tasks that differ take as long as even ones: the planner says so, and the page does too."""
    told = batches(
        busy=(20, 20, 20, 80), asked="auto on 4, shared", own=1.02, sentence="even within 3% on 1 core",
    )  # fmt: skip
    said = verdict(made(past, told))
    assert (said.word, said.tone) == ("Even", "good")
    assert "2.29 times the mean" in " ".join(said.sentences)
    assert said.planner == "auto after batch 29: even within 3% on 1 core."
    assert "even within 3% on 1 core" in cards.sentence(said)


def test_the_planner_is_quoted_with_its_own_measure(past: Past) -> None:
    """And what stands in its sentence is text."""
    told = batches(asked="djb(theta_max=0.2) on 4, shared", own=0.1, threshold=0.2, sentence="key <b> stays")
    said = verdict(made(past, told))
    assert said.planner == "djb after batch 29: key <b> stays. Its own measure is 0.10, and it acts above 0.2."
    assert "key &lt;b&gt; stays" in cards.sentence(said)


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
@pytest.mark.parametrize("told", [{"on": "o.k = t.k"}, {"watermark": None}])
def test_a_join_without_a_bound_or_a_watermark_is_known_as_such(tmp_path: Path, told: dict[str, object]) -> None:
    """From what its checkpoint says."""
    found = concerns(read_whole(checkpoint(tmp_path / "ck", **told)))
    assert [concern.word for concern in found] == ["State grows"]
    assert "side o (1.2k tuples) and side t (1.8k tuples)" in found[0].sentence
