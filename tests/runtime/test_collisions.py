"""Hashed codes that collide: keys that share a code are told apart by the keys themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.instance import follow
from evenjoin.instance.verify import same_keys
from evenjoin.kernels import hashing
from evenjoin.kernels.mixing import Mixer
from evenjoin.spec import build_spec
from evenjoin.state.segment import MOST_DIRTY
from evenjoin.testing import brute_force, multiset, split
from thorough import examples

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("t", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.name", "r.x"]
CONDITIONS = [
    "l.name = r.name",
    "l.name <=> r.name",
    "l.name = r.name AND l.x = r.x",
    "l.name <=> r.name AND l.x <=> r.x AND r.t BETWEEN l.t - 2 AND l.t + 1",
]


@st.composite
def tables(draw):
    names = st.sampled_from([None, "", "a", "A", "b", "ab", "a longer name than eight"])
    numbers = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])
    rows = draw(st.lists(st.tuples(names, numbers, st.integers(0, 5)), max_size=14))
    return pa.table(
        {"id": list(range(len(rows))), **{c: [r[i] for r in rows] for i, c in enumerate(("name", "x", "t"))}}, SCHEMA
    )


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("spoilt", ["codes", "codes and checks"])
@pytest.mark.parametrize("codes", [1, 2])
@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(CONDITIONS), tables(), tables(), st.integers(1, 3), st.data())
def test_the_answer_does_not_depend_on_the_hash(codes, spoilt, on, left, right, instances, data):
    """With only one or two codes for all keys, and second hashes that are good or just as bad: the brute-force result,
    over batches, merges and instances."""
    real = hashing.KeyCodec._hashed

    def hashed(codec, columns, purpose):
        good = real(codec, columns, purpose)
        return good if spoilt == "codes" and purpose == hashing.CHECK else (good % np.uint64(codes)) << np.uint64(40)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing.KeyCodec, "_hashed", hashed)
        cuts = data.draw(st.lists(st.integers(0, 14), max_size=5))
        parts = zip(split(left, cuts), split(right, cuts), strict=True)
        options = {"event_time": "t"} if ".t" in on else {}
        with evenjoin.local(SCHEMAS, on, select=SELECT, instances=instances, merge_budget=20, **options) as join:
            results = [join.process({"l": one, "r": two}) for one, two in parts]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, on, select=SELECT, **options), {"l": left, "r": right}
    )


def codec_of(join):
    """What the keys of a running join are encoded with: its seed is the checkpoint's."""
    return join._driver.schemas[0].codec


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_a_real_collision():
    """Two names whose 32-bit codes are equal, found by search, do not meet each other; each meets itself."""
    schema = pa.schema([("name", pa.string())])
    names = pa.array([f"name {n}" for n in range(400_000)])
    with evenjoin.local({"l": schema, "r": schema}, "l.name = r.name", select=["l.name AS a", "r.name AS b"]) as join:
        codes, _ = codec_of(join).encode([names], len(names))
        order = np.argsort(codes, kind="stable")
        twins = np.flatnonzero(np.diff(codes[order]) == 0)
        assert len(twins) > 0
        one, two = names[int(order[twins[0]])].as_py(), names[int(order[twins[0] + 1])].as_py()
        results = [join.process({a: pa.table({"name": [one, two]}) for a in "lr"}) for _ in range(2)]
    assert multiset(pa.concat_tables(results)) == {(one, one): 4, (two, two): 4}


CRAFTED = pa.schema([("k", pa.int64()), ("t", pa.int64())])
"""Joined by `<=>`, whose codes are hashes."""


def crafted(seed, codes, each):
    """Keys that share their codes, `each` keys for each of the codes, made by somebody who knows the seed: the mixer is
    a bijection, so its inverse gives a key for every hash."""
    hashes = (np.repeat(np.arange(codes), each) << 32) + np.tile(np.arange(each), codes)
    return Mixer.of(seed, hashing.CODE).unmix(hashes.astype(np.uint64)).view(np.int64)


@pytest.fixture
def compared(monkeypatch):
    """Counts the pairs whose real keys are compared."""
    pairs = []

    def counted(null_safe, left, right):
        pairs.append(len(left[0]))
        return same_keys(null_safe, left, right)

    monkeypatch.setattr(follow, "same_keys", counted)
    return pairs


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("on", ["l.k <=> r.k", "l.k <=> r.k AND r.t BETWEEN l.t - 1 AND l.t + 1"])
def test_keys_that_share_a_code_are_not_compared_each_with_each(on, compared):
    """Of n keys a side with one and the same code some n pairs are compared in each run, not n * n."""
    n, options = 2_000, {"event_time": "t"} if ".t" in on else {}
    with evenjoin.local({"l": CRAFTED, "r": CRAFTED}, on, select=["l.k AS a", "r.k AS b"], **options) as join:
        keys = crafted(codec_of(join).seed, 1, n)
        assert len(np.unique(codec_of(join).encode([pa.array(keys)], n)[0])) == 1
        rows = pa.table([keys, np.zeros(n, np.int64)], schema=CRAFTED)
        results = pa.concat_tables([join.process({"l": rows, "r": rows}) for _ in range(2)])
    assert multiset(results) == {(int(k), int(k)): 4 for k in keys}
    assert 4 * n <= sum(compared) <= 5 * n


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_what_collides_under_one_seed_does_not_under_another():
    """Keys crafted for a seed are to any other seed what random keys are: nearly all have a code of their own."""
    keys = pa.array(crafted(7, 1, 20_000))
    distinct = [len(np.unique(hashing.KeyCodec((pa.int64(),), (True,), seed).encode([keys], 20_000)[0])) for seed in
                (7, 8, 7 + 2**63, 2**64 - 1)]  # fmt: skip
    assert distinct[0] == 1
    assert min(distinct[1:]) > 19_980


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_every_checkpoint_has_codes_of_its_own(monkeypatch):
    """Two joins draw two seeds: a string has another code in each."""
    monkeypatch.undo()  # the seed of tests
    schema = pa.schema([("name", pa.string())])
    names = pa.array(["a", "b", "c", "d"])
    joins = [evenjoin.local({"l": schema, "r": schema}, "l.name = r.name") for _ in range(2)]
    one, two = (codec_of(join).encode([names], 4)[0].tolist() for join in joins)
    assert one != two


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_a_commit_lists_only_so_many_dirty_codes(tmp_path):
    """A run with more of them says so in a word. What reads it finds them again, in this process and after a restart,
    and the answer is right."""
    schemas, codes = {"l": CRAFTED, "r": CRAFTED}, MOST_DIRTY + 1
    select, options = ["l.k AS a", "r.k AS b"], {"instances": 1, "checkpoint": tmp_path / "ck"}
    with evenjoin.local(schemas, "l.k <=> r.k", select=select, **options) as join:
        keys = crafted(codec_of(join).seed, codes, 2)
        few, many = (pa.table([part, np.zeros(len(part), np.int64)], schema=CRAFTED) for part in (keys[:-2], keys))
        join.process({"l": few})
        results = [join.process({"l": many}), join.process({"r": many})]
        assert [run.dirty is None for _, _, run in join._driver.last.manifest] == [False, True, True]
        assert max(len(run.dirty or ()) for _, _, run in join._driver.last.manifest) == MOST_DIRTY
    with evenjoin.local(schemas, "l.k <=> r.k", select=select, **options) as join:
        results.append(join.process({"l": many}))
    expected = {(int(k), int(k)): 3 for k in keys[:-2]} | {(int(k), int(k)): 2 for k in keys[-2:]}
    assert multiset(pa.concat_tables(results)) == expected
