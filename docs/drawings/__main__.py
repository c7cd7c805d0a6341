"""Draws the pictures of docs/drawings from tables of this code: `python docs/drawings`, some ten seconds.

    python docs/drawings                draws all of them where they are
    python docs/drawings --into FOLDER  draws them elsewhere

Every picture is made of routing tables that the strategies made in the simulator (evenjoin.sim), which is the engine's
own code under virtual time, and of what `place` does to tuples. Nothing is drawn by hand, and the same code draws the
same files.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import keyed
import matrices
import skew
import three_sides
from matplotlib import pyplot
from matplotlib.figure import Figure

HERE = Path(__file__).parent
PICTURES = {**skew.PICTURES, **keyed.PICTURES, **matrices.PICTURES, **three_sides.PICTURES}
STYLE = {
    "svg.hashsalt": "evenjoin",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def save(figure: Figure, path: Path) -> None:
    """Write the picture. Dates and generated names are left out, so that the same picture is the same file."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Format", "Type")), bbox_inches="tight")
    pyplot.close(figure)
    path.write_text(compact(drawn.getvalue()), encoding="utf-8")


def compact(svg: str) -> str:
    """The same drawing in a few lines: no indentation, one line a group, and hundredths of a point."""
    svg = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{round(float(number[0]), 2) + 0:g}", svg)
    svg = re.sub(r"(?<=base64,)[^\"]+", lambda picture: "".join(picture[0].split()), svg)
    return re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").replace("</g><g", "</g>\n<g") + "\n"


def main(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        for name, draw in PICTURES.items():
            save(draw(), into / f"{name}.svg")
            print(into / f"{name}.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=HERE)
    main(parser.parse_args().into)
