"""What the eye forgets: layers import downwards only, the public names are pinned, and pyspark stays where it belongs.

Imports are found by reading the source, so that those inside a function and those under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import evenjoin
from walk import rebalance_walk, tuple_walk

SOURCE = Path(evenjoin.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

LAYERS = [
    "errors",
    "version",
    "shown",
    "kernels",
    "spec",
    "placement",
    "state",
    "load",
    "events",
    "instance",
    "strategies",
    "commit",
    "page",
    "runtime",
    "runtime/spark",
    "api",
    "evenjoin",  # __init__.py: the package as a user sees it
    "testing",
    "console",
    "bench",
    "sim",
    "cli",
]
"""Lowest first: a file may import what is in its own layer or in one that stands earlier in this list."""

PYSPARK = {"runtime/spark", "bench", "cli"}
"""The engine imports pyspark in one folder; the benchmarks and the demo run Spark themselves."""


def layer_of(module: str) -> str:
    """The layer of a module by its dotted name: evenjoin.runtime.spark.join is in runtime/spark."""
    parts = module.split(".")[1:]
    return "runtime/spark" if parts[:2] == ["runtime", "spark"] else parts[0] if parts else "evenjoin"


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Every import of a source, as (line, module); what is imported from our own packages may be a module itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in NAMES else str(node.module)


def upwards(module: str, source: str) -> list[str]:
    """The imports of a module that do not go downwards."""
    height = LAYERS.index(layer_of(module))
    return [
        f"{module}:{line} imports {found}"
        for line, found in imports(source)
        if found.split(".")[0] == "evenjoin" and LAYERS.index(layer_of(found)) > height
    ]


def test_layers_import_downwards():
    """No layer knows one above it: each can be read, and tested, without those."""
    assert [bad for path in MODULES for bad in upwards(name_of(path), path.read_text())] == []


def test_every_file_has_a_layer():
    """And the table names no layer that is not there."""
    assert {layer_of(name) for name in NAMES} == set(LAYERS)


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("evenjoin.spec.window", "from evenjoin.errors import SpecError", []),
        ("evenjoin.runtime.spark.join", "from evenjoin.runtime import settings", []),
        ("evenjoin.runtime.local", "from evenjoin.runtime.spark import join", ["evenjoin.runtime.spark.join"]),
        ("evenjoin.spec.window", "def f():\n    import evenjoin.api", ["evenjoin.api"]),
        ("evenjoin.runtime.spark.join", "if TYPE_CHECKING:\n    from evenjoin import api", ["evenjoin.api"]),
        ("evenjoin.api", "from evenjoin import __version__", ["evenjoin"]),
        ("evenjoin.bench.run", "from evenjoin.cli.draw import bar", ["evenjoin.cli.draw"]),
    ],
)
def test_an_import_that_goes_upwards_is_found(module, source, found):
    """Wherever it stands in the file, and however it is written."""
    assert [bad.split(" imports ")[1] for bad in upwards(module, source)] == found


def test_the_public_names():
    """What `from evenjoin import ...` promises; a change here is a change for users and belongs in the CHANGELOG."""
    assert evenjoin.__all__ == [
        "CheckpointInUseError",
        "CheckpointMismatchError",
        "ConditionError",
        "EvenJoinError",
        "Guards",
        "Scaling",
        "SpecError",
        "StateCorruptionError",
        "UnboundedStateWarning",
        "errors",
        "join",
        "local",
        "parquet",
        "progress",
        "sliding",
        "strategies",
        "tumbling",
        "tune",
    ]
    assert all(hasattr(evenjoin, name) for name in evenjoin.__all__)


def test_importing_evenjoin_loads_no_pyspark():
    """Nor what only the command line, the benchmarks and tests need."""
    heavy = ("pyspark", "py4j", "click", "rich", "bokeh", "tornado", "prometheus_client", "duckdb", "matplotlib",
             "hypothesis", "evenjoin.testing")  # fmt: skip
    code = f"import sys, evenjoin; print(*[name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == ""


def test_a_task_loads_what_it_runs():
    """A new Python worker does not import the strategies; nothing imports pandas, which
    pyarrow loads itself as soon as a list or a numpy array is turned into Arrow."""
    heavy = ("pandas", "evenjoin.strategies", "evenjoin.load.adsp", "evenjoin.runtime.driver")
    code = f"import sys, evenjoin.runtime.spark.tasks; print(*[name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == ""


def test_pyspark_is_imported_by_one_layer_of_the_engine():
    """The core runs, and is tested, without Spark."""
    importers = {
        layer_of(name_of(path))
        for path in MODULES
        for _, found in imports(path.read_text())
        if found.split(".")[0] == "pyspark"
    }
    assert importers == PYSPARK


WALKS = {"of a rebalance": rebalance_walk} | {f"of a tuple, batch {n}": partial(tuple_walk, n) for n in range(1, 6)}


@pytest.mark.parametrize("found", WALKS.values(), ids=WALKS)
@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_walk_is_short_enough_to_be_read(found):
    """At most 20 files (21 of a rebalance) and 15 returns to one that was open before, in every batch after the first
    of a start; `python tests/walk.py` prints the way."""
    way, most = found(), 21 if found is rebalance_walk else 20
    assert (way.files <= most, way.returns <= 15) == (True, True), way.hops


def test_no_code_knows_that_there_are_two_sides():
    """A path names the store it probes; only the matrix of A-DSP, which has rows and columns, has an `ACROSS`."""
    found = [
        f"{path}:{n}" for path in MODULES for n, line in enumerate(path.read_text().splitlines()) if "1 - side" in line
    ]
    assert found == []
