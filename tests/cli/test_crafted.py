"""Keys, aliases, conditions and paths come from outside: nothing in them acts on a terminal or a page."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.console import cell, html, markup, visible

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

CRAFTED = "[red]x[/red]\x1b[31m\u202e\n<script>a()</script>\r:warning:\x9b2J"
SHOWN = "[red]x[/red]\\x1b[31m\\u202e\\n<script>a()</script>\\r:warning:\\x9b2J"
"""What people are to see of it."""
ACTS = re.compile("[^ -~\n\u2500-\u259f\u2026]")
"""Anything but printable ASCII, the lines between rows, the frames and bars of our tables, and the sign of a cut."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A join whose alias, condition, key and folder are crafted, with a migration."""
    folder, left = tmp_path / "[red]ck\x1b[31m", f"l{CRAFTED.replace('.', '')}"
    schema = pa.schema([("k", pa.string())])
    on = f"`{left}`.k = r.k AND r.k <> '{CRAFTED}!'"
    data = {alias: pa.table({"k": [CRAFTED] * 5}) for alias in (left, "r")}
    for instances in (1, 2):
        options = {"select": ["r.k"], "checkpoint": folder, "instances": instances}
        with evenjoin.local({left: schema, "r": schema}, on, **options) as join:
            join.process(data)
    return folder


def test_text_shows_what_was_crafted_and_does_nothing_of_it(checkpoint: Path) -> None:
    """The condition, the alias and the key are on the page as they are written, and nothing else than text is."""
    result = run("inspect", checkpoint, "--show-keys")
    assert result.exit_code == 0, result.output
    assert ACTS.findall(result.output) == []
    lines = result.output.splitlines()
    assert any(line.startswith("[red]x[/red]\\x1b[31m") for line in lines)  # the key, cut where its column ends
    assert any(f"'{SHOWN}!'" in line for line in lines)  # the condition
    assert any(f"l{SHOWN} 10, r 10" in line for line in lines)  # the alias
    assert not any(line.startswith("<script>") for line in lines)
    assert any("auto/shared on 1 -> auto/shared on 2" in line for line in lines)


def test_a_terminal_gets_no_colour_of_a_key(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal that has colours the only escape sequences are our own."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    result = CliRunner().invoke(command, ["inspect", str(checkpoint), "--show-keys"], color=True)
    assert "\x1b[1m" in result.output
    assert "\x1b[31m" not in result.output
    assert "\u202e" not in result.output
    assert SHOWN in result.output


def test_json_escapes_by_itself(checkpoint: Path) -> None:
    """The document is plain ASCII, and whoever parses it has the very key, alias and condition."""
    result = run("inspect", checkpoint, "--json", "--show-keys")
    assert ACTS.findall(result.stdout) == []
    document = json.loads(result.stdout)
    assert document["heaviest_keys"][0]["name"] == CRAFTED
    assert document["join"]["sides"][0] == f"l{CRAFTED}"
    assert f"{CRAFTED}!" in document["join"]["condition"]


def test_an_error_shows_the_path_it_is_about(tmp_path: Path) -> None:
    """A folder with a crafted name that is no checkpoint is named in the error, without effect."""
    result = run("inspect", tmp_path / "\x1b[31m[bold]no")
    assert result.exit_code == 3
    assert "\\x1b[31m[bold]no is not a checkpoint" in result.output
    assert ACTS.findall(result.output) == []


@example("\\[")
@example("[bold]\\[x] \\\\[ [")
@given(st.text())
def test_every_text_is_printed_as_it_is_seen(text: str) -> None:
    """In a table, between our own markup and on a page: what is printed is `visible(text)`, nothing more or less."""
    seen = visible(text)
    assert seen.isprintable()
    assert visible(seen) == seen
    for printed in (cell(text), f"[bold]{markup(text)}[/]"):
        out = StringIO()
        Console(file=out, width=10_000, color_system=None, emoji=False).print(printed, soft_wrap=True, highlight=False)
        assert out.getvalue() == f"{seen}\n"
    assert re.search("[<>\"']", html(text)) is None


def test_lines_of_our_own_may_stay() -> None:
    """An error has lines; all else in it is made visible."""
    assert visible("a\n\x1b[1mb\t", keep="\n") == "a\n\\x1b[1mb\\t"
