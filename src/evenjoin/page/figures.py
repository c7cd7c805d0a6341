"""The plots of a page: Bokeh figures over the columns of the model.

Each function makes a figure once; `Sources` holds the columns that all of them draw, and `fill` puts new ones in. So a
live page sends columns and never builds a plot again.

Colours are those of Okabe and Ito, which people with any kind of colour blindness can tell apart, and each line also
has a dash of its own where two could be confused. Axes and grids are recoloured by the page for light and dark
(page.html), the heat map too: it goes from the colour of the card to the strongest one.
Not here: words and tables (cards.py), and which figure stands where (board.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
from bokeh.models import (
    BasicTickFormatter,
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from evenjoin.events import Migration
from evenjoin.page.follow import Past
from evenjoin.page.model import SPANS, heat, series, spans

BLUE, ORANGE, GREEN, RED, PINK, SKY, YELLOW, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#8a8f98",
)  # fmt: skip
SIDES = (BLUE, ORANGE, SKY, GREEN, YELLOW, RED)
BUSIEST, OWN = GREY, PINK
"""Measures have other colours than the first sides."""
SPAN_COLOURS = (SKY, BLUE, ORANGE, YELLOW, PINK, RED, GREY)


def _palette(*anchors: str, many: int = 64) -> list[str]:
    """Colours that lie evenly between the anchors."""
    corners = np.array([[int(anchor[n : n + 2], 16) for n in (1, 3, 5)] for anchor in anchors], np.float64)
    steps = np.linspace(0, len(anchors) - 1, many)
    mixed = [np.interp(steps, np.arange(len(anchors)), corners[:, channel]).round().astype(int) for channel in range(3)]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in zip(*mixed, strict=True)]


DAY = _palette("#f4f8fc", "#9ecae1", "#3182bd", "#08306b")
NIGHT = _palette("#1f2630", "#22527c", "#4f9fd4", "#dcefff")
"""The heat map's colours: from the colour of a card to the strongest one, in one hue."""
BRIGHTEST = 99.5
"""The percentile of busy times that has the strongest colour, so that one hiccup does not pale all the others."""
LEAST = 0.05
"""The least that the logarithmic axis shows: some measures are 0 when all is even."""
CUT = 3.0
"""The time of a batch is drawn up to so many times that of nine batches in ten: the first one starts the workers."""
FAR_S = 366 * 86400.0


class Sources:
    """The columns that figures draw."""

    def __init__(self, sides: Sequence[str]) -> None:
        self.sides = tuple(sides)
        self.history = ColumnDataSource(name="history-columns")
        self.heat = ColumnDataSource({"image": [], "x": [], "dw": [], "dh": []}, name="heat-columns")
        self.moves = ColumnDataSource(name="moves-columns")
        self.instances = ColumnDataSource(name="instances-columns")
        self.batches = Range1d(-0.5, 0.5)
        self._aimed = (-0.5, 0.5)
        self.rows = Range1d(0.5, -0.5)
        self.seconds = Range1d(0, 1)
        self.colours = LinearColorMapper(palette=DAY, low=0, high=1, nan_color="rgba(0,0,0,0)")
        self.fill(None)

    def fill(self, past: Past | None) -> None:
        """Put the columns of a past in."""
        moments = past.moments if past is not None else ()
        columns = series(moments, len(self.sides))
        over = columns["own"] / np.where(np.isnan(columns["threshold"]), 1.0, columns["threshold"])
        columns["measure"] = np.maximum(np.where(np.isfinite(over), over, np.nan), LEAST)
        for side in range(len(self.sides)):
            lag, known = columns[f"lag_{side}"], past is not None and past.join.zoned(side)
            columns[f"lag_{side}"] = np.where((np.abs(lag) < FAR_S) & known, lag, np.nan)
        step = np.diff(columns["batch"], prepend=columns["batch"][:1] - 1)
        columns |= {f"span_{n}": values for n, values in enumerate(spans(moments).values())}
        self.history.data = {**columns, "width": 0.86 * step, "middle": columns["batch"] - (step - 1) / 2}
        took = columns["duration_s"]
        usual = float(np.percentile(took, 90)) if len(took) else 1.0
        self.seconds.end = max(min(CUT * usual, float(took.max(initial=0.0)) * 1.05), 1e-3)
        self._fill_heat(past)
        bound = moments[-1].threshold if moments else 1.0
        self.moves.data = _moves(past.migrations if past is not None else (), 1.0 if isnan(bound) else bound)
        self._fill_instances(past)

    def aimed(self, many: int | None) -> tuple[float, float]:
        """The ends of an axis that shows the newest `many` batches; None: all of them."""
        batch = self.history.data["batch"]
        if not len(batch):
            return -0.5, 0.5
        first, last = float(batch[0]), float(batch[-1])
        return max(first, last - many + 1 if many is not None else first) - 0.5, last + 0.5

    def aim(self, many: int | None) -> None:
        """Let all plots show the newest `many` batches."""
        self._aimed = start, end = self.aimed(many)
        self.batches.update(start=start, end=end, reset_start=start, reset_end=end)

    @property
    def knows_lag(self) -> bool:
        """Whether the lag of some side is known: events have times, and these are of now."""
        return any(bool(np.isfinite(self.history.data[f"lag_{side}"]).any()) for side in range(len(self.sides)))

    @property
    def knows_own(self) -> bool:
        """Whether the strategy has a measure of its own."""
        return bool(np.isfinite(self.history.data["measure"]).any())

    def go_on(self, many: int | None) -> None:
        """The same after new batches, unless the reader has moved the plots to look at older ones."""
        if (self.batches.start, self.batches.end) == self._aimed:
            self.aim(many)

    def _fill_heat(self, past: Past | None) -> None:
        pieces = heat(past.moments if past is not None else ())
        many = pieces[0].image.shape[0] if pieces else 1
        self.heat.data = {
            "image": [piece.image for piece in pieces],
            "x": [piece.left for piece in pieces],
            "dw": [piece.width for piece in pieces],
            "dh": [many] * len(pieces),
        }
        self.rows.start, self.rows.end = many - 0.5, -0.5
        seen = pieces[-1].image[np.isfinite(pieces[-1].image)] if pieces else np.zeros(0, np.float32)
        self.colours.high = max(float(np.percentile(seen, BRIGHTEST)) if seen.size else 1.0, 1e-3)

    def _fill_instances(self, past: Past | None) -> None:
        last = past.last if past is not None else None
        stored = last.stored if last is not None else np.zeros((0, len(self.sides)), np.int64)
        data: dict[str, Any] = {f"stored_{side}": stored[:, side] for side in range(stored.shape[1])}
        size = last.bytes / 1e6 if last is not None else np.zeros(0)
        self.instances.data = {**data, "instance": np.arange(len(stored)), "megabytes": size}


def heat_map(sources: Sources, height: int = 300) -> figure:
    """Busy time, instance by batch; a dashed line before each batch that began with a rebalance."""
    plot = _figure(sources, height, y_range=sources.rows, y_axis_label="instance")
    drawn = plot.image("image", x="x", y=-0.5, dw="dw", dh="dh", source=sources.heat, color_mapper=sources.colours)
    _hover(plot, [drawn], [("batch", "$x{0}"), ("instance", "$y{0}"), ("busy", "@image{0,0.0} ms")], mode="mouse")
    plot.vspan("left", source=sources.moves, line_color="white", line_width=3, line_alpha=0.8)
    marks = plot.vspan("left", source=sources.moves, line_color=RED, line_width=2, line_dash="dashed")
    _hover(plot, [marks], [("rebalance", "before batch @batch"), ("tuples", "@tuples{0,0}")], mode="mouse")
    bar = ColorBar(color_mapper=sources.colours, width=8, height=height - 60, title="ms", border_line_color=None)
    bar.background_fill_color, bar.margin, bar.padding = None, 0, 4
    plot.add_layout(bar, "right")
    plot.ygrid.visible = plot.xgrid.visible = False
    plot.yaxis.ticker.num_minor_ticks = 0
    plot.yaxis.ticker.min_interval = 1
    return plot


def busiest(sources: Sources, height: int = 128) -> figure:
    """The busiest instance over the mean; a dashed line where a rebalance was made."""
    plot = _figure(sources, height, y_axis_label="busiest / mean")
    _one(sources, plot)
    line = plot.line("batch", "busy_ratio", source=sources.history, color=BUSIEST, line_width=2.5)
    _hover(plot, [line], [("batch", "@batch"), ("busiest / mean", "@busy_ratio{0.00}")])
    plot.y_range.start, plot.y_range.min_interval = 0.9, 0.5
    return _without_batches(plot)


def own_measure(sources: Sources, height: int = 168) -> figure:
    """The strategy's own measure over its threshold, if it has one; a triangle at each rebalance."""
    plot = _figure(sources, height, y_axis_type="log", y_axis_label="own / threshold")
    _one(sources, plot)
    line = plot.line("batch", "measure", source=sources.history, color=OWN, line_width=2.5)
    _hover(plot, [line], [("batch", "@batch"), ("own measure", "@own{0.00}"), ("threshold", "@threshold{0.0[00]}")])
    before = plot.scatter("batch", "before", source=sources.moves, size=9, color=RED, marker="inverted_triangle")
    _hover(plot, [before], [("rebalance before batch", "@batch"), ("why", "@why"), ("own measure", "@change"),
                            ("tuples", "@tuples{0,0}"), ("pause", "@pause{0,0} ms")], mode="mouse")  # fmt: skip
    plot.scatter([0, 0], [0.5, 2.0], alpha=0)  # so that an even join has more than one tick
    plot.yaxis.ticker = FixedTicker(ticks=[digit * 10.0**power for power in range(-2, 7) for digit in (1, 2, 5)])
    plot.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    return plot


def _one(sources: Sources, plot: figure) -> None:
    """What both measures have: the line at 1, and a dashed line before each batch that began with a rebalance."""
    plot.add_layout(Span(location=1, dimension="width", line_color=GREY, line_width=1, line_dash="dotted"))
    plot.vspan("left", source=sources.moves, line_color=RED, line_width=1.2, line_dash="dashed", line_alpha=0.7)


def rows_in(sources: Sources, height: int = 104) -> figure:
    """Rows a second of each side, one above the other."""
    plot = _small(sources, height, "rows/s")
    names = [f"rows_{side}" for side in range(len(sources.sides))]
    drawn = plot.varea_stack(
        names, x="batch", source=sources.history, color=_of_sides(sources), legend_label=[*map(_plain, sources.sides)],
        fill_alpha=0.85,
    )  # fmt: skip
    line = plot.line("batch", names[0], source=sources.history, line_alpha=0)
    tips = [(alias, f"@rows_{side}{{0.0a}}/s") for side, alias in enumerate(map(_plain, sources.sides))]
    _hover(plot, [line], [("batch", "@batch"), *tips])
    _legend(plot)
    return _without_batches(plot) if drawn else plot


def results_out(sources: Sources, height: int = 100) -> figure:
    """Results a second."""
    plot = _small(sources, height, "results/s")
    plot.varea("batch", 0, "results_s", source=sources.history, color=GREEN, fill_alpha=0.35)
    line = plot.line("batch", "results_s", source=sources.history, color=GREEN, line_width=2)
    _hover(plot, [line], [("batch", "@batch"), ("results", "@results_s{0.0a}/s")])
    return plot


def lag(sources: Sources, height: int = 80) -> figure:
    """How far the latest event of each side is behind the clock."""
    plot = _small(sources, height, "lag s")
    lines = [
        plot.line("batch", f"lag_{side}", source=sources.history, color=SIDES[side % len(SIDES)], line_width=2,
                  line_dash=("solid", "dashed", "dotted")[side % 3])
        for side in range(len(sources.sides))
    ]  # fmt: skip
    tips = [(alias, f"@lag_{side}{{0,0.0}} s") for side, alias in enumerate(map(_plain, sources.sides))]
    _hover(plot, lines[:1], [("batch", "@batch"), *tips])
    return _without_batches(plot)


def batch_time(sources: Sources, height: int = 344) -> figure:
    """What the time of each batch went into."""
    plot = _figure(sources, height, y_axis_label="seconds", y_range=sources.seconds)
    names = [f"span_{n}" for n in range(len(SPANS))]
    bars = plot.vbar_stack(
        names, x="middle", width="width", source=sources.history, color=SPAN_COLOURS, legend_label=list(SPANS),
        line_width=0,
    )  # fmt: skip
    tips = [(name, f"@span_{n}{{0.000}} s") for n, name in enumerate(SPANS)]
    _hover(plot, bars[2:3], [("batch", "@batch"), ("whole", "@duration_s{0.000} s"), *tips])
    _legend(plot, columns=4)
    return plot


def state_now(sources: Sources, height: int = 164) -> figure:
    """Stored tuples of each instance after the last batch, by side."""
    plot = figure(height=height, sizing_mode="stretch_width", tools="", toolbar_location=None, y_axis_label="tuples")
    _plainly(plot)
    names = [f"stored_{side}" for side in range(len(sources.sides))]
    bars = plot.vbar_stack(
        names, x="instance", width=0.8, source=sources.instances, color=_of_sides(sources),
        legend_label=[*map(_plain, sources.sides)], line_width=0,
    )  # fmt: skip
    tips = [(alias, f"@stored_{side}{{0,0}}") for side, alias in enumerate(map(_plain, sources.sides))]
    _hover(plot, bars[:1], [("instance", "@instance"), *tips, ("memory", "@megabytes{0,0.0} MB")])
    plot.y_range.start = 0
    plot.xaxis.axis_label, plot.xgrid.visible = "instance", False
    plot.xaxis.ticker.min_interval, plot.xaxis.ticker.num_minor_ticks = 1, 0
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    _legend(plot)
    return plot


def state_over_time(sources: Sources, height: int = 90) -> figure:
    """Stored tuples of all instances, by side."""
    plot = _small(sources, height, "stored")
    names = [f"stored_{side}" for side in range(len(sources.sides))]
    plot.varea_stack(names, x="batch", source=sources.history, color=_of_sides(sources), fill_alpha=0.85)
    line = plot.line("batch", names[0], source=sources.history, line_alpha=0)
    tips = [(alias, f"@stored_{side}{{0.0a}}") for side, alias in enumerate(map(_plain, sources.sides))]
    _hover(plot, [line], [("batch", "@batch"), *tips, ("memory", "@megabytes{0,0.0} MB")])
    return _without_batches(plot)


def expiry(sources: Sources, height: int = 92) -> figure:
    """Stored tuples that expired, a batch."""
    plot = _small(sources, height, "expired")
    bars = plot.vbar(x="middle", top="expired", width="width", source=sources.history, color=GREY, line_width=0)
    _hover(plot, [bars], [("batch", "@batch"), ("expired", "@expired{0,0} a batch")])
    return plot


def late(sources: Sources, height: int = 92) -> figure:
    """The percentage of rows that were late."""
    plot = _small(sources, height, "late %")
    plot.varea("batch", 0, "late", source=sources.history, color=RED, fill_alpha=0.3)
    line = plot.line("batch", "late", source=sources.history, color=RED, line_width=2)
    _hover(plot, [line], [("batch", "@batch"), ("late", "@late{0.00} %")])
    return plot


def _figure(sources: Sources, height: int, **options: Any) -> figure:
    plot = figure(
        height=height, sizing_mode="stretch_width", x_range=sources.batches, tools="xpan,xwheel_zoom,reset",
        active_drag=None, active_scroll=None, toolbar_location="above", toolbar_inner=True, **options,
    )  # fmt: skip
    plot.toolbar.autohide, plot.toolbar.logo = True, None
    plot.xaxis.ticker.min_interval, plot.xaxis.ticker.num_minor_ticks = 1, 0
    plot.xaxis.formatter = BasicTickFormatter(use_scientific=False)
    plot.xaxis.axis_label = "batch"
    if "y_range" not in options:
        plot.y_range.only_visible = True
    return _plainly(plot)


def _small(sources: Sources, height: int, label: str) -> figure:
    """A low plot that starts at 0, one of several under each other."""
    plot = _figure(sources, height, y_axis_label=label)
    plot.toolbar_location = None
    plot.y_range.start = 0
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    plot.yaxis.ticker.desired_num_ticks = 3
    return plot


def _plainly(plot: figure) -> figure:
    """Without a frame, on the colour of whatever is behind it."""
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.min_border_left, plot.min_border_right, plot.min_border_top = 58, 6, 4
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = None
        axis.axis_label_text_font_style, axis.axis_label_text_font_size = "normal", "11px"
        axis.major_label_text_font_size = "11px"
        axis.axis_label_text_font = axis.major_label_text_font = "system-ui, sans-serif"
    plot.xgrid.visible = False
    return plot


def _without_batches(plot: figure) -> figure:
    """The same without labels under it, since the plot below has them."""
    plot.xaxis.ticker = FixedTicker(ticks=[])
    plot.xaxis.axis_label = None
    plot.min_border_bottom = 2
    return plot


def _legend(plot: figure, columns: int = 4) -> None:
    legend = plot.legend[0]
    legend.orientation, legend.ncols, legend.location = "horizontal", columns, "left"
    legend.background_fill_alpha = legend.border_line_alpha = 0
    legend.label_text_font, legend.label_text_font_size = "system-ui, sans-serif", "11px"
    legend.padding, legend.margin, legend.spacing = 0, 2, 12
    legend.glyph_height = legend.glyph_width = 12
    legend.label_height = 12
    legend.click_policy = "mute"
    plot.add_layout(legend, "above")


def _hover(plot: figure, renderers: Sequence[Any], tips: Sequence[tuple[str, str]], mode: str = "vline") -> None:
    """A tip for what is drawn. Values stand in it as text: Bokeh escapes them unless a format says otherwise."""
    plot.add_tools(HoverTool(renderers=list(renderers), tooltips=list(tips), mode=mode, visible=False))


def _of_sides(sources: Sources) -> list[str]:
    return [SIDES[side % len(SIDES)] for side in range(len(sources.sides))]


def _plain(alias: str) -> str:
    """An alias as the label of a tip or in a legend, where @ and $ would name a column or begin TeX."""
    return "".join(c for c in alias if c.isalnum() or c in "_- ") or "side"


def _moves(migrations: Sequence[Migration], threshold: float) -> dict[str, list[Any]]:
    return {
        "batch": [event.batch for event in migrations],
        "left": [event.batch - 0.5 for event in migrations],
        "why": [event.why for event in migrations],
        "before": [max((event.imbalance_before or threshold) / threshold, LEAST) for event in migrations],
        "change": [
            "-" if event.imbalance_before is None or event.imbalance_after is None
            else f"{event.imbalance_before:.2f} to {event.imbalance_after:.2f}"
            for event in migrations
        ],
        "tuples": [event.tuples for event in migrations],
        "pause": [event.pause_ms for event in migrations],
    }  # fmt: skip
