"""A real Chromium reads the page and the report of a checkpoint whose keys would do harm: nothing happens, nothing is
loaded from elsewhere, and everything can be read in light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from evenjoin.page.report import write_report
from evenjoin.page.server import Address, open_page
from page import chromium
from page.chromium import Chromium, Page
from page.crafted import SCRIPT, SHOWN, checkpoint

pytestmark = pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("browser") / "ck")


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as found:
        yield found


def harmless(page: Page, hosts: set[str]) -> None:
    """Both keys are seen as text, no script of theirs ran, the console is clean, and only `hosts` were asked."""
    text = page.text()
    assert SCRIPT in text
    assert SHOWN in text
    assert page.dialogs == []
    assert page.errors == []
    assert {urlsplit(url).hostname or "" for url in page.requests if not url.startswith("data:")} <= hosts


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (1280, 800, "dark"), (390, 844, "dark")])
def test_the_report_in_a_browser(
    browser: Chromium, folder: Path, tmp_path: Path, width: int, height: int, scheme: str
) -> None:
    """From a file, without any request besides that file; nothing is wider than the screen."""
    page = browser.open(write_report(folder, tmp_path / "report.html").as_uri(), width, height, scheme)
    harmless(page, {""})
    assert len([url for url in page.requests if not url.startswith(("data:", "blob:"))]) == 1
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth") is True
    page.close()


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_the_live_page_in_a_browser(browser: Chromium, folder: Path, width: int, height: int, scheme: str) -> None:
    """Served to this machine only, with a token; a crafted key can be asked for."""
    served = open_page(folder, Address(port=0, token="a long token"))
    try:
        page = browser.open(served.url, width, height, scheme)
        page.type(SCRIPT, "#table")
        page.wait("Bokeh.documents[0].get_model_by_name('found').text.includes('/script&gt;</b>')")
        assert f"Key {SCRIPT}" in page.text("#table")
        harmless(page, {"127.0.0.1"})
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth") is True
        page.close()
    finally:
        served.stop()


def test_a_script_from_elsewhere_is_refused(browser: Chromium, folder: Path, tmp_path: Path) -> None:
    """If something brought an address into a report, the policy would not load it: the test of the tests above."""
    whole = write_report(folder, tmp_path / "report.html")
    text = whole.read_text(encoding="utf-8").replace("</main>", '</main><img src="http://127.0.0.1:9/x.png">')
    whole.write_text(text, encoding="utf-8")
    page = browser.open(whole.as_uri())
    assert any("Content Security Policy" in told for _, told in page.errors)
    page.close()
