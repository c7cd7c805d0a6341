"""The terminal that the command line and the benchmarks print to, and what may be printed on it.

    visible(text)   text in which every character can be seen        for the terminal as it is
    cell(text)      the same as a cell or line of rich                for tables; no markup in it is read
    markup(text)    the same inside a string with markup of our own
    html(text)      the same on a page

Keys, aliases, conditions and paths come from outside: a key may hold an escape sequence that recolours or rewrites the
terminal, characters that reverse what follows them, markup, or a line break that makes up a line of its own. Whatever
came from outside goes through one of these functions before it is printed. JSON needs none: its own escapes do this.

`visible` and `html` are those of shown.py, which needs no rich. Both layers above may import this file, so that `bench`
need not know `cli`. It needs rich (`pip install 'evenjoin[cli]'`); `import evenjoin` does not load it.
Not here: what is printed (cli/draw.py, bench/report.py).
"""

from __future__ import annotations

import re

from rich.console import Console
from rich.markup import escape as markup_escape
from rich.text import Text

from evenjoin.shown import html as html
from evenjoin.shown import visible as visible

PLAIN_WIDTH = 150
"""How many columns a page has that is not a terminal (a pipe, a file): enough for every table."""


def open_console() -> Console:
    """The terminal, or a wide page where there is none. `:name:` stays what it is: no emoji is made of it."""
    console = Console(emoji=False)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, emoji=False)


def cell(text: object) -> Text:
    """Text from outside as something that rich prints as it is."""
    return Text(visible(text))


_TAG = re.compile(r"(\\*\[[a-z#/@][^[]*?])")
"""What Rich takes for a tag, with the backslashes before it."""


def markup(text: object) -> str:
    """Text from outside, to stand in a string whose other parts are markup. Rich escapes what looks like a tag; of
    other brackets it takes a backslash away that stands before them, so that one is doubled here."""
    parts = _TAG.split(visible(text))
    whole = "".join(markup_escape(part) if n % 2 else part.replace("\\[", "\\\\[") for n, part in enumerate(parts[:-1]))
    return whole + markup_escape(parts[-1].replace("\\[", "\\\\["))
