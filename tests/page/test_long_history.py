"""A page of 10,000 batches stays small and has all of them. How fast it opens is printed; docs/page.md tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from page import chromium
from page.long_history import measured, written

MOST_MB = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING)]


@pytest.mark.timeout(300)
def test_the_page_of_ten_thousand_batches_needs_less_than_300_mb(tmp_path: Path) -> None:
    """With the whole history read, and its newest rebalances listed."""
    found = measured(written(tmp_path / "ck", 10_000), 9_999)
    print(found)
    assert found.most_mb < MOST_MB
    assert found.rebalances > 0
