"""The benchmark of colliding keys makes keys that collide, and keeps what it found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from evenjoin.bench.colliding import CASES, crafted, main
from evenjoin.kernels.hashing import KeyCodec


@pytest.mark.parametrize(("each", "codes"), [(1, 60), (2, 30), (60, 1)])
def test_crafted_keys_share_their_codes(each: int, codes: int) -> None:
    """Sixty different keys have so many different codes under the seed, and sixty under another."""
    keys = crafted(99, 60, each)
    assert len(np.unique(keys)) == 60
    found = [KeyCodec((pa.int64(),), (True,), seed).encode([pa.array(keys)], 60)[0] for seed in (99, 98)]
    assert [len(np.unique(some)) for some in found] == [codes, 60]


def test_every_case_is_told_and_kept(tmp_path: Path) -> None:
    """Small: a line for each case on the screen and in the file."""
    result = CliRunner().invoke(main, ["--keys", "300", "--repeat", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "colliding.json").read_text())
    assert [timing["case"] for timing in record["timings"]] == list(CASES)
    assert all(case in result.output for case in CASES)
