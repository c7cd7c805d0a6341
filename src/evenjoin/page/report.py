"""The report: the boards of one or more checkpoints as one HTML file that needs no server and no network.

    write_report("ck", "report.html")          one join
    render([...], frame)                       several, under tables of the caller's (bench/compare_page.py)

Guarantee: Bokeh's own scripts are part of the file, and its policy forbids to load anything. A checkpoint is only read.
Not here: the look-up of a key, which asks a server (server.py); and anything that changes while one reads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.resources import INLINE

from evenjoin.page.board import Board, choose_without_server
from evenjoin.page.follow import Checkpoint, Past, read_whole
from evenjoin.page.frame import Frame, Framed, asked, framed, without_boards
from evenjoin.version import VERSION


def write_report(checkpoint: Checkpoint, path: str | os.PathLike[str], now: float | None = None) -> Path:
    """Write the report of a checkpoint; returns where it is."""
    past = read_whole(checkpoint)
    moment = time.time() if now is None else now
    whole = Frame("EvenJoin", asked(past.join), footer=_footer(past, moment))
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render([("", past)], whole, moment), encoding="utf-8")
    return out


def render(pasts: Sequence[tuple[str, Past]], frame: Frame, now: float) -> str:
    """The file: a board for each past, under its title. There may be none."""
    boards = []
    for number, (title, past) in enumerate(pasts):
        prefix = f"run{number}-" if len(pasts) > 1 else ""
        board = Board(past.join, prefix=prefix)
        board.show(past, now)
        choose_without_server(board)
        boards.append(Framed(title, prefix, board))
    if not boards:  # Bokeh makes no page without a model
        return without_boards(frame)
    document = Document()
    framed(document, boards, frame, live=False)
    html: str = file_html(
        document, INLINE, title=document.title, template=document.template,
        template_variables=document.template_variables, suppress_callback_warning=True,
    )  # fmt: skip
    return html


def _footer(past: Past, now: float) -> str:
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    batches = f"batches {past.moments[0].batch} to {past.moments[-1].batch}" if past.moments else "no batch yet"
    return f"EvenJoin {VERSION}, {made}, {batches}. The live page of the same join: evenjoin ui CHECKPOINT"
