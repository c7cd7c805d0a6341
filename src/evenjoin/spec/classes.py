"""Classes of equal expressions: what the equalities of a join of many sides say together.

    r.a = s.a AND s.a = t.a       one class: r.a, s.a, t.a. So r.a = t.a holds too, although no conjunct says so
    r.a = s.k AND r.b = s.k       one class, in which r has two expressions. Its key there is r.a, the first one written
    r.a = s.a AND s.b = t.b       two classes: nothing says that s.a and s.b are equal

A class has one key per side, and all its keys are of one type, which is common to all of its expressions. A NULL is a
key only if every conjunct is `<=>`: one `=` is enough to keep NULLs out of the whole class.

Guarantee: where all conjuncts are true, the keys of a class are equal. The reverse is not promised: ask `says` whether
the equality of the keys is all that a conjunct says. It says less of an expression that is not its side's key, and
where the type of the class is coarser than that of the conjunct: two bigints may be different and equal as doubles.
Classes are not merged where a conversion could fail for a value (microseconds to nanoseconds), or where two ways to
the common type may differ in the last bit (decimals to doubles). Then an expression can be in two classes.
Not here: which classes an edge is driven by (many_sides.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.spec import coercion
from evenjoin.spec.condition import Key, as_key
from evenjoin.spec.expr import Expr
from evenjoin.spec.scope import Scope

_MOST_DIGITS = 76
"""A common type of so many digits may have been cut to fit (coercion.py), so a value may be too long for it."""


@dataclass(frozen=True, slots=True)
class EqualClass:
    """See the top of this file. By alias `members` has the expression that stands for a side, `keys` the same in the
    class's type."""

    conjuncts: tuple[Key, ...]
    type: pa.DataType
    null_safe: bool
    members: Mapping[str, Expr]
    keys: Mapping[str, Expr]

    def covers(self, aliases: Iterable[str]) -> bool:
        """Whether each of these sides has a key in the class."""
        return all(alias in self.keys for alias in aliases)

    def says(self, key: Key) -> bool:
        """Whether equal keys of the class are the same as this conjunct."""
        chosen = all(self.members.get(alias) == member for alias, member in zip(key.sides, key.members, strict=True))
        return chosen and key in self.conjuncts and _is_one_to_one(key.type, self.type)


def equal_classes(keys: Sequence[Key], scope: Scope) -> tuple[EqualClass, ...]:
    """The classes of these equalities, in the order in which they are first written."""
    groups: list[list[int]] = []
    for number in range(len(keys)):
        together, apart = [number], []
        for group in groups:
            merged = sorted([*group, *together])
            if _touch(keys, group, together) and _common_type([keys[i] for i in merged]) is not None:
                together = merged
            else:
                apart.append(group)
        groups = [*apart, together]
    return tuple(_class([keys[i] for i in group], scope) for group in sorted(groups))


def _touch(keys: Sequence[Key], one: Sequence[int], two: Sequence[int]) -> bool:
    """Whether two groups of equalities have an expression in common."""
    return not {e for i in one for e in keys[i].members}.isdisjoint(e for i in two for e in keys[i].members)


def _class(conjuncts: Sequence[Key], scope: Scope) -> EqualClass:
    members: dict[str, Expr] = {}
    for key in conjuncts:
        for alias, member in zip(key.sides, key.members, strict=True):
            members.setdefault(alias, member)
    type_ = _common_type(conjuncts)
    assert type_ is not None
    keys = {alias: as_key(member, type_, scope) for alias, member in members.items()}
    return EqualClass(tuple(conjuncts), type_, all(key.null_safe for key in conjuncts), members, keys)


def _common_type(keys: Sequence[Key]) -> pa.DataType | None:
    """The type in which all of these can be compared; None if there is none in which equal values stay equal."""
    common = reduce(lambda t, key: None if t is None else coercion.common_type(t, key.type), keys, keys[0].type)
    return common if common is not None and all(_keeps_equality(key.type, common) for key in keys) else None


def _keeps_equality(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` has one in `target`, the same one whichever type it came from."""
    if _is_same(source, target) or pt.is_null(source):
        return True
    if pt.is_decimal(target):
        return bool(target.precision < _MOST_DIGITS)
    if pt.is_timestamp(target):
        return bool(pt.is_date(source) and target.unit == "us")
    return bool((pt.is_integer(target) or pt.is_floating(target)) and not pt.is_decimal(source))


def _is_one_to_one(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values that differ in `source` differ in `target`, which keeps its equality. Doubles have 53 bits."""
    return not (pt.is_integer(source) and source.bit_width > 32 and pt.is_floating(target))


def _is_same(one: pa.DataType, two: pa.DataType) -> bool:
    """Whether two types have the same values. A time zone does not change what a timestamp is equal to."""
    return bool(one == two or (pt.is_timestamp(one) and pt.is_timestamp(two) and one.unit == two.unit))
