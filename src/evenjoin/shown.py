"""Values as people see them: text in which every character can be seen, and small tables as text and as HTML.

    visible(text)   the text with control characters, line breaks and marks of direction written out     a terminal
    html(text)      the same, to stand in a page or in a quoted attribute                                a page
    Shown           a title and a table; `text()` for a terminal, `html()` for a notebook
    Showing         a value that `print` and a notebook show as such a table

Keys, aliases, conditions and paths come from outside: a key may hold an escape sequence that rewrites the terminal,
characters that reverse what follows them, or markup. All of it goes through one of these functions first.
It needs nothing but Python, so that a load report can show itself without the command line.
Not here: the tables of the command line (console.py, cli/draw.py) and the live page (page/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

GAP = "  "
"""Between two columns of a terminal."""


def visible(text: object, keep: str = "") -> str:
    """The text with every character that cannot be seen (control characters, line breaks, marks of direction, lone
    surrogates) written as Python writes it: \\x1b, \\n, \\u202e. Characters in `keep` stay as they are."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in whole)


def html(text: object) -> str:
    """Text from outside, to stand in an HTML page or in a quoted attribute of it."""
    return escape(visible(text))


def size(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def number(value: float | None, digits: int) -> str:
    """A figure with thousands separated; a dash for one that is not known."""
    return "-" if value is None else f"{value:,.{digits}f}"


class Printer(Protocol):
    """What IPython hands to `_repr_pretty_`."""

    def text(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A title, a table and lines under it, all plain text that is escaped where it is shown. The first column is to the
    left, the others to the right."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """As lines for a terminal."""
        table = [tuple(map(visible, row)) for row in (self.columns, *self.rows)] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [GAP.join(_cells(row, widths)).rstrip() for row in table]
        return "\n".join([visible(self.title), *lines[:1], *_rule(widths), *lines[1:], *map(visible, self.notes)])

    def html(self) -> str:
        """As a piece of a page, without a script or a style of the page around it."""
        parts = [f"<strong>{html(self.title)}</strong>"]
        if self.rows:
            body = "".join(f"<tr>{_row('td', row)}</tr>" for row in self.rows)
            parts.append(f"<table><thead><tr>{_row('th', self.columns)}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<div>{html(note)}</div>" for note in self.notes]
        return f'<div class="evenjoin">{"".join(parts)}</div>'


class Showing:
    """A value that says by `shown` how it is shown. `print` and IPython show the text, a notebook the HTML; `repr` is
    the value's own."""

    __slots__ = ()

    def shown(self) -> Shown:
        """The value as a table."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.shown().text()

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return self.shown().html()


def together(parts: Iterable[Shown]) -> tuple[str, str]:
    """Several of them, one under the other, as text and as HTML."""
    some = list(parts)
    return "\n\n".join(part.text() for part in some), "".join(part.html() for part in some)


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]


def _rule(widths: Sequence[int]) -> list[str]:
    return ["─" * (sum(widths) + len(GAP) * (len(widths) - 1))] if widths else []


def _row(tag: str, row: Sequence[str]) -> str:
    sides = ("left", *("right",) * (len(row) - 1))
    return "".join(
        f'<{tag} style="text-align:{side}">{html(text)}</{tag}>' for side, text in zip(sides, row, strict=True)
    )
