"""The campaign of damages: one random file of a real checkpoint is damaged once, and the join goes on from it.

    checkpoints of one join, copied at random steps of random batches  ->  copy one, damage one file, start
        refused in words     an EvenJoinError
        refused by Spark     Spark's own error about its own files
        error                an error of another kind
        recovered            the right output, after the join went back to an earlier batch
        harmless             the right output
        wrong answer         a finding

Invariant: damage n of a campaign is that of seed `seed + n`; it depends on nothing that was damaged before.
The checkpoints are made once per campaign (`embedded_scenes`, spark_scenes.py), a damage only copies one.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from chaos import engine
from chaos.case import Case, Start
from chaos.check import Finding, check
from chaos.damage import Damaged, apply
from chaos.draw import damage
from chaos.embedded import memory
from chaos.joins import JOINS
from chaos.report import Found, Report
from evenjoin.errors import EvenJoinError
from evenjoin.testing import Hooks

BATCHES, ROWS = 6, 12
EMBEDDED = ("integer key, bounds", "string key", "band, bounds", "tumbling window", "composite key, bounds",
            "three sides, chain, bounds")  # fmt: skip
Sunk = dict[int, pa.Table]


@dataclass(frozen=True, slots=True)
class Scene:
    """A checkpoint as a crash left it, what the sink held then, and the batch that was under way. `older` is the
    checkpoint at an earlier time, `foreign` one of the same join over other rows."""

    case: Case
    checkpoint: Path
    sunk: Sunk
    number: int
    older: Path | None
    foreign: Path


class GoOn(Protocol):
    """How a scene goes on: start on the checkpoint, run the remaining batches into `sunk`. Returns the number of the
    first batch that was run."""

    def __call__(self, scene: Scene, checkpoint: Path, sunk: Sunk, rng: random.Random) -> int: ...


def damages(report: Report, seed: int, count: int, on_spark: int | None) -> None:
    """Damage so many times, on the embedded engine and then on Spark."""
    spark = count // 10 if on_spark is None else on_spark
    with tempfile.TemporaryDirectory(prefix="evenjoin-damage-", dir=memory()) as folder:
        scenes = [scene for name in EMBEDDED for scene in embedded_scenes(Path(folder) / name.replace(" ", "-"), name)]
        many(report, range(seed, seed + count - spark), scenes, embedded, "embedded")
        if spark:
            from chaos.spark_scenes import spark_scenes

            with spark_scenes(Path(folder) / "spark") as (scenes, go_on):
                many(report, range(seed, seed + spark), scenes, go_on, "spark")


def many(report: Report, seeds: range, scenes: list[Scene], go_on: GoOn, where: str) -> None:
    for done, seed in enumerate(seeds):
        number = 0
        while not one(report, seed, number, scenes, go_on, where):
            number += 1  # nothing could be damaged so: draw again
        if (done + 1) % 100 == 0:
            print(f"{where}: {done + 1} damages, {len(report.found)} findings", flush=True)


def one(report: Report, seed: int, number: int, scenes: list[Scene], go_on: GoOn, where: str) -> bool:
    """One damage. False if it was not possible."""
    rng = random.Random(f"{seed} {number}")
    scene = rng.choice(scenes)
    with copied(scene.checkpoint) as checkpoint:
        elsewhere = {"older": scene.older, "foreign": scene.foreign}
        damaged = apply(damage(rng, scene.number), checkpoint, elsewhere.get)
        if damaged is None:
            return False
        ending, finding = ended(scene, checkpoint, damaged, go_on, rng)
    report.tally[f"damages on {where}", f"{damaged.kind}, {damaged.how}: {ending}"] += 1
    report.tally[f"endings on {where}", ending] += 1
    if finding is not None:
        found = Found(seed, told(finding, scene, damaged), None, f"python -m chaos damage --seed {seed} --count 1"
                      + (" --spark 1" if where == "spark" else " --spark 0"))  # fmt: skip
        report.add(found)
    return True


def ended(
    scene: Scene, checkpoint: Path, damaged: Damaged, go_on: GoOn, rng: random.Random
) -> tuple[str, Finding | None]:
    """How the damage ended, and what is wrong if that was a wrong answer."""
    sunk = dict(scene.sunk)
    try:
        first = go_on(scene, checkpoint, sunk, rng)
    except EvenJoinError:
        return "refused in words", None
    except Exception as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")) and damaged.kind.startswith("spark/"):
            return "refused by Spark", None
        return f"error {type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}", None
    finding = check(scene.case, sunk)
    if finding is not None:
        return finding.kind, finding
    return ("recovered" if first < scene.number else "harmless"), None


def told(finding: Finding, scene: Scene, damaged: Damaged) -> Finding:
    return Finding(f"{finding.kind} after {damaged.kind}, {damaged.how}",
                   f"{damaged.file} of {scene.case.join!r} in batch {scene.number}: {finding.text}")  # fmt: skip


@contextmanager
def copied(checkpoint: Path) -> Iterator[Path]:
    """A copy of a checkpoint, for as long as the block lasts."""
    copy = checkpoint.parent / "copy"
    shutil.copytree(checkpoint, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def scene_case(join: str, seed: int) -> Case:
    """The rows and batches of a scene; nothing disturbs them. They are many enough for merges and a migration."""
    numbers = [tuple(range(n * ROWS, (n + 1) * ROWS)) for n in range(BATCHES)]
    delay = 3 if JOINS[join].times == "timed" else None
    return Case(
        seed,
        join,
        3,
        delay,
        "none",
        "asked",
        tuple((n,) * len(JOINS[join].sides) for n in numbers),
        (Start("hash", 3),),
    )


def settings_of(join: str, batch: int) -> Start:
    """Another size from batch 3 on."""
    size = 3 if batch < 3 else 2
    if len(JOINS[join].sides) > 2:
        return Start("trijoin", size)
    keyed = engine.accepts(JOINS[join], Start("hash", 3))
    return Start("fastjoin(theta=1.05, sure=0)" if keyed else "adsp(task_capacity=8, most=64)", size)


def embedded_scenes(folder: Path, join: str) -> list[Scene]:
    """The checkpoints of one embedded run, at each step of the batches after the first."""
    folder.mkdir(parents=True)
    foreign = folder / "foreign"
    _run(scene_case(join, 8), foreign, {}, lambda name, batch: None)
    case, live, sunk, scenes = scene_case(join, 7), folder / "live", Sunk(), []

    def step(name: str, batch: int) -> None:
        if batch > 1 and name in ("begin", "receipts", "committed", "collected"):
            copy = folder / f"{batch}-{name}"
            shutil.copytree(live, copy)
            older = scenes[max(len(scenes) - 4, 0)].checkpoint if scenes else None
            number = batch + (name in ("committed", "collected"))
            scenes.append(Scene(case, copy, dict(sunk), number, older, foreign))

    _run(case, live, sunk, step)
    return scenes


def _run(case: Case, checkpoint: Path, sunk: Sunk, step: Callable[[str, int], None]) -> None:
    """An undisturbed run with one restart. Attempts are named alike in each, so that two checkpoints share names."""
    with engine.tapped(_Untouched(), 1, identity_seed=case.seed):
        for numbers in (range(3), range(3, BATCHES)):
            start = settings_of(case.join, numbers[0])
            hooks = Hooks(step=step)
            with engine.make(case.spec, case.options, start, checkpoint=str(checkpoint), hooks=hooks) as join:
                for number in numbers:
                    join.process(case.data()[number], batch=number, sink=lambda t, b: sunk.__setitem__(b, t))


class _Untouched:
    """Instances that run as they are (engine.Taps)."""

    def instance(self, task: engine.Task, run: Any) -> Any:
        return run()

    def evaluation(self, batch: int, run: Any) -> None:
        run(None, "sink")


def embedded(scene: Scene, checkpoint: Path, sunk: Sunk, rng: random.Random) -> int:
    """Go on with the remaining batches: from the number that the join says, or from the one that the caller knows."""
    start, data = settings_of(scene.case.join, scene.number), scene.case.data()
    with engine.make(scene.case.spec, scene.case.options, start, checkpoint=str(checkpoint)) as join:
        first = scene.number if rng.random() < 0.5 else join.batch
        for number in range(first, BATCHES):
            join.process(data[number], batch=number, sink=lambda table, batch: sunk.__setitem__(batch, table))
        return first
