"""No link of the documentation leads nowhere: files, headings, pictures. Addresses of the web are not asked.

`mkdocs build --strict` (`make docs`) finds the same in docs/; this test also reads README and the pages for
contributors, and needs no mkdocs.
"""

from __future__ import annotations

import re

import pytest
from pages import DOCS, FOR_CONTRIBUTORS, PAGES, ROOT, Page, read_page, slug

ALL = [read_page(path) for path in (*PAGES, *FOR_CONTRIBUTORS)]
COMMAND = re.compile(r"^(evenjoin|python|make) \S|`(evenjoin|python|make) [^`]+`", re.MULTILINE)
DRAWN = "`python docs/drawings`"
MADE_BY = {
    **dict.fromkeys(("page.png", "page-dark.png", "page-phone.png", "report.png"), "make pictures"),
    "imbalance.png": "evenjoin compare ride-hailing",
    "tasks.png": "evenjoin compare B_NCI",
    "packing.png": "python -m evenjoin.bench.packing",
}
"""The commands of pictures that do not name the file they write."""
NEAR = 12
"""How many lines a picture may be from the command that made it."""


def broken(page: Page) -> list[str]:
    """The links and pictures of a page that lead nowhere."""
    found = []
    for target in [*page.links(), *(target for _, target in page.pictures())]:
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve()
        if not name:
            found += [] if anchor in page.anchors else [f"{page.name}: {target}: no such heading"]
        elif not path.exists():
            found.append(f"{page.name}: {target}: no such file")
        elif page.path.parent == DOCS and DOCS not in path.parents:
            found.append(f"{page.name}: {target}: leads out of docs/, which the built pages cannot follow")
        elif anchor and anchor not in read_page(path).anchors:
            found.append(f"{page.name}: {target}: no such heading")
    return found


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    assert broken(page) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("# A\n\n[b](#a) [c](../README.md)", 1),
        ("[b](nowhere.md)", 1),
        ("# Two words\n[b](#two-words) ![c](no.png)", 1),
        ("[b](#two)", 1),
        ("`[b](no.md)` [web](https://example.org)", 0),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text, number):
    """Whatever is wrong with it."""
    assert len(broken(Page(DOCS / "x.md", (), tuple(text.splitlines())))) == number


def test_every_page_is_in_the_navigation():
    """A page that no menu shows is not found."""
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [path.name for path in sorted(DOCS.glob("*.md")) if f": {path.name}\n" not in menu] == []


def commands_near(lines: list[str], at: int) -> str:
    return "\n".join(line for line in lines[max(at - NEAR, 0) : at + NEAR + 1] if COMMAND.search(line))


def unmade(page: Page, text: str) -> list[str]:
    """The pictures of a page without the command that makes just them near by. A command names the file that it writes;
    of those that do not, MADE_BY knows. A page of drawings, which one command makes, names it once."""
    lines = text.splitlines()
    return [
        target
        for at, target in page.pictures()
        if not (
            DRAWN in text
            if target.startswith("drawings/")
            else MADE_BY.get(name := target.rsplit("/", 1)[-1], f"--figure docs/{name}") in commands_near(lines, at)
        )
    ]


@pytest.mark.parametrize("page", [page for page in ALL if page.pictures()], ids=lambda page: page.name)
def test_a_picture_stands_beside_its_own_command(page):
    """Whoever doubts a picture can make it again."""
    assert unmade(page, page.path.read_text(encoding="utf-8")) == []


def test_a_picture_beside_another_command_is_found():
    """A command that makes something else is not the one."""
    text = "`make docs` and `evenjoin compare city`\n\n![a](page.png) ![b](auto.png)"
    assert unmade(Page(DOCS / "x.md", (), tuple(text.splitlines())), text) == ["page.png", "auto.png"]


def test_every_picture_is_shown():
    """And none lies about that no page shows."""
    shown = {(page.path.parent / target).resolve() for page in ALL for _, target in page.pictures()}
    there = {path.resolve() for kind in ("png", "svg") for path in DOCS.rglob(f"*.{kind}")}
    assert sorted(there - shown) == []


def test_the_anchor_of_a_heading():
    assert slug("`auto`, or not: *how* to choose") == "auto-or-not-how-to-choose"
