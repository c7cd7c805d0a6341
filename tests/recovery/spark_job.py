"""A join on real Spark in a process of its own, that dies where it is told to.

    python spark_job.py FOLDER INSTANCES [driver:STEP:BATCH | worker:STEP:BATCH | all:STEP:BATCH | random:SEED:COUNT]...

FOLDER holds the streams `l` and `r`, and for a join of three sides `m`; output goes to FOLDER/out, the checkpoint to
FOLDER/ck. Each kill happens once: a marker file remembers it, so a restart of the same command goes on past it.

* driver:STEP:BATCH  os._exit in the driver at that step of the commit story, of this batch or a later one
* worker:STEP:BATCH  os._exit in a Python worker; Spark retries the task (local[2,4])
* random:SEED:COUNT  within this one run COUNT workers die at random steps, instances and batches
* all:STEP:BATCH     SIGKILL to driver and JVM when a Python worker reaches that step of the batch, or of a later one
* executor:STEP:BATCH  the same to the executor of that worker, with the shuffle files that it holds (MASTER: a cluster)

The strategy is that of the environment variable STRATEGY (hash), and a planner's guards are off: it rebalances whenever
it can. EXECUTION says where batches run (executors); in the driver it is the driver that reaches the steps of a worker.
STRATEGY=sizes:2,8,3 is hash on that many instances, batch by batch. BATCH -1 is the first time the step
is reached.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path

STEPS = ("sealed", "joined", "receipt")
"""The steps that every instance reaches, whoever writes its results."""


class Kill:
    """Exit at a step, once. Travels to the workers by pickle."""

    def __init__(self, folder: Path, where: str, step: str, batch: int) -> None:
        self.marker = folder / f"killed-{where}-{step}-{batch}"
        self.step, self.batch = step, batch

    def __call__(self, name: str, batch: int) -> None:
        if name == self.step and batch >= self.batch:
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                return
            os._exit(37)


class WorkerKill(Kill):
    """In a worker the step comes with the instance's number, so any instance of the batch may die."""

    def __call__(self, name: str, instance: int) -> None:
        if name == self.step and (self.batch < 0 or instance == self.batch):
            super().__call__(name, self.batch)


class RandomKills:
    """Workers die with some probability at any step, until `count` have died; every death leaves a marker."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        self.folder, self.seed, self.count = folder, seed, count

    def __call__(self, name: str, instance: int) -> None:
        if random.Random(f"{self.seed}{os.getpid()}{os.urandom(4)!r}").random() > 0.35:
            return
        for number in range(self.count):
            try:
                (self.folder / f"killed-random-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os._exit(37)


class KillAll:
    """SIGKILL to the driver and the JVM, by a worker that reaches a step when so many batches are in the sink."""

    kind = "all"

    def __init__(self, folder: Path, step: str, batch: int) -> None:
        self.folder, self.step, self.batch = folder, step, batch

    def __call__(self, name: str, instance: int) -> None:
        if name != self.step or len(list(self.folder.glob("out/*/_SUCCESS"))) < self.batch:
            return
        marker = self.folder / f"killed-{self.kind}-{self.step}-{self.batch}".replace(" ", "-")
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
        self.kill()

    def kill(self) -> None:
        os.killpg(os.getsid(0), signal.SIGKILL)


class Each:
    """All of some disturbances, one after the other."""

    def __init__(self, steps: list) -> None:
        self.steps = steps

    def __call__(self, name: str, number: int) -> None:
        for step in self.steps:
            step(name, number)


class KillExecutor(KillAll):
    """SIGKILL to the executor of the worker: the parent of the daemon that forked it."""

    kind = "executor"

    def kill(self) -> None:
        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        if "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text():
            (self.folder / "lost-executor").touch()
            os.kill(int(executor), signal.SIGKILL)
        os._exit(37)


WORKERS = {"all": KillAll, "executor": KillExecutor}

BOUNDS = "r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
CONDITIONS = {
    "lr": f"l.k = r.k AND {BOUNDS}",
    "lrm": f"l.k = r.k AND abs(r.v - m.v) <= 1 AND {BOUNDS} "
    "AND m.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND",
}
"""By sides, what is joined: one edge of an equality, and a chain."""
SELECT = {"lr": ["l.id AS a", "r.id AS b", "l.ts"], "lrm": ["l.id AS a", "r.id AS b", "m.id AS c", "l.ts"]}

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark writes its own checkpoint without starting a process for every file."""


def nothing(name: str, batch: int) -> None:
    return


def chosen(name: str):
    """The strategy of that name, or a given sequence of sizes."""
    from evenjoin.strategies.bistream import Hash
    from evenjoin.testing import Fixed

    if not name.startswith("sizes:"):
        return name
    sizes = map(int, name.removeprefix("sizes:").split(","))
    tables = (Hash().initial(size, 2, "shared") for size in sizes)
    return Fixed(tuple(replace(table, version=number) for number, table in enumerate(tables)))


def main() -> None:
    from pyspark.sql import SparkSession

    import evenjoin
    from evenjoin.testing import Hooks

    folder, instances = Path(sys.argv[1]), int(sys.argv[2])
    step, worker_steps = nothing, []
    for kill in sys.argv[3:]:
        kind, what, number = kill.split(":")
        if kind == "driver":
            step = Kill(folder, kind, what, int(number))
        elif kind == "worker":
            worker_steps.append(WorkerKill(folder, kind, what, int(number)))
        elif kind in WORKERS:
            worker_steps.append(WORKERS[kind](folder, what, int(number)))
        else:
            worker_steps.append(RandomKills(folder, int(what), int(number)))
    builder = SparkSession.builder.master(os.environ.get("MASTER", "local[2,40]")).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_FILES)
    spark = evenjoin.tune(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    schema = "id long, k long, ts timestamp, v long"
    names = "lrm" if (folder / "m").exists() else "lr"
    sides = {a: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / a)) for a in names}
    joined = evenjoin.join(
        sides,
        on=CONDITIONS[names],
        event_time="ts",
        watermark="1 second",
        select=SELECT[names],
        instances=instances,
        strategy=chosen(os.environ.get("STRATEGY", "hash")),
        execution=os.environ.get("EXECUTION", "executors"),
        guards=evenjoin.Guards(cooldown=0, min_gain=0, min_work=0),
        hooks=Hooks(step=step, worker_step=Each(worker_steps)),
    )
    writer = joined.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()
    query.awaitTermination()
    print("done", query.lastProgress is not None)


if __name__ == "__main__":
    main()
