"""How many examples a property draws: few in `make test`, and as many more as you like in `make test-thorough`.

    @settings(max_examples=examples(100), deadline=None)

The number is what a property draws with FACTOR 1. `EVENJOIN_EXAMPLES=20 make test ARGS=tests/properties` draws twenty
times as many; `make test-thorough` is that.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("EVENJOIN_EXAMPLES", "1"))


def examples(count: int) -> int:
    """The number of examples to draw of a property that draws `count` in an ordinary run."""
    return max(int(count * FACTOR), 1)
