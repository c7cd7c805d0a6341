"""Docstrings as markdown: the lines `name: what it is` of a docstring become a list, for mkdocstrings (griffe).

Our docstrings list settings one a line, so that they read well in a terminal. Markdown would run such lines together.
Guarantee: only the shape changes, no word does. A line that is indented or follows without a name goes on with the one
before it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SETTING = re.compile(r"(?P<names>[a-z_]+(?:, [a-z_]+)*): (?P<text>.+)")


class Parameters(griffe.Extension):
    """Reshapes every docstring that griffe has read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    """The text, with its settings as a list; indented blocks, which are code or drawings, stay."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        setting = SETTING.fullmatch(line)
        if setting:
            if not inside:
                lines.append("")
            names = ", ".join(f"`{name}`" for name in setting["names"].split(", "))
            line = f"* {names}: {setting['text']}"
        elif inside and line.strip():
            line = f"  {line.strip()}"
        inside = bool(setting) or (inside and bool(line.strip()))
        lines.append(line)
    return "\n".join(lines)
