"""The skeleton of a condition: what is understood, and what stays a slice of the text."""

from __future__ import annotations

import pytest

from evenjoin.spec.skeleton import SkeletonError, Slice, calls, identifiers, names, skeleton, sql


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("l.k = r.k", "(l.k = r.k)"),
        ("l.k == r.k AND l.a != 1 or r.b<=>2", "(((l.k = r.k) AND (l.a <> 1)) OR (r.b <=> 2))"),
        ("r.t BETWEEN l.t - 5 AND l.t", "(r.t BETWEEN (l.t - 5) AND l.t)"),
        (
            "l.a NOT BETWEEN 1 AND 2 AND r.b NOT IN (1, -2)",
            "((NOT (l.a BETWEEN 1 AND 2)) AND (NOT (r.b IN (1, (-2)))))",
        ),
        ("(l.s LIKE 'a%') = r.f", "((l.s LIKE 'a%') = r.f)"),
        ("l.s NOT LIKE 'a AND b' AND r.x IS NOT NULL", "((l.s NOT LIKE 'a AND b') AND (r.x IS NOT NULL))"),
        ("abs(l.x - r.x) <= 5", "(abs((l.x - r.x)) <= 5)"),
        ("abs(l.x) * 2 <= r.x", "((abs(l.x) * 2) <= r.x)"),
        ("NOT (l.a = 1 OR ! (r.b > 2))", "(NOT ((l.a = 1) OR (NOT (r.b > 2))))"),
        ("l.a IS DISTINCT FROM r.a", "(NOT (l.a <=> r.a))"),
        ("l.a - -5 + INTERVAL -5 MINUTES > r.a", "(((l.a - (-5)) + (INTERVAL -5 MINUTES)) > r.a)"),
        ("(l.a + r.b) * 2 > 5", "(((l.a + r.b) * 2) > 5)"),
        ("l.s || 'x' - 1 = r.s", "((l.s || 'x' - 1) = r.s)"),
        ("CASE WHEN l.a = 1 AND l.b > 2 THEN 1 END = r.c", "((CASE WHEN l.a = 1 AND l.b > 2 THEN 1 END) = r.c)"),
        ("exists(l.arr, x -> x = 2) AND l.and = r.or", "((exists(l.arr, x -> x = 2)) AND (l.and = r.or))"),
        ("l.`a b` = r.k -- and so on", "((l.`a b`) = r.k)"),
        ("l.k = /* AND */ r.k", "(l.k = r.k)"),
        ("l.x IS TRUE AND r.y", "((l.x IS TRUE) AND r.y)"),
        ("date '2024-01-01' < l.d", "((date '2024-01-01') < l.d)"),
    ],
)
def test_the_skeleton_written_again(text, written):
    """Operators are in parentheses; everything else is as it was written."""
    assert sql(skeleton(text)) == written


@pytest.mark.parametrize(
    ("text", "at"), [("l.k = ", 6), ("l.k = r.k r.x = 1", 14), ("l.a BETWEEN 1 OR 2", 14), ("", 0)]
)
def test_what_is_no_condition(text, at):
    """The place where reading stopped is named."""
    with pytest.raises(SkeletonError) as error:
        skeleton(text)
    assert error.value.at == at


def test_slices_know_their_place():
    """A slice is a piece of the text at its offset."""
    text = "l.k =  upper( r.k )"
    found = skeleton(text).args[1]
    assert found == Slice("upper( r.k )")
    assert text[found.at :] == found.text


def test_long_and_deep_conditions():
    """A chain of thousands is one node; too deep a nesting is refused, not a crash."""
    assert len(skeleton(" AND ".join(["l.k = r.k"] * 5000)).args) == 5000
    with pytest.raises(SkeletonError, match="deeply"):
        skeleton("(" * 5000 + "l.k = r.k" + ")" * 5000)


def test_words_of_a_text():
    """Names, calls and dotted names are found by tokens."""
    assert names("l.`a b`.c") == ["l", "a b", "c"]
    assert [names(text) for text in ("l.a + 1", "'l'", "5")] == [None] * 3
    assert list(identifiers("upper(l.`a``b`) = r'x' AND 5")) == ["upper", "l", "a`b", "AND"]
    assert list(calls("Upper (l.s) = f(1)")) == ["upper", "f"]


def test_comparisons_in_a_row_need_parentheses():
    """SQL reads them from the left, which nobody means; the message says what to write, at the second one."""
    with pytest.raises(SkeletonError, match="put the one before this in parentheses") as error:
        skeleton("a.x = b.y = b.z")
    assert error.value.at == 10
