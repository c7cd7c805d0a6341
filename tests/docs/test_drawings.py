"""The drawings of the documentation are what the code draws now.

Drawing them all takes ten seconds and more, so `make test-slow` compares them; `make test` only looks at their names.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT

DRAWINGS = DOCS / "drawings"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawings")
    command = [sys.executable, str(DRAWINGS), "--into", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_drawing_has_its_code():
    """The name of each picture of the folder is in the code that draws them."""
    trees = [ast.parse(path.read_text()) for path in DRAWINGS.glob("*.py")]
    named = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert {path.stem for path in DRAWINGS.glob("*.svg")} - named == set()


@pytest.mark.slow
def test_no_drawing_is_missing(drawn):
    assert {path.name for path in drawn.glob("*.svg")} == {path.name for path in DRAWINGS.glob("*.svg")}


@pytest.mark.slow
def test_the_drawings_are_those_of_this_code(drawn):
    """If strategies place otherwise than before, `python docs/drawings` draws them anew. (Other versions of matplotlib
    and numpy may draw the same table otherwise: they are not compared.)"""
    version = re.compile(r"Matplotlib v[\d.]+")
    old, new = ({path.name: path.read_text() for path in sorted(folder.glob("*.svg"))} for folder in (DRAWINGS, drawn))
    one, two = (version.search(next(iter(texts.values())))[0] for texts in (old, new))
    if one != two:
        pytest.skip(f"drawn by {one}, this is {two}")
    assert [name for name in old if old[name] != new[name]] == []
