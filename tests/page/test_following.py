"""A follower tells of one checkpoint: what another one at the same place said is forgotten, and what was taken back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evenjoin.commit.history import read_history
from evenjoin.commit.repair import take_back
from evenjoin.errors import EvenJoinError
from evenjoin.page import cards
from evenjoin.page.board import Board
from evenjoin.page.follow import Follower, read_newest, read_whole
from evenjoin.page.verdict import verdict
from evenjoin.page.whereabouts import Finder
from evenjoin.state.files import open_folder
from page.crafted import checkpoint


def test_a_checkpoint_that_was_made_again_begins_anew(tmp_path: Path) -> None:
    """Nothing of the old one is left."""
    follower = Follower(checkpoint(tmp_path / "ck", 6))
    old = follower.refresh(60)
    shutil.rmtree(tmp_path / "ck")
    with pytest.raises(EvenJoinError):
        follower.refresh(60)
    checkpoint(tmp_path / "ck", 3)
    new = follower.refresh(60)
    assert [moment.batch for moment in new.moments] == [0, 1, 2]
    assert new.uuid != old.uuid
    assert repr(new) == repr(read_whole(tmp_path / "ck"))


def test_a_checkpoint_that_was_put_back_from_a_copy_begins_anew(tmp_path: Path) -> None:
    """It has the same identity, and fewer batches."""
    checkpoint(tmp_path / "ck", 3)
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    follower = Follower(checkpoint(tmp_path / "ck", 2))
    assert len(follower.refresh(60).moments) > 3
    shutil.rmtree(tmp_path / "ck")
    shutil.copytree(tmp_path / "copy", tmp_path / "ck")
    assert [moment.batch for moment in follower.refresh(60).moments] == [0, 1, 2]


def test_a_batch_that_was_taken_back_is_gone(tmp_path: Path) -> None:
    """As `evenjoin repair --back` takes it; the totals are those of the batch before."""
    follower = Follower(checkpoint(tmp_path / "ck", 6))
    assert follower.refresh(60).last.batch == 5
    take_back(open_folder(tmp_path / "ck"))
    past = follower.refresh(60)
    assert [moment.batch for moment in past.moments] == [0, 1, 2, 3, 4]
    assert past.last.totals == read_history(tmp_path / "ck").last.totals
    assert repr(past) == repr(read_whole(tmp_path / "ck"))


def test_a_rebalance_tells_what_the_planner_said(tmp_path: Path) -> None:
    """The sentence of the batch before, in its row; for metrics nobody reads it."""
    folder = checkpoint(tmp_path / "ck", 8, strategy="auto(cores=4)")
    past, history = read_whole(folder), read_history(folder)
    said = {commit.batch + 1: commit.verdict.sentence for commit in history.commits if commit.verdict}
    assert past.migrations == history.migrations
    assert past.reasons == tuple(said[event.batch] for event in past.migrations)


def test_metrics_need_the_newest_batches_only(tmp_path: Path) -> None:
    """And all migrations, without their reasons."""
    folder = checkpoint(tmp_path / "ck", 6)
    newest, whole = read_newest(folder, 2), read_whole(folder)
    assert repr(newest.moments) == repr(whole.moments[-2:])
    assert newest.migrations == whole.migrations


def test_a_stop_is_taken_away_when_the_error_has_gone(tmp_path: Path) -> None:
    """Though no batch came meanwhile."""
    past = read_whole(checkpoint(tmp_path / "ck", 3))
    board = Board(past.join, Finder(past.join, past.seed))
    board.show(past, 0.0)
    board.stop("the disk is away")
    assert "the disk is away" in board._divs["verdict"].text
    board.show(past, 0.0)
    assert board._divs["verdict"].text == cards.sentence(verdict(past, 0.0))
