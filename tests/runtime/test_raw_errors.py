"""What used to end in an error of Arrow's or Python's own: it works, or it is refused with what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import EvenJoinError, SpecError

PLAIN = pa.schema([("k", pa.int64()), ("v", pa.int64())])
EMPTY = pa.schema([("k", pa.null()), ("v", pa.int64())])
UNSIGNED = pa.schema([("k", pa.uint64()), ("v", pa.int64())])

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")


def found(left, right, on):
    """How many results these rows give."""
    with evenjoin.local({"l": left.schema, "r": right.schema}, on, instances=2) as join:
        first = join.process({"l": left}).num_rows
        return first + join.process({"r": right}).num_rows


@pytest.mark.parametrize("schemas", [(EMPTY, EMPTY), (EMPTY, PLAIN), (PLAIN, EMPTY)], ids=["both", "left", "right"])
@pytest.mark.parametrize(
    ("on", "count"),
    [
        ("l.k = r.k", 0),
        ("l.k < r.k", 0),
        ("l.k = r.k AND l.v = r.v", 0),
        ("l.k <=> r.k", 9),
        ("l.k <=> r.k AND l.v = r.v", 3),
        ("l.v = r.v AND l.k IS NULL", 3),
        ("l.v = r.v AND (l.k <=> r.k OR l.k > 5)", 3),
    ],
)
def test_keys_of_the_type_of_null(schemas, on, count):
    """A column without a type holds NULLs only: they are equal under `<=>`, and match nothing else."""
    left, right = (pa.table({"k": pa.nulls(3, s.field("k").type), "v": [1, 2, 3]}, s) for s in schemas)
    assert found(left, right, on) == count


@pytest.mark.parametrize(
    "on", ["l.k = r.k", "l.k <=> r.k", "l.k < r.k", "l.v = r.v AND l.k <> r.k", "abs(l.k - r.k) < 9"]
)
def test_unsigned_numbers_beyond_the_signed_ones(on):
    """Spark has no unsigned numbers, so a value above 2^63 - 1 that is compared fails the batch with an error of ours,
    which says what to do. Below that, and where nobody compares them, they are joined."""
    small = pa.table({"k": pa.array([1, 2, 5], pa.uint64()), "v": [1, 2, 3]}, UNSIGNED)
    large = pa.table({"k": pa.array([1, 2**63, 2**64 - 1], pa.uint64()), "v": [1, 2, 3]}, UNSIGNED)
    assert found(small, small, on) >= 0
    with pytest.raises(
        EvenJoinError, match=r"fails for a value.*(9223372036854775808|18446744073709551615).*decimal128\(20, 0\)"
    ):
        found(large, large, on)
    assert found(large, large, "l.v = r.v") == 3


@pytest.mark.parametrize("front_door", [evenjoin.local, evenjoin.join], ids=lambda f: f.__name__)
@pytest.mark.parametrize("sides", [[PLAIN, PLAIN], (), None, [("l", PLAIN), ("r", PLAIN)]], ids=str)
def test_sides_without_aliases(front_door, sides):
    """A list of sides is refused: the condition needs their names."""
    with pytest.raises(SpecError, match=r"the sides must be given by alias, such as \{'l': ..., 'r': ...\}, not as "):
        front_door(sides, "l.k = r.k")


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("djb(theta=2)", r"djb has no setting 'theta'; .*it has .*theta_"),
        ("djb(thetamax=2)", r"djb has no setting 'thetamax'; did you mean 'theta_max'\?"),
        ("hash(groups=2)", r"hash has no setting 'groups'; .*it has "),
        ("contrand(group=2)", r"contrand has no setting 'group'; did you mean 'groups'\? it has groups"),
    ],
)
def test_settings_of_a_strategy_that_it_does_not_have(strategy, says):
    """The refusal names the settings that there are, and never a Python function."""
    with pytest.raises(SpecError, match=says) as caught:
        evenjoin.local({"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy=strategy)
    assert "__init__" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"theta": 2}, r"djb has no setting 'theta'; did you mean 'theta_max'\? it has theta_max, aim"),
        ({"theta_max": "a lot"}, r"djb: .*its settings are theta_max, aim"),
    ],
    ids=str,
)
def test_settings_of_a_strategy_as_a_value(settings, says):
    """The same where a strategy is made by its class."""
    with pytest.raises(SpecError, match=says) as caught:
        evenjoin.strategies.DJB(**settings)
    assert "__init__" not in str(caught.value)
