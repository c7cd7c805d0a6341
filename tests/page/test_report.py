"""What a page says of a checkpoint, without a browser: the report, the metrics, who is let in, and crafted keys."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.commit.history import read_history
from evenjoin.errors import EvenJoinError
from evenjoin.page import cards
from evenjoin.page.follow import EVERY, Follower, read_whole, thinned
from evenjoin.page.model import heat, series
from evenjoin.page.server import Address, open_page
from evenjoin.page.whereabouts import Finder
from evenjoin.page.words import verdict
from evenjoin.placement.place import At, place
from evenjoin.placement.slots import Role
from page.crafted import ESCAPE, SCRIPT, SHOWN, checkpoint


class Tags(HTMLParser):
    """The tags of a page, the addresses that it names, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("page") / "ck")


def test_the_report_is_one_file_that_loads_nothing(folder: Path, tmp_path: Path) -> None:
    """No tag names an address, the policy allows none, and no key has become a tag."""
    result = CliRunner().invoke(command, ["report", str(folder), "-o", str(tmp_path / "sub" / "report.html")])
    assert result.exit_code == 0, result.output
    path = Path(result.output.strip())
    page = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert tags.addresses == []
    assert "default-src &#39;none&#39;" in page
    assert SCRIPT not in page
    assert ESCAPE not in page
    assert "\x1b" not in page
    for heading in ("Busy time", "Hottest keys", "Imbalance", "Rebalances", "State", "Sides", "Where a key lives"):
        assert heading in page
    assert {file.name for file in path.parent.iterdir()} == {"report.html"}


def test_the_hot_keys_are_named_and_harmless(folder: Path) -> None:
    """Both crafted keys are in the card, as text that can be seen."""
    card = cards.keys(read_whole(folder))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in card
    assert SHOWN in card
    assert re.search(r"<script|\x1b|\u202e", card) is None


def test_redacted_keys_are_nowhere(tmp_path: Path) -> None:
    """Under redact_keys the page has no key, in no card and in no model."""
    past = read_whole(checkpoint(tmp_path / "ck", 4, redact_keys=True))
    assert "redacted" in cards.keys(past)
    assert all(moment.keys == () for moment in past.moments)
    assert "alert" not in cards.sentence(verdict(past))


def test_the_columns_are_those_of_the_commits(folder: Path) -> None:
    """Rows, stored tuples, busy time and rebalances of the page against the history that `inspect` reads."""
    past, history = read_whole(folder), read_history(folder)
    columns = series(past.moments, 2)
    reports = history.reports
    assert columns["batch"].tolist() == [commit.batch for commit in history.commits]
    assert columns["stored_0"].tolist() == [sum(load.stored[0] for load in report.instances) for report in reports]
    image = np.concatenate([piece.image for piece in heat(past.moments)], axis=1)
    busy = [[load.busy_ms for load in report.instances] for report in reports]
    assert np.allclose(image.T, busy, rtol=1e-5)
    assert past.migrations == history.migrations
    assert past.migrations


@pytest.mark.parametrize("key", ["cell-1", SCRIPT, ESCAPE])
def test_a_key_is_where_place_says(folder: Path, key: str) -> None:
    """The answer of the page against `place` of the table, asked with the code that the join itself gave the key."""
    past = read_whole(folder)
    answer = Finder(past.join, past.seed).find(key, past)
    assert not answer.wrong
    reported = {hot.name: hot.code for moment in past.moments for hot in moment.keys}
    if key in reported:
        assert answer.code == reported[key]
    assert past.table is not None
    u = np.random.default_rng(1).integers(0, 2**32, 500).astype(np.uint32)
    for group, stay in enumerate(answer.stays):
        placed = place(past.table, group, At(np.full(500, answer.code), u))
        assert set(stay.stored) == set(placed.only(Role.STORE).instance.tolist())
        assert set(stay.probing) == set(placed.only(Role.PROBE).instance.tolist())


def test_metrics_are_the_totals_of_the_last_commit(folder: Path) -> None:
    """What Prometheus' own parser reads is what the commit says."""
    result = CliRunner().invoke(command, ["metrics", str(folder)])
    assert result.exit_code == 0, result.output
    families = {family.name: family for family in text_string_to_metric_families(result.output)}
    last = read_history(folder).last
    assert last is not None
    assert {s.labels["side"]: s.value for s in families["evenjoin_rows"].samples} == {"o": 1200.0, "t": 1800.0}
    assert families["evenjoin_results"].samples[0].value == last.totals.results > 0
    assert families["evenjoin_batch"].samples[0].value == 5
    assert len(families["evenjoin_instance_busy_seconds"].samples) == 4
    assert "cell" not in result.output


def test_old_moments_are_thinned_by_their_number_alone() -> None:
    """10,000 entries leave few; what a page keeps does not depend on when it was opened."""
    kept = thinned(range(10_000))
    assert len(kept) < 900
    assert kept[:EVERY] == list(range(9_999, 9_999 - EVERY, -1))
    grown: list[int] = []
    for newest in range(10_000):
        grown = thinned([*grown, newest])
    assert grown == kept


def test_a_follower_reads_newest_first_and_goes_on(folder: Path) -> None:
    """Without time it reads one commit, and with time the rest; the same object if nothing is new."""
    follower = Follower(folder)
    assert [moment.batch for moment in follower.refresh(0).moments] == [5]
    while not follower.refresh(0).whole:
        pass
    whole = follower.refresh()
    assert [moment.batch for moment in whole.moments] == list(range(6))
    assert follower.refresh() is whole


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::"])
def test_another_address_needs_a_token(folder: Path, host: str) -> None:
    """Before anything listens; a short token is none."""
    for token in ("", "short"):
        with pytest.raises(EvenJoinError, match="token"):
            Address(host, 0, token)
    result = CliRunner().invoke(command, ["ui", str(folder), "--host", host])
    assert result.exit_code == 1
    assert "token" in result.output


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def status(url: str, **headers: str) -> int:
    """The status of a request, redirects not followed."""
    try:
        with build_opener(_Stay).open(Request(url, headers=headers), timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("path", ["", "metrics"])
def test_a_foreign_name_and_a_wrong_token_see_nothing(folder: Path, path: str) -> None:
    """A web site that lets its own name point here is refused; with a token, whoever lacks it."""
    plain = open_page(folder, Address(port=0))
    try:
        assert status(plain.url + path) == 200
        assert status(plain.url + path, Host="evil.example") in (302, 403)
    finally:
        plain.stop()
    guarded = open_page(folder, Address(port=0, token="correct horse"))
    base = guarded.url.partition("?")[0] + path
    try:
        assert status(base) in (302, 403)
        assert status(f"{base}?token=wrong") in (302, 403)
        assert status(f"{base}?token=correct%20horse") == 200
        assert status(base, Authorization="Bearer correct horse") == 200
    finally:
        guarded.stop()


def test_a_port_in_use_is_an_error_of_one_line(folder: Path) -> None:
    """And not a traceback of the server."""
    first = open_page(folder, Address(port=0))
    try:
        port = int(first.url.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(EvenJoinError, match="nothing can be served"):
            open_page(folder, Address(port=port))
    finally:
        first.stop()


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_an_empty_checkpoint_has_a_page(tmp_path: Path) -> None:
    """Before the first batch the page says that it waits."""
    schema = pa.schema([("k", pa.int64())])
    with evenjoin.local({"o": schema, "t": schema}, "k", checkpoint=tmp_path / "ck"):
        pass
    past = read_whole(tmp_path / "ck")
    assert verdict(past).word == "Waiting"
    result = CliRunner().invoke(command, ["report", str(tmp_path / "ck"), "-o", str(tmp_path / "r.html")])
    assert result.exit_code == 0, result.output
