"""What a condition gives on two tables: pairs of ids, or a failure on a row, or a refusal before anything ran."""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JError)
"""How Spark fails: with an error of its own, or with one of Java's that it has not translated."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The ids (l, r) of the rows that match, in order. A pair that comes twice is there twice."""

    ids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A row made it fail."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It was refused, without looking at rows."""

    why: str


Answer = Pairs | Failed | Refused


def pairs(left: list[int], right: list[int]) -> Pairs:
    return Pairs(tuple(sorted(zip(left, right, strict=True))))


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
