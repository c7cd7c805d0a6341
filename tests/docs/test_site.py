"""The built site: strict, whole, and read without a network. Skipped where `make docs` has installed nothing yet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, PAGES, ROOT

pytest.importorskip("mkdocs", reason="make docs installs it")
griffe = pytest.importorskip("griffe", reason="make docs installs it")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def loaded(page: Path) -> list[str]:
    """What a browser loads to show a page: scripts, styles and pictures."""
    text = page.read_text(encoding="utf-8")
    scripts = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)\"", text)
    return scripts + re.findall(
        r"<link[^>]* rel=\"(?:stylesheet|icon|preload|preconnect)\"[^>]* href=\"([^\"]+)\"", text
    )


def test_every_page_is_built(site):
    assert {path.stem for path in PAGES if path.parent == DOCS} <= {path.stem for path in site.glob("*.html")}


def test_what_a_page_loads_is_in_the_site(site):
    """Every picture is there, and nothing comes from elsewhere."""
    wanted = {(page.name, name) for page in site.glob("*.html") for name in loaded(page) if page.name != "404.html"}
    assert len(wanted) > 20
    assert sorted((page, name) for page, name in wanted if not (site / name).exists()) == []


def test_no_page_asks_for_mermaid(site):
    """The theme would fetch it from a server that others run."""
    assert [page.name for page in site.glob("*.html") if 'class="mermaid"' in page.read_text()] == []


def test_settings_of_a_docstring_become_a_list(monkeypatch):
    """And what is no setting stays as it is."""
    monkeypatch.syspath_prepend(str(DOCS))
    from parameters import listed

    text = "How it runs:\non: the condition,\n  or names.\nhow: kind.\n\nThe end: as it was."
    assert listed(text) == "How it runs:\n\n* `on`: the condition,\n  or names.\n* `how`: kind.\n\nThe end: as it was."
