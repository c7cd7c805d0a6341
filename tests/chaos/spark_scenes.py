"""Scenes of the campaign of damages on Spark: checkpoints with Spark's own part, and how the join goes on from one.

One session runs them all: a damage costs the copy of a small folder and the remaining batches.
Invariant: a scene is copied in the driver's step, while Spark waits for it. So it is what a kill at that step leaves.
"""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import evenjoin
from chaos import engine
from chaos.case import Case
from chaos.damages import GoOn, Scene, Sunk, scene_case, settings_of
from chaos.spark_session import session, sides, write_inputs
from evenjoin.testing import Hooks

JOINS_ON_SPARK = ("integer key, bounds", "band, bounds")
SECONDS = 120


@contextmanager
def spark_scenes(folder: Path) -> Iterator[tuple[list[Scene], GoOn]]:
    """The scenes, and the function that goes on from one, for as long as the session lives."""
    spark = session(retries=1)
    try:
        scenes = [scene for name in JOINS_ON_SPARK for scene in _scenes(spark, folder / name.replace(" ", "-"), name)]

        def go_on(scene: Scene, checkpoint: Path, sunk: Sunk, rng: random.Random) -> int:
            begun: list[int] = []
            start = replace(settings_of(scene.case.join, scene.number), instances=rng.choice([2, 3]))
            frames = sides(spark, scene.case, scene.checkpoint.parent, files=rng.choice([1, 2, 3]))
            _run(scene.case, start, frames, checkpoint, sunk, lambda name, batch: begun.append(batch))
            return min(begun, default=scene.number)

        yield scenes, go_on
    finally:
        spark.stop()


def _scenes(spark: Any, folder: Path, join: str) -> list[Scene]:
    other, case, live = scene_case(join, 8), scene_case(join, 7), folder / "live"
    sunk, scenes = Sunk(), list[Scene]()
    start = settings_of(join, 0)
    write_inputs(other, folder / "other")
    _run(other, start, sides(spark, other, folder / "other"), folder / "foreign", {}, lambda name, batch: None)
    write_inputs(case, folder)

    def step(name: str, batch: int) -> None:
        if batch > 1 and name in ("begin", "receipts", "committed", "collected"):
            copy = folder / f"{batch}-{name}"
            shutil.copytree(live, copy)
            older = scenes[max(len(scenes) - 4, 0)].checkpoint if scenes else None
            number = batch + (name in ("committed", "collected"))
            scenes.append(Scene(case, copy, dict(sunk), number, older, folder / "foreign"))

    _run(case, start, sides(spark, case, folder), live, sunk, step)
    return scenes


def _run(case: Case, start: Any, frames: Any, checkpoint: Path, sunk: Sunk, step: Callable[[str, int], None]) -> None:
    """Run the join over all the input that its checkpoint has not seen."""
    settings = {**case.options, **engine.settings(start)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", evenjoin.UnboundedStateWarning)
        joined = evenjoin.join(frames, hooks=Hooks(step=step), **settings)
    writer = joined.writeStream.foreachBatch(lambda frame, batch: sunk.__setitem__(batch, frame.toArrow()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(SECONDS):
            raise TimeoutError(f"the query did not end within {SECONDS} s")
    finally:
        query.stop()
