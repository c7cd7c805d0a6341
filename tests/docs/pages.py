"""The pages of the documentation as values: code blocks with their markers, headings, links and pictures.

A block is a fence with a language. A comment on the line before it says what a test has to know:

    <!-- not run: a broker is needed -->    the block is only read, not run; the reason is for the reader of the source
    <!-- printed -->                        the block is what the block before it prints

Not here: what blocks do (test_blocks.py), and whether commands are there (commands.py).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
"""What users read. Its blocks are run, its links and pictures checked."""
FOR_CONTRIBUTORS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
"""Only the links of these are checked."""

FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>\S*)[^`]*")
MARKER = re.compile(r" *<!-- (?P<kind>not run|printed)(?:: (?P<reason>.+?))? -->")
HEADING = re.compile(r"(?P<level>#+) (?P<title>.+)")
LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)[^)]*\)")
PICTURE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)")
SPAN = re.compile(r"(?<!`)`(?P<text>[^`\n]+)`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `line` is that of its first line of text; `kind` and `reason` are its marker's, or empty."""

    page: str
    line: int
    language: str
    text: str
    kind: str = ""
    reason: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its blocks, and the lines outside of them (those inside are empty)."""

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def anchors(self) -> set[str]:
        """What a link into this page may name."""
        titles = [match["title"] for line in self.prose if (match := HEADING.fullmatch(line))]
        given = {found for line in self.prose for found in re.findall(r'\{ *#([\w-]+) *\}|id="([\w-]+)"', line)}
        return {slug(title) for title in titles} | {one or two for one, two in given}

    def links(self) -> list[str]:
        return [match["target"] for line in self.prose for match in LINK.finditer(SPAN.sub("", line))]

    def pictures(self) -> list[tuple[int, str]]:
        """(index of its line in the prose, target) of each picture."""
        return [(n, match["target"]) for n, line in enumerate(self.prose) for match in PICTURE.finditer(line)]

    def spans(self) -> list[str]:
        """Pieces of code within the text."""
        return [match["text"] for line in self.prose for match in SPAN.finditer(line)]


def slug(title: str) -> str:
    """The anchor of a heading, as mkdocs makes it. GitHub makes the same of headings without punctuation."""
    words = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", title)).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


def read_page(path: Path) -> Page:
    """The page at a path. AssertionError if a fence is not closed."""
    blocks: list[Block] = []
    prose: list[str] = []
    name, lines = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8").splitlines()
    marker, at = None, 0
    while at < len(lines):
        fence = FENCE.fullmatch(lines[at])
        if fence is None:
            marker = MARKER.fullmatch(lines[at]) if lines[at].strip() else marker
            prose.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].strip() != fence["ticks"]:
            end += 1
        assert end < len(lines), f"{name}:{at + 1}: a fence that is not closed"
        text = textwrap.dedent("\n".join(lines[at + 1 : end])) + "\n"
        kind, reason = (marker["kind"], marker["reason"] or "") if marker else ("", "")
        blocks.append(Block(name, at + 2, fence["language"], text, kind, reason))
        prose += [""] * (end + 1 - at)
        marker, at = None, end + 1
    return Page(path, tuple(blocks), tuple(prose))
