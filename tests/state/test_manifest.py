"""The manifest as arithmetic on sets of runs."""

from __future__ import annotations

import json

from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run


def run(file, low=0, high=0, alive=10):
    return Run(file, 0, 10, alive, 0, low, high, 100, 120, 7)


def test_changed_replaces_runs_of_one_place():
    """What is gone goes, what comes is added, other places and the old value stay as they are."""
    old = Manifest({(0, 0): (run("a"), run("b")), (0, 1): (run("c"),)})
    new = old.changed({(0, 0): [run("a")]}, {(0, 0): [run("d")]})
    assert [(i, s, r.file) for i, s, r in new] == [(0, 0, "b"), (0, 0, "d"), (0, 1, "c")]
    assert old.files == {"a", "b", "c"}
    assert new.files == {"b", "c", "d"}
    assert new.changed({}, {(3, 1): [run("e")]}).of(3, 1) == (run("e"),)


def test_stored_counts_the_living():
    """Tuples that migrated away are not counted."""
    manifest = Manifest({(2, 1): (run("a"), run("b", alive=4))})
    assert manifest.stored(2, 1) == 14
    assert manifest.stored(0, 0) == 0


def test_expiry_drops_runs_that_are_dead_as_a_whole():
    """A tuple is dead once time + horizon <= watermark; a run once its latest tuple is."""
    manifest = Manifest({(0, 0): (run("old", 0, 10), run("new", 5, 11)), (0, 1): (run("other", 0, 0),)})
    assert manifest.expired((5, None), 14) == (manifest, 0)
    kept, dropped = manifest.expired((5, None), 15)
    assert (kept.files, dropped) == ({"new", "other"}, 10)
    kept, dropped = manifest.expired((5, 3), 16)
    assert (kept.files, dropped) == (set(), 30)


def test_nothing_expires_without_a_watermark_or_a_horizon():
    """The very same value comes back."""
    manifest = Manifest({(0, 0): (run("a", 0, 10),)})
    assert manifest.expired((5, 5), None) == (manifest, 0)
    assert manifest.expired((None, None), 10**9)[0] is manifest


def test_an_empty_run_of_migrated_tuples_expires_too():
    """A run whose tuples all left is dropped by time although it takes no tuple with it."""
    manifest = Manifest({(0, 0): (run("masked away", 0, 10, alive=0),)})
    kept, dropped = manifest.expired((0, 0), 10)
    assert (kept.files, dropped) == (set(), 0)


def test_negative_horizons():
    """A side that only waits for earlier tuples of the other is dead before its own time: r.t >= l.t + 2."""
    manifest = Manifest({(0, 1): (run("a", 0, 10),)})
    assert manifest.expired((None, -2), 7) == (manifest, 0)
    assert manifest.expired((None, -2), 8)[1] == 10


def test_json_round_trip():
    """Through JSON text, several runs a place, and a second time from the same text."""
    masked = Run("m", 1, 10, 4, -3, -30, -21, 100, 120, 2**32 - 1, mask="3-abcdef01", dirty=(-5, 7))
    manifest = Manifest({(0, 0): (run("a"), masked), (1, 1): (run("c"),)})
    data = json.loads(json.dumps(manifest.to_json()))
    assert Manifest.from_json(data) == manifest
    assert Manifest.from_json(data) == manifest
