"""A real Chromium watches the page of a running Spark query while a key becomes hot; its pictures are those of docs/.

    make pictures       runs this, and writes docs/page.png, docs/page-dark.png, docs/page-phone.png and docs/report.png

Until batch QUIET all places are as busy as each other. Then the Stadium has nearly half of all orders and tracks, and
the join rebalances while somebody looks. Without EVENJOIN_PICTURES the pictures go to a temporary folder.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import evenjoin
from evenjoin.commit.history import read_history
from evenjoin.page.report import write_report
from evenjoin.placement.place import At, place
from evenjoin.placement.slots import Role
from page import chromium
from page.chromium import Chromium, Page, until
from spark_streams import read_stream, write_batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING),
]
HOT = "Stadium"
PLACES = (
    "Airport", "Bridge", "Castle", "Docks", "Embassy", "Ferry", "Garden", "Harbour", "Island", "Junction", "Kiosk",
    "Library", "Market", "North Gate", "Opera", "Park", "Quarry", "River", "South Gate", "Theatre", "University",
    "Village", "Windmill", "Zoo", HOT,
)  # fmt: skip
SCHEMA = pa.schema([("place", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())])
ON = "o.place = t.place AND t.ts BETWEEN o.ts - INTERVAL 150 MILLISECONDS AND o.ts"
QUIET, BATCHES = 14, 44
REBALANCES = """Array.from(Bokeh.documents[0].get_model_by_name('moves').text.matchAll(/<tr><td>(\\d+)</g),
  (row) => row[1])"""
HEAT = """(() => {
  const [image] = Bokeh.documents[0].get_model_by_name('heat-columns').data.image
  const [instances, batches] = image.shape
  return Array.from({length: instances}, (_, n) => Array.from(image.slice(n * batches, (n + 1) * batches)))
})()"""
"""Busy time by instance and batch."""
CELL = """(() => {
  const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('heat'))
  const {x, y} = view.el.getBoundingClientRect()
  const [batch, row] = [%d, %d]
  return [x + view.frame.x_scale.compute(batch), y + view.frame.y_scale.compute(row)].map(Math.round)
})()"""
"""Where on the screen the cell of a batch and an instance is."""
ROWS = """Array.from(Bokeh.documents[0].get_model_by_name('found').text.matchAll(
  /data-side="(\\w+)"><td>\\w+<\\/td><td>([^<]*)<\\/td><td>([^<]*)</g), (row) => row.slice(1))"""
"""What the answer to a key says: side, where it is stored, where it probes."""


def rows(batch: int, count: int) -> pa.Table:
    """Rows of the last second; of a hundred one is half a minute old, and so late."""
    rng = np.random.default_rng([batch, count])
    places = rng.integers(0, len(PLACES), count)
    if batch >= QUIET:
        places = np.where(rng.random(count) < 0.45, PLACES.index(HOT), places)
    age = rng.random(count) + np.where(rng.random(count) < 0.01, 30, 0)
    times = pa.array(((time.time() - age) * 1e6).astype(np.int64)).cast(SCHEMA.field("ts").type)
    return pa.table([np.array(PLACES)[places], times, np.arange(count) + batch * count], schema=SCHEMA)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return Path(os.environ.get("EVENJOIN_PICTURES") or tmp_path / "pictures")


@pytest.fixture
def browser() -> Iterator[Chromium]:
    with Chromium() as found:
        yield found


def ask_for(page: Page, key: str) -> list[list[str]]:
    """Type a key into the page, and read the rows of the answer."""
    page.type(key, "#table")
    page.wait(f"Bokeh.documents[0].get_model_by_name('found').text.includes({f'Key <b>{key}</b>'!r})")
    return list(page.run(ROWS))


def shown_rebalances(page: Page) -> list[int]:
    """The batches of the rebalances that the page lists, oldest first."""
    found = page.run(REBALANCES)
    return [int(batch) for batch in reversed(found)]


def numbers(text: str) -> set[int]:
    """The instances of an answer such as `0 (70 %), 1 (30 %)` or `a copy on each of 0, 1`."""
    return {int(found) for found in re.findall(r"(?:^|each of |, )(\d+)", text)}


@pytest.mark.timeout(400)
def test_a_hot_key_is_seen_and_tamed_before_the_eyes_of_a_reader(spark, tmp_path, pictures, browser):
    """The heat map changes, the rebalance appears, the hot key is named, a key is where `place` says, and the console
    has nothing to complain of."""
    for alias in "ot":
        (tmp_path / alias).mkdir()
    sides = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "ot"}
    joined = evenjoin.join(
        sides, on=ON, event_time="ts", watermark="2 seconds", strategy="djb", instances=6, select=["o.id AS a"]
    )
    query = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    served = query.ui()
    try:
        page, opened = feed_and_watch(query, served.url, browser, tmp_path)
        assert query.progress().total.rows == (BATCHES * 3000, BATCHES * 6000)
        history = read_history(tmp_path / "ck")
        assert all(report.matches > 0 for report in history.reports[-10:])
        busy = [[load.busy_ms for load in report.instances] for report in history.reports]
        check_heat(page, opened, busy, tmp_path / "heat.png")
        assert HOT in page.text("#keys")
        assert shown_rebalances(page) == [event.batch for event in query.migrations()]
        assert any(batch > opened for batch in shown_rebalances(page))
        for key in (HOT, "Zoo", "never seen"):
            check_whereabouts(ask_for(page, key), key, query)
        ask_for(page, HOT)
        page.size(1280, 1040)
        page.run("window.scrollTo(0, 0)")
        page.picture(pictures / "page.png")
        assert page.errors == []
        page.close()
        for name, width, height, scheme in (("page-dark", 1280, 800, "dark"), ("page-phone", 390, 844, "light")):
            other = browser.open(served.url, width, height, scheme)
            other.picture(pictures / f"{name}.png")
            assert other.errors == []
            assert other.run("document.documentElement.scrollWidth <= window.innerWidth") is True
            other.close()
    finally:
        served.stop()
        query.stop()
    report = browser.open(write_report(tmp_path / "ck", tmp_path / "report.html").as_uri())
    assert HOT in report.text("#keys")
    report.size(1280, int(report.run("document.documentElement.scrollHeight")))
    report.picture(pictures / "report.png")
    assert report.errors == []


def feed_and_watch(query, url: str, browser: Chromium, folder: Path) -> tuple[Page, int]:
    """Give the query its batches, with the page open from the last quiet one on until it shows the last. Returns it
    with the batch that was the last one when it was opened."""
    page, opened = None, 0
    for batch in range(BATCHES):
        for alias, count in (("o", 3000), ("t", 6000)):
            write_batches(folder / alias, [rows(batch, count)], first=batch)
        query.processAllAvailable()
        if batch == QUIET - 1:
            page, opened = browser.open(url), query.load().batch
            assert len(page.run(HEAT)[0]) == opened + 1
            assert shown_rebalances(page) == [event.batch for event in query.migrations()]
    assert page is not None
    until(lambda: f"batch {query.load().batch}" in page.text("header"), 60, "the last batch on the page")
    return page, opened


def check_heat(page: Page, opened: int, busy: list[list[float]], picture: Path) -> None:
    """What the heat map has is what the commits say; and in the batches since the page was opened the cell with most to
    do is drawn in another colour than the one with least."""
    shown = np.array(page.run(HEAT))
    assert np.allclose(shown.T, busy, rtol=1e-4)
    since = shown[:, opened + 1 :]
    cells = [np.unravel_index(number, since.shape) for number in (since.argmax(), since.argmin())]
    with Image.open(page.picture(picture)) as drawn:
        colours = [drawn.convert("RGB").getpixel(page.run(CELL % (opened + 1 + batch, row))) for row, batch in cells]
    assert sum(colours[0]) < sum(colours[1]) - 100, colours


def check_whereabouts(answer: list[list[str]], key: str, query) -> None:
    """The answer of the page against `place` of the query's own table, by the code that the query's codec gives."""
    codes, _ = query._driver.schemas[0].codec.encode([pa.array([key])], 1)
    u = np.random.default_rng(5).integers(0, 2**32, 2000).astype(np.uint32)
    assert [row[0] for row in answer] == ["o", "t"]
    for group, (_, stored, probing) in enumerate(answer):
        placed = place(query.table(), group, At(np.repeat(codes, len(u)), u))
        assert numbers(stored) == set(placed.only(Role.STORE).instance.tolist())
        assert numbers(probing) == set(placed.only(Role.PROBE).instance.tolist())
