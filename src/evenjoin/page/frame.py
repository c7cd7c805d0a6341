"""The HTML around boards: one template for the live page, for a report and for a comparison.

Guarantee: everything that a template is given is escaped by it, except the pieces that are HTML already: our own style,
Bokeh's scripts, and `told`, whose author escapes what it shows. The page's policy allows no address but its own server,
and a file allows none at all, so nothing is loaded from a network even if a piece of it asked for that.
Not here: what is shown (board.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bokeh.document import Document
from jinja2 import Environment

from evenjoin.commit.history import RecordedJoin
from evenjoin.page.board import Board, Section, asset, put
from evenjoin.shown import visible

LIVE_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
FILE_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
SCRIPTS = ("static/js/bokeh.min.js", "static/js/bokeh-widgets.min.js")
"""What a live page loads, from Bokeh's own package through its server."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the boards: the head line, the line under it, HTML above the boards (escaped by its author),
    and the last line."""

    heading: str
    subtitle: str = ""
    told: str = ""
    footer: str = ""


@dataclass(frozen=True, slots=True)
class Framed:
    """A board in a page, under a title of its own."""

    title: str
    prefix: str
    board: Board

    @property
    def sections(self) -> list[Section]:
        return self.board.sections


def framed(document: Document, boards: Sequence[Framed], frame: Frame, live: bool) -> None:
    """Make a document of boards, with the page around them."""
    put(document, [one.board for one in boards])
    document.title = visible(frame.heading)
    document.template = _template()
    document.template_variables.update(variables(boards, frame, live))


def without_boards(frame: Frame) -> str:
    """A file with nothing but the frame."""
    return str(_template().render(title=visible(frame.heading), **variables((), frame, live=False)))


def variables(boards: Sequence[Framed], frame: Frame, live: bool) -> dict[str, Any]:
    return {
        "heading": visible(frame.heading),
        "subtitle": visible(frame.subtitle),
        "told": frame.told,
        "footer": visible(frame.footer),
        "boards": list(boards),
        "style": asset("page.css"),
        "live": live,
        "policy": LIVE_POLICY if live else FILE_POLICY,
        "scripts": SCRIPTS if live else (),
    }


@cache
def _template() -> Any:
    return Environment(autoescape=True).from_string(asset("page.html"))


def asked(join: RecordedJoin) -> str:
    """The join in a line, as it was asked for."""
    return f"{', '.join(join.sides)} ON {join.condition}"
