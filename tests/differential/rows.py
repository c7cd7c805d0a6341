"""Two tables with a column of each type, filled with the values at the edges of their types, as SQL.

    wild    everything: the ends of the integers, NaN, infinities, decimals at the edge of their precision, texts whose
            case is not simple, times around changes of clocks and far from ours
    tame    values with which sums stay within their types and texts are numbers, so that ANSI mode has answers

Both sides draw from the same values in another order, so equal values meet. Every column has NULLs.
Invariant: a row has an `id` that no other row of its side has.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Flavour = Literal["wild", "tame"]
COUNT = {"wild": 36, "tame": 24}
"""Rows of a side."""


@dataclass(frozen=True, slots=True)
class ColumnOf:
    """A column: its type, and its values as SQL text, of which `tame` ones are the first."""

    type: str
    tame: str
    wild: str

    def values(self, flavour: Flavour) -> list[str]:
        texts = self.tame if flavour == "tame" else f"{self.tame};{self.wild}"
        return [text.strip() for text in texts.split(";") if text.strip()]


COLUMNS = {
    "b": ColumnOf("BOOLEAN", "true; false", ""),
    "i8": ColumnOf("TINYINT", "0; 1; -1; 5; 2; 7", "-128; 127"),
    "i16": ColumnOf("SMALLINT", "0; 1; -1; 5; 100; 7", "-32768; 32767"),
    "i": ColumnOf("INT", "0; 1; -1; 2; 3; 5; 7; 100", "-2147483648; 2147483647; 2147483646; 2147483642"),
    "n": ColumnOf("BIGINT", "0; 1; -1; 2; 5; 7; 3000000000",
                  "'-9223372036854775808'; 9223372036854775807; 9223372036854775803; 9007199254740993; "
                  "9007199254740992; 2147483647"),
    "f": ColumnOf("FLOAT", "0.0; 1.5; 0.3; 5; 2.5; 7", "'NaN'; 'Infinity'; '-Infinity'; '-0.0'; 16777216; 5.015; 0.1"),
    "d": ColumnOf("DOUBLE", "0D; 0.3D; 0.1D; 1.5D; 5D; 2.5D; 5.015D; 0.285D; 7D",
                  "'NaN'; 'Infinity'; '-Infinity'; '-0.0'; 0.30000000000000004D; 1e308D; -2.5D; 9007199254740992D; "
                  "0.30000001192092896D; 999.99D; 1e19D"),
    "m": ColumnOf("DECIMAL(5,2)", "0.30; 0.29; 5.02; 0; 1; 2.50; 7", "999.99; -999.99; -0.01"),
    "w": ColumnOf("DECIMAL(38,10)", "0.3; 0.285; 5; 1; 0.1234567891; 7",
                  "'9999999999999999999999999999.9999999999'; '-9999999999999999999999999999.9999999999'; "
                  "9223372036854775807; 999.995"),
    "q": ColumnOf("DECIMAL(20,0)", "0; 1; 5; 7", "18446744073709551615; 9223372036854775807; 9223372036854775808"),
    "s": ColumnOf("STRING", "'5'; '1'; '7'; '0.3'; ' 5 '; '100'",
                  "'straße'; 'STRASSE'; 'ΣΑΣ'; 'σας'; 'σασ'; 'İ'; 'i'; 'I'; 'ı'; 'a'; 'A'; 'a '; ' a'; ''; '1.5'; "
                  "'2026-03-08 02:30:00'; '2026-11-01'; 'true'; 'NaN'; '999.99'; '1582-10-10'; '5L'; '1e2'; "
                  "'2026-03-08T07:00:00Z'; '٥'; 'abc'"),
    "c": ColumnOf("CHAR(5)", "'5'; '1'; 'a'; 'abc'", "'abcde'; ' a'; ''; 'A'"),
    "vc": ColumnOf("VARCHAR(9)", "'5'; '1'; '7'; 'a'; 'a '", "'abc'; 'straße'; ''; 'A'"),
    "u": ColumnOf("STRING COLLATE UTF8_LCASE", "'a'; 'A'; 'b'; '5'", "'straße'; 'STRASSE'; 'σας'; 'ΣΑΣ'; 'i'; 'İ'"),
    "y": ColumnOf("BINARY", "X''; X'00'; X'61'; X'35'", "X'FF'; X'0000'; X'7F'; X'80'"),
    "t": ColumnOf("TIMESTAMP",
                  "'2026-03-08T06:59:59.999999Z'; '2026-03-08T07:00:00Z'; '2026-03-07T07:30:00Z'; "
                  "'2026-03-08T07:30:00Z'; '2026-03-09T06:30:00Z'; '2026-11-01T05:30:00Z'; '2026-11-01T06:30:00Z'; "
                  "'2026-10-31T05:30:00Z'; '2026-11-02T06:30:00Z'; '2026-03-08T00:00:00Z'; '2026-03-08T05:00:00Z'; "
                  "'2026-03-07T15:00:00Z'",
                  "'1970-01-01T00:00:00Z'; '1969-12-31T23:59:59.999999Z'; '1500-01-01T00:00:00Z'; "
                  "'1582-10-10T12:00:00Z'; '1883-11-18T17:00:00Z'; '9999-12-30T00:00:00Z'; '0001-01-03T00:00:00Z'; "
                  "'2026-03-07T18:30:00Z'"),
    "z": ColumnOf("TIMESTAMP_NTZ",
                  "'2026-03-08 02:30:00'; '2026-03-08 00:00:00'; '2026-11-01 01:30:00'; '2026-03-07 02:30:00'; "
                  "'2026-03-08 07:30:00'; '2026-03-08 03:30:00'; '2026-10-31 01:30:00'; '2026-11-02 01:30:00'; "
                  "'2026-03-08 07:00:00'",
                  "'1970-01-01 00:00:00'; '1582-10-10 12:00:00'; '9999-12-30 00:00:00'; '0001-01-03 00:00:00'"),
    "a": ColumnOf("DATE",
                  "'2026-03-08'; '2026-03-07'; '2026-03-09'; '2026-11-01'; '2026-11-02'; '2026-10-31'; '2024-02-29'; "
                  "'2026-01-31'",
                  "'1582-10-04'; '1582-10-15'; '0001-01-03'; '9999-12-30'; '1970-01-01'"),
    "v": ColumnOf("INTERVAL DAY TO SECOND",
                  "INTERVAL '0 00:00:00' DAY TO SECOND; INTERVAL '1 00:00:00' DAY TO SECOND; "
                  "INTERVAL '0 23:59:59.999999' DAY TO SECOND; INTERVAL '-1 00:00:00' DAY TO SECOND; "
                  "INTERVAL '0 01:00:00' DAY TO SECOND; INTERVAL '30 00:00:00' DAY TO SECOND",
                  "INTERVAL '106751990 00:00:00' DAY TO SECOND"),
    "arr": ColumnOf("ARRAY<INT>", "array(1, 2); array(5, 7); array(1, 2, 3); array(0, 0)", "array(); array(1, NULL)"),
    "st": ColumnOf("STRUCT<p: INT, q: STRING>", "named_struct('p', 1, 'q', 'a'); named_struct('p', 5, 'q', '5')",
                   "named_struct('p', NULL, 'q', 'a'); named_struct('p', 2147483647, 'q', NULL)"),
    "mp": ColumnOf("MAP<STRING, INT>", "map('a', 1); map('a', 5, 'b', 2); map('b', 7)",
                   "map('a', CAST(NULL AS INT)); map('a', 2147483647)"),
}  # fmt: skip


def values_sql(side: int, flavour: Flavour) -> str:
    """The rows of a side as a query. Every value is cast by itself, so the mode and the zone do not matter."""
    rng = random.Random(f"{side} {flavour}")
    columns = [
        [f"CAST({value} AS {plain(column.type)})" for value in _spread(rng, column.values(flavour), COUNT[flavour])]
        for column in COLUMNS.values()
    ]
    rows = [", ".join([str(k), *row]) for k, row in enumerate(zip(*columns, strict=True))]
    return f"SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS rows(id, {', '.join(COLUMNS)})"


def table_sql() -> str:
    """The columns of a table, as they are declared."""
    return ", ".join(["id INT", *(f"{name} {column.type}" for name, column in COLUMNS.items())])


def plain(type_: str) -> str:
    """The type to cast a literal to: a table pads CHAR itself."""
    return "STRING" if "CHAR" in type_ or "COLLATE" in type_ else type_


def _spread(rng: random.Random, values: Sequence[str], count: int) -> list[str]:
    """So many of the values, each as often as the others or once more, in any order; about one in nine is NULL."""
    repeated = [values[k % len(values)] for k in range(count - max(1, count // 9))]
    mixed = [*repeated, *["NULL"] * (count - len(repeated))]
    rng.shuffle(mixed)
    return mixed
