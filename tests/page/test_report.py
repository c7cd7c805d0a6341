"""What a page says of a checkpoint, without a browser: the report, the metrics, who is let in, and crafted keys."""

from __future__ import annotations

import asyncio
import re
import socket
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.commit.history import read_history
from evenjoin.errors import EvenJoinError
from evenjoin.page import cards
from evenjoin.page.follow import EVERY, Follower, read_whole, thinned
from evenjoin.page.metrics import exposition
from evenjoin.page.model import heat, series
from evenjoin.page.server import Address, open_page
from evenjoin.page.verdict import verdict
from evenjoin.page.whereabouts import Finder
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


@pytest.mark.parametrize("strategy", ["fastjoin", "auto(cores=4)"])
def test_redacted_keys_are_nowhere(tmp_path: Path, strategy: str) -> None:
    """Under redact_keys the page has no key: in no card, in no model, and in nothing that the planner said."""
    past = read_whole(checkpoint(tmp_path / "ck", 12, redact_keys=True, strategy=strategy, many=20))
    assert "redacted" in cards.keys(past)
    assert all(moment.keys == () for moment in past.moments)
    if strategy.startswith("auto"):
        assert any("key " in moment.sentence for moment in past.moments)
    shown = [cards.sentence(verdict(past)), cards.rebalances(past), *(moment.sentence for moment in past.moments)]
    assert re.search(r"alert|red\\u202e|cell", " ".join(shown)) is None


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


SIDES = {"o": pa.schema([("k", pa.int64()), ("v", pa.int64())]), "t": pa.schema([("k", pa.int64()), ("v", pa.int64())])}
BAND = "abs(o.k - t.k) <= 5"


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
@pytest.mark.parametrize(
    ("strategy", "on", "said", "copies"),
    [
        ("hash", "o.k = t.k", "It lives in its hash bucket.", False),
        ("random", "o.k = t.k", "No key has a place", False),
        ("square", BAND, "One grid of instances takes all keys", True),
        ("adsp", BAND, "It lives in the areas", None),
        ("djb", BAND, "a bucket of neighbouring keys", False),
    ],
)
def test_what_has_a_key_is_told_by_the_kind_of_table(
    tmp_path: Path, strategy: str, on: str, said: str, copies: bool | None
) -> None:
    """Only a hash table has hash buckets; where a tuple is copied, the page says so."""
    rng = np.random.default_rng(4)
    with evenjoin.local(SIDES, on, checkpoint=tmp_path / "ck", strategy=strategy, instances=4) as join:
        for _ in range(3):
            join.process(
                {a: pa.table([rng.integers(0, 1000, 300), np.arange(300)], schema=s) for a, s in SIDES.items()}
            )
    past = read_whole(tmp_path / "ck")
    card = cards.found(Finder(past.join, past.seed).find("500", past))
    assert said in card
    assert copies is None or ("cop" in card) == copies, card


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_part_of_a_key_may_have_a_comma(tmp_path: Path) -> None:
    """In double quotes, which need not be there for others."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    with evenjoin.local({"o": schema, "t": schema}, ["a", "b"], checkpoint=tmp_path / "ck", instances=4) as join:
        join.process({"o": pa.table([["Bern, Wankdorf"], ["x"]], schema=schema)})
        codes, _ = join._driver.schemas[0].codec.encode([pa.array(["Bern, Wankdorf"]), pa.array(["x"])], 1)
    past = read_whole(tmp_path / "ck")
    finder = Finder(past.join, past.seed)
    assert finder.find('"Bern, Wankdorf", x', past).code == codes[0]
    assert "2 parts" in finder.find("Basel, Barfi, x", past).wrong


def test_times_without_a_zone_have_no_lag(tmp_path: Path) -> None:
    """Nobody knows whose clock they are of; those with one are told as UTC."""
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("v", pa.int64())])
    checkpoints = checkpoint(tmp_path / "zone", 2), checkpoint(tmp_path / "none", 2, schema)
    for past, zoned in zip(map(read_whole, checkpoints), (True, False), strict=True):
        card, told = cards.sides(past), exposition(past).decode()
        assert (" UTC" in card, "no time zone" in card) == (zoned, not zoned)
        assert ("evenjoin_lag_seconds{" in told) == zoned


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


async def opened(url: str, origin: str) -> int:
    """The status of the answer to a web socket that a page of this origin opens: 101 lets it in."""
    headers = {"Origin": origin, "Sec-WebSocket-Protocol": "bokeh, made-up"}
    try:
        (await websocket_connect(HTTPRequest(url, headers=headers), subprotocols=["bokeh"])).close()
    except HTTPClientError as error:
        return error.code
    return 101


def test_a_web_socket_of_a_foreign_site_is_refused(folder: Path) -> None:
    """By its origin; that of the page itself is not what is refused."""
    served = open_page(folder, Address(port=0))
    try:
        url, own = served.url.replace("http", "ws") + "ws", served.url.rstrip("/")
        assert asyncio.run(opened(url, "http://evil.example")) == 403
        assert asyncio.run(opened(url, f"{own}0")) == 403
        assert asyncio.run(opened(url, own)) != 403
    finally:
        served.stop()


def test_the_machine_s_own_names_and_given_ones_are_let_in(folder: Path) -> None:
    """When the page listens on all addresses; the first name that was given is in the address to open."""
    served = open_page(folder, Address("0.0.0.0", 0, "correct horse", ("Driver.Example.org",)))
    port = served.url.partition("?")[0].rstrip("/").rsplit(":", 1)[1]
    base = f"http://127.0.0.1:{port}/?token=correct%20horse"
    try:
        assert served.url == f"http://driver.example.org:{port}/?token=correct%20horse"
        for name in ("driver.example.org", "DRIVER.example.org", socket.gethostname(), "127.0.0.1"):
            assert status(base, Host=f"{name}:{port}") == 200
        assert status(base, Host="evil.example") in (302, 403)
    finally:
        served.stop()


def test_the_address_of_a_page_on_all_addresses_can_be_opened(folder: Path) -> None:
    """Without a name it is one of this machine's own, and not 0.0.0.0."""
    served = open_page(folder, Address("0.0.0.0", 0, "correct horse"))
    try:
        assert "0.0.0.0" not in served.url
        assert status(served.url) == 200
    finally:
        served.stop()


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
