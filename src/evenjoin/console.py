"""The terminal that the command line and the benchmarks print to.

Both may import this file, so that `bench` need not know `cli`. It needs rich (`pip install 'evenjoin[cli]'`);
`import evenjoin` does not load it.
Not here: what is printed (cli/draw.py, bench/report.py).
"""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 150
"""How many columns a page has that is not a terminal (a pipe, a file): enough for every table."""


def open_console() -> Console:
    """The terminal, or a wide page where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)
