"""The streams that tests on Spark are given are what they seem: a query that looks at the wrong moment sees no half."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_streams import write_batches


def test_a_file_is_seen_only_with_its_rows_and_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is written and while it gets its time, no name is there that Spark would read."""
    seen: list[str] = []

    def watched(call):
        def wrapper(*arguments, **options):
            done = call(*arguments, **options)
            seen.extend(path.name for path in tmp_path.iterdir() if not path.name.startswith((".", "_")))
            return done

        return wrapper

    monkeypatch.setattr(pq, "write_table", watched(pq.write_table))
    monkeypatch.setattr(os, "utime", watched(os.utime))
    write_batches(tmp_path, [pa.table({"k": [1, 2]})], first=3)
    assert seen == []
    assert [path.name for path in tmp_path.iterdir()] == ["00003.parquet"]
    assert (tmp_path / "00003.parquet").stat().st_mtime == 1_000_000_003
