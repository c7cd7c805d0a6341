"""An output folder belongs to one checkpoint."""

from __future__ import annotations

import json

import pytest

from evenjoin.commit.outputs import MARKER, Output
from evenjoin.errors import CheckpointMismatchError
from evenjoin.state.files import LocalFolder, MemoryFolder


def output(location, uuid="mine", checkpoint=None):
    return Output(str(location), uuid, checkpoint or MemoryFolder())


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_the_first_checkpoint_has_it(scheme, tmp_path):
    """A path and a URI are the same folder. Looking writes nothing; another checkpoint is refused from then on."""
    mine, other = output(f"{scheme}{tmp_path}/out"), output(tmp_path / "out", "other")
    assert (mine.check(), other.check()) == (False, False)
    assert not (tmp_path / "out").exists()
    mine.claim()
    mine.claim()
    assert mine.check() is True
    assert json.loads((tmp_path / "out" / MARKER).read_text())["checkpoint"] == "mine"
    for refused in (other.check, other.claim):
        with pytest.raises(CheckpointMismatchError, match=r"names mine, this one is other.*another folder"):
            refused()
    assert json.loads((tmp_path / "out" / MARKER).read_text())["checkpoint"] == "mine"


@pytest.mark.parametrize("name", ["batch_id=0/part-0.parquet", "notes.txt", "_spark_metadata/0"])
def test_a_folder_in_use_is_refused(name, tmp_path):
    """Whatever is in it, and also results of before there were markers. It stays as it was."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    with pytest.raises(CheckpointMismatchError, match=f"no {MARKER}: it holds '{name.split('/')[0]}'"):
        output(tmp_path).claim()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_hidden_files_are_nobodys(tmp_path):
    """As readers see it, the folder is empty."""
    for name in ("_SUCCESS", ".DS_Store"):
        (tmp_path / name).touch()
    output(tmp_path).claim()
    assert (tmp_path / MARKER).exists()


@pytest.mark.parametrize("place", ["ck", "deep/er/ck"])
def test_the_checkpoint_may_lie_in_the_output(place, tmp_path):
    """Then it is not a stranger; another one there is."""
    (tmp_path / "out" / place).mkdir(parents=True)
    with pytest.raises(CheckpointMismatchError, match=f"holds '{place.split('/')[0]}'"):
        output(tmp_path / "out", checkpoint=LocalFolder(str(tmp_path / "out2" / place))).claim()
    output(tmp_path / "out", checkpoint=LocalFolder(str(tmp_path / "out" / place))).claim()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_damaged_marker_is_not_mine(text, tmp_path):
    """Somebody's results may be there."""
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(CheckpointMismatchError, match="names none"):
        output(tmp_path).claim()
    assert (tmp_path / MARKER).read_text() == text


def test_two_joins_at_once(tmp_path, monkeypatch):
    """Both found the folder empty; the second to create the marker is refused."""
    mine, other = output(tmp_path), output(tmp_path, "other")
    create = LocalFolder.create

    def slow(self, name, data):
        monkeypatch.setattr(LocalFolder, "create", create)
        other.claim()
        return create(self, name, data)

    monkeypatch.setattr(LocalFolder, "create", slow)
    with pytest.raises(CheckpointMismatchError, match="names other, this one is mine"):
        mine.claim()
