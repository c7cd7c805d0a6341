"""Whether a command that the documentation names is there, and takes the options it is given. Nothing is run.

    evenjoin VERB ...             click reads the arguments
    python -m evenjoin.X ...      the module is there; click reads the arguments if it has a command
    python -m chaos | differential   packages of tests/
    python FILE ...               the file is there
    make TARGET                   the Makefile has it
    pip install 'evenjoin[x]'     pyproject.toml has the extra

Other programs (spark-submit) are only split into words, as a shell does.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from collections.abc import Sequence

import click
from pages import ROOT

from evenjoin.cli.app import evenjoin

VARIABLE = re.compile(r"\w+=.*")
OURS = ("evenjoin", "make", "python", "pip")
IN_TESTS = ("chaos", "differential")


def lines_of(block: str) -> list[list[str]]:
    """The commands of a bash block as lists of words. Comments and lines that go on are as in a shell."""
    joined = re.sub(r"\\\n\s*", " ", block)
    found = [shlex.split(line, comments=True) for line in joined.splitlines()]
    return [words for words in found if words]


def check_command(words: Sequence[str], complete: bool = True) -> None:
    """AssertionError or click's own error if the command is not there or does not take these arguments. A command that
    is not `complete` may lack arguments, as `evenjoin compare` in a sentence does."""
    words = list(words)
    while words and VARIABLE.fullmatch(words[0]):
        words = words[1:]
    if not words:
        return
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    if program == "evenjoin":
        _check_click(evenjoin, arguments, complete)
    elif program == "make":
        _check_make(arguments)
    elif program == "pip":
        _check_pip(arguments)
    elif program == "python" and arguments[:1] == ["-m"]:
        _check_module(arguments[1], arguments[2:], complete)
    elif program == "python" and arguments:
        assert (ROOT / arguments[0]).exists(), f"no file {arguments[0]}"


def _check_click(command: click.Command, arguments: list[str], complete: bool) -> None:
    """Let click read the arguments, of the verb too; parameters are not acted upon."""
    name = command.name or "command"
    if not isinstance(command, click.Group):
        with click.Context(command, info_name=name, resilient_parsing=not complete) as context:
            command.parse_args(context, arguments)
        return
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if verb is None:
        assert set(arguments) <= {"-h", "--help", "--version"}, f"{name} {arguments}"
        return
    inner = command.commands.get(verb)
    assert inner is not None, f"evenjoin has no verb {verb!r}"
    rest = [word for word in arguments[arguments.index(verb) + 1 :] if word not in ("-h", "--help")]
    _check_click(inner, rest, complete)


def _check_module(module: str, arguments: list[str], complete: bool) -> None:
    if module in IN_TESTS:
        assert (ROOT / "tests" / module / "__main__.py").exists()
        return
    assert importlib.util.find_spec(module) is not None, f"no module {module}"
    if not module.startswith("evenjoin."):
        return
    commands = [value for value in vars(importlib.import_module(module)).values() if isinstance(value, click.Command)]
    if commands:
        _check_click(commands[-1], arguments, complete)


def _check_make(arguments: Sequence[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    asked = [word for word in arguments if not VARIABLE.fullmatch(word)]
    assert asked, "make of nothing"
    assert set(asked) <= targets, f"no target {set(asked) - targets} in the Makefile"


def _check_pip(arguments: Sequence[str]) -> None:
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE))
    for word in arguments:
        if found := re.fullmatch(r"(?:evenjoin|\.)\[([\w,]+)\]", word):
            assert set(found[1].split(",")) <= extras, f"no extra {found[1]!r}"
