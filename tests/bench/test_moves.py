"""The benchmark of small migrations moves what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from evenjoin.bench.moves import INSTANCES, changes, home, load, main, pauses
from evenjoin.placement import check

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")


@pytest.mark.parametrize("opened", ["warm", "cold"])
def test_each_change_moves_its_part(tmp_path: Path, opened: str) -> None:
    """Of 20,000 tuples: the hot key 1 %, a key that is not stored nothing, a bucket a 32nd, a rescale about half."""
    load(tmp_path / "ck", 20_000)
    moved = {name: tuples for name, (_, tuples) in pauses(tmp_path / "ck", 20_000, opened).items()}
    total = 20_000 + 2 * 2_000
    assert moved["key"] == 200 + 2_000 // 50
    assert moved["unstored"] == 0
    assert moved["bucket"] / total == pytest.approx(1 / home().buckets, rel=0.3)
    assert moved["rescale"] / total == pytest.approx(0.5, abs=0.05)


def test_the_tables_are_right() -> None:
    """Each follows the first one and passes the check."""
    assert {name: check(table).instances - INSTANCES for name, table in changes().items()} == {
        "key": 0, "unstored": 0, "bucket": 0, "rescale": 1,
    }  # fmt: skip


def test_a_tree_is_measured_against_another(tmp_path: Path) -> None:
    """Here against itself: a line for each change, with a ratio for the one turn."""
    import evenjoin

    tree = Path(evenjoin.__file__).parents[2]
    result = CliRunner().invoke(main, ["--tuples", "5000", "--repeat", "1", "--before", str(tree)])
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in (*changes(), "before / now"))
