"""The quick part of the campaign: fixed seeds on the embedded engine, saved cases, and faults that must be found."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import engine
from chaos.campaign import one
from chaos.case import Case, Kill, Stale, Start, Twice
from chaos.damage import DAMAGES, apply, files_of
from chaos.damages import embedded, embedded_scenes, ended
from chaos.draw import damage, draw
from chaos.embedded import run
from chaos.joins import JOINS
from chaos.report import Report, load
from chaos.shrink import shrink

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (10, 20, 30))])
def test_fixed_seeds(first):
    """Ten cases each, killed one to five times and restarted: the output is the answer."""
    report = Report()
    for seed in range(first, first + 10):
        one(report, seed, frozenset(), Counter())
    assert [found.finding.text for found in report.found] == []
    assert report.tally["runs", "embedded"] == 10


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_saved_case(path):
    """A case that was worth keeping, as a rule because it failed once, gives the right answer."""
    assert run(load(path)) is None


@pytest.fixture(scope="module")
def drawn() -> list[Case]:
    return [draw(seed) for seed in range(150)]


def test_a_case_is_its_json(drawn):
    """So a saved case runs as the one that was drawn; all kinds of events are among them."""
    assert [Case.from_json(case.to_json()) for case in drawn] == drawn
    assert {type(event).__name__ for case in drawn for event in case.events} >= {"Kill", "Stale", "Twice", "Damage"}


def test_the_same_seed_gives_the_same_run():
    """Everything that a run does is decided by its case: what happened in two runs of it is the same."""
    tallies = [Counter(), Counter()]
    for tally in tallies:
        run(draw(11), tally)
    assert tallies[0] == tallies[1]


def test_every_join_and_strategy_is_drawn(drawn):
    """Nothing that can be joined, and no registered strategy, is left out by the draw."""
    assert {case.join for case in drawn} == set(JOINS)
    assert {start.strategy for case in drawn for start in case.starts} == set(engine.strategies())


def four_batches(join: str, events: tuple, starts: tuple = (Start("hash", 3),), rows=12) -> Case:
    batches = tuple((tuple(range(rows * b, rows * b + rows)),) * 2 for b in range(4))
    return Case(3, join, 3, None, "none", "asked", batches, starts, events)


def test_a_lost_run_is_found_and_made_smaller():
    """An engine that forgets what a migration brought gives a wrong answer: the campaign finds it, and leaves only
    what matters of the case."""
    events = (Kill(1, "commit"), Kill(2, "between"), Kill(3, "joined", 0))
    case = four_batches("integer key", events, (Start("hash", 3), Start("hash", 4), Start("random", 2)), rows=5)
    with engine.forgetful():
        finding = run(case)
        assert finding is not None
        assert finding.kind == "wrong answer: missing"
        smallest, again = shrink(case, finding, run, tries=60)
    assert again.kind == finding.kind
    assert len(smallest.events) == 1
    assert sum(len(side) for batch in smallest.batches for side in batch) < 12


def test_a_damage_that_nobody_notices_is_found(tmp_path):
    """With segments that are not verified, a swapped one gives a wrong answer, and it is told as such."""
    scenes = embedded_scenes(tmp_path / "scenes", "integer key, bounds")
    endings: list[str] = []
    with engine.unverified():
        while len(endings) < 200 and not any(ending.startswith("wrong answer") for ending in endings):
            rng = random.Random(len(endings))
            endings.append(damaged_segment(rng.choice(scenes), tmp_path / str(len(endings)), rng))
    assert endings[-1].startswith("wrong answer"), Counter(endings)


def damaged_segment(scene, folder, rng):
    shutil.copytree(scene.checkpoint, folder)
    kinds = sorted(files_of(folder))
    broken = replace(damage(rng, 0), how="swap", kind=(kinds.index("segments") + 0.5) / len(kinds))
    damaged = apply(broken, folder, lambda how: None)
    return "none" if damaged is None else ended(scene, folder, damaged, embedded, rng)[0]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damage_is_undone(how, tmp_path):
    """Whatever a damage does to a checkpoint, `undo` gives every file its bytes back."""
    scene = embedded_scenes(tmp_path / "scenes", "integer key, bounds")[-1]

    def content():
        return {name: (scene.checkpoint / name).read_bytes() for names in files_of(scene.checkpoint).values()
                for name in names}  # fmt: skip

    before = content()
    rng = random.Random(how)
    done = [apply(replace(damage(rng, 0), how=how), scene.checkpoint, {"older": scene.older,
            "foreign": scene.foreign}.get) for _ in range(24)]  # fmt: skip
    assert any(done)
    assert content() != before
    for damaged in reversed([d for d in done if d]):
        damaged.undo()
    assert content() == before


def test_a_stale_task_writes_after_the_restart():
    """The tasks that are left standing do go on, in the next try of their batch."""
    tally = Counter()
    run(four_batches("integer key", (Stale(1, (0, 1), "joined", "kill", "begin"),)), tally)
    assert tally["stale task", "stopped at joined, wrote all it had"] == 2


def test_a_second_reader_runs_the_instances_again():
    """In another order of rows; its results do not reach the sink. On one instance both leave the same state."""
    tally = Counter()
    assert run(four_batches("integer key", (Twice(0, 1, "after", 99),), (Start("random", 1),)), tally) is None
    assert tally["second reader", "after the sink"] == 1
