"""Every block of README and docs/ runs, in the order of its page, or says why it cannot.

The blocks of a page are one story: they share their names and their folder, and begin with the streams of inputs.py.
A command line of `evenjoin` runs in this process; other commands are checked to be there (commands.py).
"""

from __future__ import annotations

import ast
import io
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import OURS, check_command, lines_of
from inputs import streams, write_inputs
from pages import PAGES, Block, read_page

from evenjoin.cli.app import evenjoin as evenjoin_command

LANGUAGES = {"python", "bash", "text"}
READ = [read_page(path) for path in PAGES]
STORIES = [page for page in READ if any(b.language in ("python", "bash") and b.kind != "not run" for b in page.blocks)]


@pytest.mark.spark
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, spark, tmp_path, monkeypatch, request):
    """From the first to the last, and what a page says is printed is printed."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    names = {"__name__": "__main__", "spark": spark, **streams(spark, tmp_path)}
    printed = ""
    for block in page.blocks:
        if block.kind == "printed":
            assert _trimmed(printed) == _trimmed(block.text), block.where
        elif block.kind != "not run" and block.language == "python":
            printed = _run(block, names, tmp_path)
        elif block.kind != "not run" and block.language == "bash":
            printed = _run_commands(block)
    for query in spark.streams.active:
        query.stop()


def _run(block: Block, names: dict, folder: Path) -> str:
    said = io.StringIO()
    source = "\n" * (block.line - 1) + block.text
    tree = ast.fix_missing_locations(Located(folder).visit(ast.parse(source)))
    with warnings.catch_warnings(), redirect_stdout(said):
        warnings.simplefilter("ignore")
        exec(compile(tree, block.page, "exec"), names)
    return said.getvalue()


class Located(ast.NodeTransformer):
    """Folders ("orders/") become those of the test. The JVM was started elsewhere, and does not change its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        found = isinstance(node.value, str) and re.fullmatch(r"[\w-]+/", node.value)
        return ast.copy_location(ast.Constant(str(self.folder / node.value)), node) if found else node


def _run_commands(block: Block) -> str:
    said = ""
    for words in lines_of(block.text):
        if words[0] != "evenjoin":
            check_command(words)
            continue
        done = CliRunner().invoke(evenjoin_command, words[1:])
        assert done.exit_code == 0, f"{block.where}: {' '.join(words)}\n{done.output}"
        said += done.stdout
    return said


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


BLOCKS = [block for page in READ for block in page.blocks]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_block_is_of_a_language_that_is_read(block):
    """And one that is not run has a reason, and is Python or a command all the same."""
    assert block.language in LANGUAGES, f"{block.where}: ```{block.language}; say one of {sorted(LANGUAGES)}"
    assert (block.kind == "not run") == bool(block.reason)
    assert block.kind != "printed" or block.language == "text"
    if block.language == "python":
        ast.parse(block.text)
    elif block.language == "bash":
        for words in lines_of(block.text):
            check_command(words)


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_a_command_in_a_sentence_is_there(page):
    """`evenjoin inspect ck/ --migrations` in the text has the options that it names."""
    for span in page.spans():
        if span.split()[0] in OURS and len(span.split()) > 1 and "..." not in span:
            for words in lines_of(span):
                check_command(words, complete=False)
