"""Long and deep conditions: thousands of terms work, and what is nested too deeply is refused in words."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.errors import ConditionError
from evenjoin.spec import Scope, build_spec, read
from evenjoin.spec.expr import Call, conjunction
from thorough import examples

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SCOPE = Scope({"l": SCHEMA, "r": SCHEMA})
MANY = 1100
"""Terms of a chain; four would be enough to see that a chain is one call, a thousand exceed Python's stack."""


def whole(text, scope):
    """A condition as one expression."""
    return conjunction(read(text, scope, "UTC"))


CHAINS = {
    "IN": f"l.v IN ({', '.join(map(str, range(0, 2 * 4_000, 2)))})",
    "IN of text": f"l.s IN ({', '.join(repr(str(i)) for i in range(0, 2 * 4_000, 2))})",
    "NOT IN": f"NOT l.v IN ({', '.join(map(str, range(1, 2 * 4_000, 2)))})",
    "IN with columns": f"l.v IN ({', '.join(f'l.k - l.k + {i}' for i in range(0, 2 * MANY, 2))})",
    "OR": " OR ".join(f"l.v = {i}" for i in range(0, 2 * MANY, 2)),
    "OR in parentheses": " OR ".join(f"(l.v > {i} - 1 AND l.v < {i} + 1)" for i in range(0, 2 * MANY, 2)),
    "OR of both sides": " OR ".join(f"l.v + r.v - r.v = {i}" for i in range(0, 2 * MANY, 2)),
    "AND": " AND ".join(f"l.v <> {i}" for i in range(1, 2 * MANY, 2)),
    "AND of both sides": " AND ".join(f"l.v + r.k - r.k <> {i}" for i in range(1, 2 * MANY, 2)),
    "AND of ranges": "l.v IN (0, 2, 4) AND " + " AND ".join(f"r.v - l.v <= {20_000 + i}" for i in range(MANY)),
    "the same again": "l.v IN (0, 2, 4) AND " + " AND ".join(["l.k = r.k"] * MANY),
}


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("name", CHAINS)
def test_a_condition_of_thousands_of_terms_joins(name):
    """Each of these says that l.v is even, in thousands of terms."""
    on = f"l.k = r.k AND ({CHAINS[name]})"
    left = pa.table({"k": [1] * 6, "v": [0, 1, 2, 3, 4, None], "s": ["0", "1", "2", "3", "4", None]}, SCHEMA)
    right = pa.table({"k": [1], "v": [9], "s": ["x"]}, SCHEMA)
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, on, select=["l.v AS v"]) as join:
        assert sorted(join.process({"l": left, "r": right})["v"].to_pylist()) == [0, 2, 4]


@pytest.mark.parametrize("name", ["IN", "NOT IN", "IN with columns", "OR", "OR in parentheses", "AND"])
def test_its_tree_is_shallow_and_its_text_reads_back(name):
    """So it can be compared, hashed, shown and sent to Spark's workers."""
    expr = whole(CHAINS[name], SCOPE)
    deepest, level = 0, [expr]
    while level:
        deepest, level = deepest + 1, [child for node in level for child in node.children]
    assert deepest <= 6
    again = whole(str(expr), SCOPE)
    assert again == expr == pickle.loads(pickle.dumps(expr))
    assert len({expr, again}) == 1


@pytest.mark.parametrize(
    "term",
    [
        "(" * 1000 + "l.v > 1" + ")" * 1000,
        "l.v > " + "(1 + " * 1000 + "1" + ")" * 1000,
        "l.v > " + " + ".join(["1"] * MANY),
        "NOT " * MANY + "l.v > 1",
        "l.v > " + "abs(" * 1000 + "l.v" + ")" * 1000,
        "l.v > 1 AND (l.v > 2 OR (" * 1000 + "l.v > 3" + "))" * 1000,
    ],
    ids=["parentheses", "sums in parentheses", "a sum", "NOT", "calls", "AND and OR"],
)
def test_what_is_nested_too_deeply_is_refused_in_words(term):
    """With what to do about it, and not the whole text again."""
    with pytest.raises(ConditionError, match=r"nested too deeply .* compute a part of it as a column") as caught:
        build_spec({"l": SCHEMA, "r": SCHEMA}, f"l.k = r.k AND {term}")
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    "term", ["(" * 30 + "l.v > 1" + ")" * 30, "l.v > " + " + ".join(["1"] * 90), "NOT " * 30 + "l.v > 1"]
)
def test_what_people_write_is_not_too_deep(term):
    """Thirty parentheses or ninety summands are read, and travel."""
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, f"l.k = r.k AND {term}")
    assert pickle.loads(pickle.dumps(spec)).fingerprint() == spec.fingerprint()


def test_a_long_condition_is_shown_around_the_place_at_fault():
    """The caret is under it."""
    text = f"l.k = r.k AND ({CHAINS['OR']}) AND l.nothing = 1 AND ({CHAINS['AND']})"
    with pytest.raises(ConditionError, match="no column 'nothing'") as caught:
        build_spec({"l": SCHEMA, "r": SCHEMA}, text)
    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^") :].startswith("nothing = 1")
    assert len(line) < 500


def test_a_wrong_type_in_a_long_list_is_told_in_short():
    """The message has the beginning of the expression."""
    with pytest.raises(ConditionError, match=r"l\.s IN .* CAST") as caught:
        build_spec({"l": SCHEMA, "r": SCHEMA}, f"l.k = r.k AND l.s IN ({', '.join(map(str, range(10_000)))})")
    assert len(str(caught.value)) < 1500


def test_a_chain_is_one_call():
    """Whatever parentheses were written around its parts; OR and AND stay apart."""
    assert str(whole("l.k = 1 AND (l.k = 2 AND l.k = 3) AND l.v BETWEEN 4 AND 5", SCOPE)) == (
        "(l.k = 1) AND (l.k = 2) AND (l.k = 3) AND (l.v >= 4) AND (l.v <= 5)"
    )
    either = whole("l.k = 1 OR (l.k = 2 AND l.k = 3)", SCOPE)
    assert isinstance(either, Call)
    assert [str(arg) for arg in either.args] == ["l.k = 1", "(l.k = 2) AND (l.k = 3)"]


def test_one_value_is_an_equality():
    """`l.k IN (r.k)` is a key of the join."""
    assert build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k IN (r.k)").equal_codes


VALUES = {
    "i": (pa.int64(), st.integers(-3, 3), ["-3", "0", "2", "1.0", "2.5", "1e0", "3L"]),
    "u": (pa.uint8(), st.integers(0, 3), ["0", "2", "300", "-1"]),
    "x": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
          ["0", "-0.0D", "1.5", "1.5D", "1e308D", "7"]),
    "d": (pa.decimal128(6, 2), st.sampled_from([Decimal("1.50"), Decimal("2.00"), Decimal("-0.01")]),
          ["1.5", "2", "-0.01", "1.505"]),
    "s": (pa.string(), st.sampled_from(["", "a", "b", "1"]), ["''", "'a'", "'c'", "'1'"]),
    "c": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"]), ["'a'", "'c'"]),
    "b": (pa.bool_(), st.booleans(), ["TRUE", "FALSE"]),
    "t": (pa.date32(), st.sampled_from([date(2024, 1, 1), date(2024, 2, 29)]),
          ["DATE '2024-01-01'", "'2024-02-29'", "TIMESTAMP '2024-02-29 00:00:00'"]),
    "z": (pa.timestamp("us", "UTC"), st.sampled_from([datetime(2024, 1, 1), datetime(2024, 2, 29, 1)]),
          ["DATE '2024-01-01'", "'2024-02-29 01:00:00'", "TIMESTAMP '2024-02-29 01:00:00'"]),
}  # fmt: skip
TYPED = Scope({"l": pa.schema([(name, type_) for name, (type_, _, _) in VALUES.items()])})


@st.composite
def memberships(draw):
    """A column, its values, and a list to look them up in."""
    name = draw(st.sampled_from(sorted(VALUES)))
    type_, values, constants = VALUES[name]
    column = pa.array(draw(st.lists(st.one_of(st.none(), values), max_size=6)), type_)
    return name, column, draw(st.lists(st.sampled_from([*constants, "NULL"]), min_size=2, max_size=5))


@settings(max_examples=examples(100), deadline=None)
@given(memberships())
def test_in_is_a_chain_of_equalities(case):
    """For every type, with NULL on either side, NaN, two zeros, and literals of other types."""
    name, column, constants = case
    within = whole(f"l.{name} IN ({', '.join(constants)})", TYPED)
    either = whole(" OR ".join(f"l.{name} = {constant}" for constant in constants), TYPED)
    assert isinstance(within, Call)
    assert within.name == "IN"
    columns = {f"l.{name}": column}
    assert within.evaluate(columns, len(column)).to_pylist() == either.evaluate(columns, len(column)).to_pylist()
