"""How many examples a property draws: few in `make test`, and as many more as you like in `make test-thorough`.

    @settings(max_examples=examples(100), deadline=None)

The number is what a property draws with FACTOR 1. An ordinary run draws a third of it, so that it stays quick;
`make test-thorough` draws twenty times the number. `EVENJOIN_EXAMPLES=3 make test ARGS=tests/properties` is in between.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("EVENJOIN_EXAMPLES", "0.33"))


def examples(count: int) -> int:
    """The number of examples to draw of a property whose number with FACTOR 1 is `count`."""
    return max(round(count * FACTOR), 1)
