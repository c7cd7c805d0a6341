"""What TuplePacking saves: packs in place of pairs, over how dense a join is and how many units it has.

    python -m evenjoin.bench.packing            runs the joins here and draws docs/packing.png; a minute or two

Three streams with random keys are joined by the embedded engine, as a cycle and as a chain, within a window that moves
on. Once it is full, what is made is counted. Its density is lambda, the pairs that a newcomer makes at a unit.

* Where the newcomer is the hub (everywhere in a cycle), packs are fewer than pairs by 1 - (1 - exp(-lambda)) / lambda,
  if pairs are spread at random. The paper's Fig. 18 has 71 %, which is lambda 3.3.
* At the middle's units of a chain the stored tuple is the hub, and gets a pack in every batch that brings it members.
  So the size of a batch, as a part of the window, counts there too. The paper's Fig. 19 has 66 %.

Not here: time. Packs save comparisons, messages and state; what that is worth is measured by `theta3`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np
import pyarrow as pa

from evenjoin.api import local
from evenjoin.bench.compare_plots import COLOURS, DPI
from evenjoin.errors import UnboundedStateWarning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Form = Literal["cycle", "chain"]
CONDITIONS: dict[Form, str] = {
    "cycle": "r.a = s.a AND s.b = t.b AND r.b = t.a",
    "chain": "r.a = s.a AND s.b = t.b",
}
NEAR = " AND ".join(f"{y}.ts BETWEEN {x}.ts - {{w}} AND {x}.ts + {{w}}" for x, y in ("rs", "st", "rt"))
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("ts", pa.int64())])
PAPER = {"cycle": 0.71, "chain": 0.66}
"""By how much fewer the paper's packs are than its pairs (Fig. 18 and 19)."""
DENSITIES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
UNITS = (1, 2, 4)
PARTS = (20, 5, 1)
"""How many batches a window has."""


@dataclass(frozen=True, slots=True)
class Saving:
    """One run. `density` is lambda as it came out; `generated` and `alive` are the shares by which packs are fewer than
    pairs, of those that were made and of those that are kept at the end."""

    form: Form
    units: int
    parts: int
    density: float
    generated: float
    alive: float
    pairs: int


def expected(density: float) -> float:
    """The share saved where newcomers are hubs and their pairs are spread at random."""
    return 1 - (1 - math.exp(-density)) / density


def saving(form: Form, density: float, units: int, parts: int, window: int = 400, seed: int = 1) -> Saving:
    """Run a join whose window has so many tuples a side: two windows to fill it, and one that counts."""
    rng = np.random.default_rng(seed)
    values = max(round(window / units / density), 1)
    step = window // parts
    options: dict[str, Any] = {"event_time": "ts", "watermark": 0, "select": ["r.ts AS ts"]}
    options |= {"strategy": "trijoin", "layout": "split", "instances": 3 * units}
    on = f"{CONDITIONS[form]} AND {NEAR.format(w=window)}"
    made = pairs = alive = kept = 0
    with local(dict.fromkeys("rst", SCHEMA), on, **options) as join:
        for start in range(0, 3 * window, step):
            times = np.arange(start, start + step)
            join.process({n: pa.table([*rng.integers(0, values, (2, step)), times], schema=SCHEMA) for n in "rst"})
            progress = join.progress()
            assert progress is not None
            if start >= 2 * window:
                made, pairs = made + progress.packs[0], pairs + progress.packs[1]
                _, _, alive, kept = progress.packs
    stores = 6 if form == "cycle" else 4  # of packs: each side's newcomers make packs at one or two other sides' units
    newcomers = stores * window * units
    return Saving(form, units, parts, pairs / newcomers, 1 - made / pairs, 1 - alive / kept, pairs)


def measured() -> Iterator[Saving]:
    """Every run of the picture."""
    for units in UNITS:
        yield from (saving("cycle", density, units, 5) for density in DENSITIES)
    for parts in PARTS:
        yield from (saving("chain", density, 2, parts) for density in DENSITIES)


def draw(found: list[Saving], path: Path) -> None:
    """The picture: cycles by their units on the left, chains by the size of their batches on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    for number, units in enumerate(UNITS):
        some = [one for one in found if (one.form, one.units) == ("cycle", units)]
        _line(left, some, "generated", number, f"{units} unit{'s' if units > 1 else ''} a side")
    for number, parts in enumerate(PARTS):
        some = [one for one in found if (one.form, one.parts) == ("chain", parts)]
        told = "a window" if parts == 1 else f"1/{parts} window"
        _line(right, some, "generated", number, f"batch: {told}")
        _line(right, some, "alive", number, "alive", linestyle=":")
    for axes, form, title in ((left, "cycle", "Cyclic join"), (right, "chain", "Chain join")):
        density = np.linspace(0.05, max(one.density for one in found), 100)
        axes.plot(density, [expected(x) for x in density], color="black", linewidth=0.8, label="1 - (1 - exp(-λ)) / λ")
        axes.axhline(PAPER[form], color="red", linewidth=1.0, linestyle="--", label=f"the paper: {PAPER[form]:.0%}")
        axes.set_title(f"{title}: packs fewer than pairs", fontsize=11)
        axes.set_xlabel("λ: pairs of a newcomer at a unit")
        axes.grid(alpha=0.3)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend(fontsize=7, loc="lower right", ncols=1 if form == "cycle" else 2)
    figure.savefig(path, format="png", dpi=DPI)


def _line(axes: Axes, some: list[Saving], what: str, number: int, label: str, linestyle: str = "-") -> None:
    some = sorted(some, key=lambda one: one.density)
    values = [getattr(one, what) for one in some]
    axes.plot([one.density for one in some], values, linestyle, color=COLOURS[number + 1], marker=".", label=label)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--out", default="docs/packing.png", type=click.Path(path_type=Path), show_default=True)
@click.option("--figures", default="build/bench/packing.json", type=click.Path(path_type=Path), show_default=True)
def main(out: Path, figures: Path) -> None:
    """Measure what packing saves, and draw it beside the paper's figures."""
    warnings.simplefilter("ignore", UnboundedStateWarning)
    found = []
    for one in measured():
        found.append(one)
        click.echo(
            f"{one.form}, {one.units} units, {one.parts:>2} batches a window: lambda {one.density:.2f}, packs fewer by "
            f"{one.generated:.0%} generated, {one.alive:.0%} alive (random hubs: {expected(one.density):.0%})"
        )
    for path in (out, figures):
        path.parent.mkdir(parents=True, exist_ok=True)
    figures.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    draw(found, out)


if __name__ == "__main__":
    main()
