"""A second driver gets a checkpoint only while the first process does not hold it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from chaos import chains, engine
from chaos.chain import draw_chain
from chaos.disturbance import RivalAccepted
from chaos.holder import second
from chaos.holds import Book, Hold, at_once
from chaos.report import Report
from evenjoin.errors import CheckpointInUseError

ATTEMPTS = 200


@contextmanager
def holder(kind, folder, *fault):
    """Another process that takes the checkpoint and gives it back all the time, from its first hold on."""
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "chaos.holder", kind, str(folder), *fault],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        while not Book(folder / "holds").holds():
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.01)
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def attempts(folder, pause, count=ATTEMPTS):
    """Try to take the checkpoint again and again, and give it back at once. How often it was refused, and let in."""
    rng, came = random.Random(2), Counter()
    with engine.holds_told(Book(folder / "holds").write):
        for _ in range(count):
            try:
                second(folder)()
                came["let in"] += 1
            except CheckpointInUseError:
                came["refused"] += 1
            time.sleep(rng.uniform(0, pause))
    return came


@pytest.mark.parametrize(
    ("kind", "pause", "count"),
    [
        ("embedded", 0.01, 50),
        pytest.param("embedded", 0.01, ATTEMPTS, marks=pytest.mark.slow),
        pytest.param("spark", 0.2, ATTEMPTS, marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_let_in_only_while_the_first_holds_nothing(kind, pause, count, tmp_path):
    """The first process lives all the time, stops and starts joins on one checkpoint, and forks children. Of so many
    second drivers those that come between two of its joins are let in, and no two holds overlap."""
    with holder(kind, tmp_path) as process:
        came = attempts(tmp_path, pause, count)
        assert process.poll() is None
    holds = Book(tmp_path / "holds").holds()
    print(kind, dict(came), f"{sum(hold.process == process.pid for hold in holds)} holds of the first")
    assert set(came) == {"let in", "refused"}
    assert at_once(holds) == []


def test_a_lock_that_is_lost_while_held_is_seen(tmp_path):
    """With a first process that deletes its lock file, holds overlap: the test above would find a lost lock."""
    with holder("embedded", tmp_path, "unlinked"):
        attempts(tmp_path, 0.01, count=40)
    assert at_once(Book(tmp_path / "holds").holds())


def chain_of(folder):
    return chains.Run(Report(), draw_chain(300000, frozenset()), 300000, folder, [])


def test_a_chain_tells_whom_it_let_in(tmp_path):
    """A second driver of a chain, here against an embedded first process with another join: it is refused, or it gets
    in while the first holds nothing, and sees that the checkpoint is of another join. How long that takes depends on
    the machine, so it tries until it has seen both."""
    chain = chain_of(tmp_path)
    both = {("second driver on Spark", "refused"), ("second driver on Spark", "stopped by CheckpointMismatchError")}
    with holder("embedded", tmp_path) as process:
        for _ in range(4000):
            chain.rival(process)
            if set(chain.report.tally) == both:
                break
    assert set(chain.report.tally) == both


def test_a_second_driver_beside_a_holder_is_a_finding(tmp_path):
    """The chain ends there if the lock is lost while the first process holds it."""
    chain = chain_of(tmp_path)

    def come_often(process):
        for _ in range(200):
            chain.rival(process)

    with holder("embedded", tmp_path, "unlinked") as process, pytest.raises(RivalAccepted, match=f"{process.pid} held"):
        come_often(process)


def test_a_start_that_is_tried_again_has_not_started_yet(tmp_path, monkeypatch):
    """The mark of the try before is gone. With it the second driver came while Python was still being loaded, found
    the checkpoint free, and was counted as let in by a living process."""
    chain = chain_of(tmp_path)
    chain.started(3).touch()
    command, popen = [sys.executable, "-c", ""], subprocess.Popen
    monkeypatch.setattr(chains.subprocess, "Popen", lambda given, **more: popen(command, **more))
    monkeypatch.setattr(chain, "watch", lambda child, number: child.wait() or chain.started(number).exists())
    assert chain.start(3) is False


def test_holds_that_touch_do_not_overlap():
    """Only holds of two processes count, and one without an end lasts for ever."""
    holds = [Hold(1, 0, 5), Hold(2, 5, 6), Hold(1, 6, 7), Hold(1, 6.5)]
    assert at_once(holds) == []
    late = Hold(2, 9, 10)
    assert at_once([*holds, late]) == [(Hold(1, 6.5), late)]


def test_a_hold_without_an_end_lasts_until_the_next(tmp_path):
    """So a lock that was lost without a word is seen when another process gets in before it is taken again."""
    book = Book(tmp_path / "holds")
    assert book.holds() == []
    book.path.write_text("1 held 1.0\n2 held 2.0\n2 free 3.0\n1 held 4.0\n1 free 5.0\n1 held 6.0\n")
    assert book.holds() == [Hold(2, 2, 3), Hold(1, 1, 4), Hold(1, 4, 5), Hold(1, 6)]
    assert at_once(book.holds()) == [(Hold(2, 2, 3), Hold(1, 1, 4))]
