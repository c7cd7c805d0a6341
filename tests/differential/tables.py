"""The rows as tables of a Spark session, and a session in a mode.

Tables, and not frames of literals, because only tables have CHAR columns; and files, because streams read them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from differential.rows import Flavour, table_sql, values_sql
from evenjoin.runtime.spark.conditions.analyst import Analyst

SIDES = ("l", "r")
ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark evaluates expressions without compiling them first: for few rows and many expressions that is much faster."""


class Tables:
    """Both sides in both flavours, made once in a session, in a folder."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self._arrow: dict[tuple[str, str], pa.Table] = {}
        self._analysts: dict[tuple[str, str], Analyst] = {}
        with in_mode(spark, "UTC", True):
            for flavour in ("wild", "tame"):
                for number, side in enumerate(SIDES):
                    name = self.name(flavour, side)
                    spark.sql(f"DROP TABLE IF EXISTS {name}")
                    path = (folder / name).as_posix()
                    spark.sql(f"CREATE TABLE {name} ({table_sql()}) USING parquet LOCATION '{path}'")
                    rows = spark.sql(values_sql(number, flavour)).coalesce(1)
                    rows.createOrReplaceTempView("differential_rows")
                    spark.sql(f"INSERT INTO {name} SELECT * FROM differential_rows")
                    spark.table(name).cache().count()
                    self._arrow[flavour, side] = spark.table(name).toArrow().combine_chunks()

    @staticmethod
    def name(flavour: Flavour, side: str) -> str:
        return f"differential_{flavour}_{side}"

    def frame(self, flavour: Flavour, side: str) -> Any:
        """A side as a batch frame, under its alias."""
        return self.spark.table(self.name(flavour, side)).alias(side)

    def arrow(self, flavour: Flavour, side: str) -> pa.Table:
        """The same rows as Arrow, times in UTC."""
        return self._arrow[flavour, side]

    def analyst(self) -> Analyst:
        """The analyst of the session's present mode, which remembers what it was asked. Both flavours have the same
        schemas."""
        mode = self.spark.conf.get(ZONE), self.spark.conf.get(ANSI)
        if mode not in self._analysts:
            schemas = {side: self.frame("wild", side).schema for side in SIDES}
            self._analysts[mode] = Analyst(self.spark, schemas)
        return self._analysts[mode]


@contextmanager
def in_mode(spark: Any, zone: str, ansi: bool) -> Iterator[None]:
    """The session in a time zone, with ANSI mode or without."""
    with configured(spark, {ZONE: zone, ANSI: str(ansi).lower()}):
        yield


@contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
