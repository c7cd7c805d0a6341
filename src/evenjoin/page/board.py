"""A board: all panels of one join, as Bokeh models, and the order in which a page shows them.

    Board(join)         makes every plot and every piece of text once
    board.show(past)    puts new figures and words in; what has not changed is not sent again
    board.sections      which of them stand together, under which heading

The live page (server.py) and the file (report.py) show the same board. What only a server can answer, the look-up of a
key, is there only if a finder was given.

Guarantee: texts from outside reach a `Div` only through cards.py, which escapes them. No text is taken for TeX
(`disable_math`), which would make a page load a typesetter.
Not here: the HTML around the panels (page.html), and reading commits (follow.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.models import ColorBar, CustomJS, Div, InlineStyleSheet, RadioButtonGroup, TextInput

from evenjoin.commit.history import RecordedJoin
from evenjoin.page import cards, figures
from evenjoin.page.follow import Past
from evenjoin.page.verdict import verdict
from evenjoin.page.whereabouts import Finder

SPANS: tuple[int | None, ...] = (40, 200, None)
"""How many of the newest batches the plots show, as a reader may choose; None: all of them."""
DAY = ("#4a525c", "#e3e7ec", figures.DAY)
NIGHT = ("#b4bdc8", "#323a45", figures.NIGHT)
"""The colours of text and of grids, and the palette of the heat map."""


@dataclass(frozen=True, slots=True)
class Section:
    """One card of a page: its anchor, its heading, a sentence on what it shows, and the names of its models."""

    anchor: str
    title: str
    hint: str
    roots: tuple[str, ...]
    width: str = "half"


class Board:
    """The panels of one join. `prefix` keeps the names of several boards of one page apart."""

    def __init__(self, join: RecordedJoin, finder: Finder | None = None, prefix: str = "") -> None:
        self._prefix, self._finder, self._past = prefix, finder, Past(join, 0)
        self.sources = figures.Sources(join.sides)
        self._models: dict[str, Any] = {}
        self._divs = {name: self._div(name) for name in ("verdict", "tiles", "keys", "moves", "sides", "table")}
        self._plots = {
            "heat": figures.heat_map(self.sources),
            "busiest": figures.busiest(self.sources),
            "own": figures.own_measure(self.sources),
            "rows": figures.rows_in(self.sources),
            "results": figures.results_out(self.sources),
            "lag": figures.lag(self.sources),
            "time": figures.batch_time(self.sources),
            "state": figures.state_now(self.sources),
            "stored": figures.state_over_time(self.sources),
            "expiry": figures.expiry(self.sources),
            "late": figures.late(self.sources),
        }
        for name, plot in self._plots.items():
            self._named(name, plot)
        self.span = RadioButtonGroup(
            labels=[f"last {many}" if many else "all" for many in SPANS], active=1, stylesheets=[_style()],
            sizing_mode="fixed", width=190, height=28,
        )  # fmt: skip
        self.span.on_change("active", lambda _name, _old, _new: self.sources.aim(self._many))
        self._named("span", self.span)
        if finder is not None:
            self._ask()

    @property
    def roots(self) -> list[Any]:
        """Every model, for the document."""
        return list(self._models.values())

    @property
    def sections(self) -> list[Section]:
        """The cards of the page in their order."""
        asked = ("key", "found") if self._finder is not None else ()
        cards_ = (
            ("heat", "Busy time", "Processor time of each instance (down) in each batch (across). A dashed line is a "
             "rebalance.", ("span", "heat"), "wide"),
            ("keys", "Hottest keys", "By name, with their share of the rows.", ("keys",), "narrow"),
            ("imbalance", "Imbalance", "Above: the busiest instance over the mean; 1 is even. Below: the strategy's "
             "own measure over its threshold; above 1 it plans (auto has none: there 1 is even). A triangle is a "
             "rebalance.", ("busiest", "own"), "half"),
            ("flow", "Rows in, results out, lag", "Lag is the clock minus the latest event time; none is shown for a "
             "replay, and for times without a zone.", ("rows", "lag", "results"), "half"),
            ("time", "Where a batch's time goes", "By the driver's clock; what is far above the usual is cut off. "
             "Taking in is the receiving half of the shuffle.", ("time",), "half"),
            ("state", "State", "Stored tuples by instance now, over the batches, and those that expired.",
             ("state", "stored", "expiry"), "half"),
            ("moves", "Rebalances", "Why the table changed, in the planner's words too, what was foreseen, what came "
             "of it and what it cost.", ("moves",), "full"),
            ("sides", "Sides, watermark and late rows", "Rows that came too late are counted, never lost in silence.",
             ("sides", "late"), "half"),
            ("table", "Where a key lives", "Where the routing table of the next batch has the hottest keys."
             if not asked else "Type a key: the routing table of the next batch says which instances store its tuples, "
             "and which ones they ask for partners (probe).", ("table", *asked), "half"),
        )  # fmt: skip
        return [
            Section(self._prefix + anchor, title, hint, tuple(self._prefix + name for name in names), width)
            for anchor, title, hint, names, width in cards_
        ]

    def show(self, past: Past, now: float) -> None:
        """Put a past in, as it is seen at the time `now` (seconds since the epoch)."""
        live = self._finder is not None
        if live:
            self._say("status", cards.status(past, now))
        self._say("verdict", cards.sentence(verdict(past, now if live else None)))
        if past is self._past:
            return
        self._past = past
        self.sources.fill(past)
        self.sources.go_on(self._many)
        self._plots["lag"].visible = self.sources.knows_lag
        self._plots["own"].visible = self.sources.knows_own
        self._say("tiles", cards.tiles(past))
        self._say("keys", cards.keys(past))
        self._say("moves", cards.rebalances(past))
        self._say("sides", cards.sides(past))
        known = "" if self._finder is not None else cards.homes(past)
        self._say("table", cards.table_summary(past.table) + known)
        self._answer()

    def stop(self, message: str) -> None:
        """Say in place of the verdict why the page cannot go on. The next `show` takes it away."""
        self._say("verdict", cards.trouble(message))

    def reopen(self) -> None:
        """Let the browser of a live page open it again."""
        self._divs["status"].tags = ["reopen"]

    def _say(self, name: str, text: str) -> None:
        if self._divs[name].text != text:
            self._divs[name].text = text

    def _named(self, name: str, model: Any) -> Any:
        model.name = self._prefix + name
        self._models[name] = model
        return model

    def _div(self, name: str) -> Any:
        return self._named(
            name, Div(text="", disable_math=True, margin=0, sizing_mode="stretch_width", stylesheets=[_style()])
        )

    def _ask(self) -> None:
        """What only a live page has: how old its figures are, and the field to type a key in with its answer."""
        self._divs["status"] = self._div("status")
        self._divs["status"].js_on_change("tags", CustomJS(code="window.location.reload()"))
        field = TextInput(
            placeholder="a key, such as 42", sizing_mode="stretch_width", stylesheets=[_style()], max_length=1000
        )
        field.on_change("value_input", lambda _name, _old, _new: self._answer())  # with every letter
        self._named("key", field)
        self._divs["found"] = self._div("found")

    def _answer(self) -> None:
        asked = self._models["key"].value_input if self._finder is not None else ""
        if self._finder is not None and "found" in self._divs:
            self._say("found", cards.found(self._finder.find(asked, self._past)) if asked else "")

    @property
    def _many(self) -> int | None:
        """How many batches the reader wants to see."""
        return SPANS[self.span.active if self.span.active is not None else -1]


def put(document: Document, boards: Sequence[Board]) -> None:
    """Make boards the contents of a document, whose colours follow the reader's light or dark setting."""
    with document.models.freeze():  # else every root makes Bokeh walk through all of those before it
        for root in (root for board in boards for root in board.roots):
            document.add_root(root)
    plots = [plot for board in boards for plot in board._plots.values()]
    arguments = {
        "axes": [axis for plot in plots for axis in plot.axis],
        "grids": [grid for plot in plots for grid in plot.grid],
        "legends": [legend for plot in plots for legend in plot.legend],
        "bars": [bar for plot in plots for bar in plot.select(ColorBar)],
        "heats": [board.sources.colours for board in boards],
        "day": DAY,
        "night": NIGHT,
    }
    document.js_on_event(DocumentReady, CustomJS(args=arguments, code=asset("colours.js")))


def choose_without_server(board: Board) -> None:
    """Let the reader of a file choose how many batches are shown, with a script in place of the server."""
    ends = [board.sources.aimed(many) for many in SPANS]
    arguments = {"range": board.sources.batches, "ends": ends}
    code = "const [start, end] = ends[this.active]; range.setv({start, end})"
    board.span.js_on_change("active", CustomJS(args=arguments, code=code))


def asset(name: str) -> str:
    """A file of the page that is part of the package."""
    return files("evenjoin.page").joinpath("assets", name).read_text(encoding="utf-8")


def _style() -> Any:
    return InlineStyleSheet(css=asset("cards.css"))
