"""Codes of keys: equal keys have equal codes, exact codes sort like keys, and hashing spreads."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels import mixing
from evenjoin.kernels.hashing import (
    KeyCodec,
    from_ordered_int64,
    hash_column,
    is_fixed_width,
    is_rebuildable,
    mix64,
    ordered_int64,
)
from evenjoin.kernels.mixing import Mixer
from evenjoin.placement.place import bucket_of
from thorough import examples

EPOCH = dt.datetime(1970, 1, 1)

ASCENDING = {
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int32(): [-(2**31), -1, 0, 1, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 1, 2**63 - 1],
    pa.uint32(): [0, 1, 2**32 - 1],
    pa.bool_(): [False, True],
    pa.float16(): [-math.inf, -1.5, 0.0, 1.5, math.inf, math.nan],
    pa.float32(): [-math.inf, -1.5, -(2.0**-149), 0.0, 2.0**-149, 1.5, math.inf, math.nan],
    pa.float64(): [-math.inf, -1e308, -5e-324, 0.0, 5e-324, 1.5, 1e308, math.inf, math.nan],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.date64(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.time32("ms"): [dt.time(0), dt.time(1, 2, 3), dt.time(23, 59, 59)],
    pa.time64("us"): [dt.time(0), dt.time(1, 2, 3), dt.time(23, 59, 59, 999999)],
    pa.timestamp("us"): [EPOCH - dt.timedelta(days=1), EPOCH, EPOCH + dt.timedelta(microseconds=1)],
    pa.duration("us"): [dt.timedelta(days=-1), dt.timedelta(0), dt.timedelta(microseconds=1)],
    pa.decimal128(18, 2): [Decimal("-9999999999999999.99"), Decimal("-0.01"), Decimal("0"), Decimal("0.01")],
}
"""Per fixed-width type some values in their order; NaN is the greatest, as in Spark."""

OTHERS = {
    pa.string(): ["", "a", "abcdefgh", "abcdefghi"],
    pa.large_string(): ["", "a", "abcdefgh", "abcdefghi"],
    pa.string_view(): ["", "a", "abcdefgh", "a much longer one than twelve"],
    pa.binary(): [b"", b"\0", b"\0\0", b"\xff" * 9],
    pa.binary(2): [b"\0\0", b"ab"],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.decimal128(38, 2): [Decimal("-1e35"), Decimal("0.01"), Decimal("1e35")],
    pa.decimal256(60, 2): [Decimal("-1e50"), Decimal("0.01"), Decimal("1e50"), Decimal("2e50")],
}
"""Types whose keys are hashed."""


@pytest.mark.parametrize("type_", ASCENDING, ids=str)
def test_exact_codes_sort_like_the_values(type_):
    """A single fixed-width key is its own code: distinct values, distinct codes, in the values' order."""
    assert KeyCodec((type_,), (False,)).exact
    codes = ordered_int64(pa.array(ASCENDING[type_], type_))
    assert codes.dtype == np.int64
    assert (np.diff(codes.astype(object)) > 0).all()


@pytest.mark.parametrize("type_", [t for t in ASCENDING if is_rebuildable(t)], ids=str)
def test_rebuildable_columns_come_back(type_):
    """from_ordered_int64 is the inverse of ordered_int64."""
    column = pa.array(ASCENDING[type_], type_)
    assert from_ordered_int64(ordered_int64(column), type_).equals(column)


def test_floats_and_decimals_are_not_rebuilt():
    """-0.0 and 0.0 share a code, and a decimal's scale is not in its code: such columns are stored."""
    assert not any(map(is_rebuildable, (pa.float32(), pa.float64(), pa.decimal128(10, 2))))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
@settings(max_examples=examples(50), deadline=None)
def test_any_int64_comes_back(values):
    """Every int64 is its own code."""
    column = pa.array(values, pa.int64())
    assert ordered_int64(column).tolist() == values
    assert from_ordered_int64(ordered_int64(column), pa.int64()).equals(column)


@given(st.floats(), st.floats())
@settings(max_examples=examples(200), deadline=None)
def test_float_codes_compare_like_spark(one, two):
    """a < b, a = b, a > b by code exactly as Spark compares: NaN equals itself and is greatest, -0.0 = 0.0."""
    a, b = ordered_int64(pa.array([one, two], pa.float64())).tolist()
    key = [(math.isnan(x), 0.0 if math.isnan(x) else x) for x in (one, two)]
    assert (a < b, a == b) == (key[0] < key[1], key[0] == key[1])


def test_negative_zero_and_nan_bits():
    """All NaNs are one key, whatever their bits; so are the two zeros."""
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert len(set(ordered_int64(pa.array(bits)).tolist())) == 1
    assert len(set(ordered_int64(pa.array([0.0, -0.0])).tolist())) == 1


@pytest.mark.parametrize("type_", [*ASCENDING, *OTHERS], ids=str)
def test_null_never_matches_under_equality_and_is_a_value_under_null_safe(type_):
    """Under `=` a NULL is masked out; under `<=>` all NULLs share a code that no value of these has."""
    values = {**ASCENDING, **OTHERS}[type_]
    column = pa.array([None, *values, None], type_)
    _, valid = KeyCodec((type_,), (False,)).encode([column], len(column))
    assert valid.tolist() == [False, *[True] * len(values), False]
    codes, valid = KeyCodec((type_,), (True,)).encode([column], len(column))
    assert valid is None
    assert codes[0] == codes[-1]
    assert codes[0] not in codes[1:-1]


@pytest.mark.parametrize("type_", [*ASCENDING, *OTHERS], ids=str)
def test_the_hash_sees_only_the_value(type_):
    """The hash is the same in a slice, behind NULLs, alone, and in a dictionary; different values differ."""
    values = {**ASCENDING, **OTHERS}[type_]
    whole = hash_column(pa.array(values, type_))
    assert len(set(whole.tolist())) == len(values)
    padded = pa.array([values[-1], None, *values, None, values[0]], type_)
    assert hash_column(padded.slice(2, len(values))).tolist() == whole.tolist()
    assert [hash_column(pa.array([v], type_))[0] for v in values] == whole.tolist()
    if type_ not in (pa.float16(), pa.string_view()):  # Arrow has no dictionaries of these
        assert hash_column(padded.dictionary_encode().slice(2, len(values))).tolist() == whole.tolist()


@pytest.mark.parametrize("type_", [*ASCENDING, *OTHERS], ids=str)
def test_no_rows_and_nothing_but_nulls(type_):
    """Empty and all-NULL columns have codes too."""
    for codec in (KeyCodec((type_,), (False,)), KeyCodec((type_, type_), (False, False))):
        for column in (pa.array([], type_), pa.nulls(3, type_)):
            codes, valid = codec.encode([column] * len(codec.types), len(column))
            assert len(codes) == len(column)
            assert valid is None if len(column) == 0 else not valid.any()


text = st.one_of(st.text(max_size=20), st.text("ab", min_size=250, max_size=280))


@given(st.lists(st.one_of(st.none(), text), max_size=12), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_string_hash_over_slices_chunks_and_types(values, data):
    """Equal strings hash equally in string, large_string, binary and dictionary columns, sliced or in chunks."""
    whole = hash_column(pa.array(values, pa.string()))
    cut = data.draw(st.integers(0, len(values)))
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        column = pa.array(values, type_)
        parts = [column.slice(0, cut), column.slice(cut)]
        assert np.concatenate([hash_column(p) for p in parts]).tolist() == whole.tolist()
        assert hash_column(pa.chunked_array(parts, type_).combine_chunks()).tolist() == whole.tolist()
    assert hash_column(pa.array(values, pa.string()).dictionary_encode()).tolist() == whole.tolist()
    assert hash_column(pc.cast(pa.array(values, pa.string()), pa.binary())).tolist() == whole.tolist()
    by_value = dict(zip(values, whole.tolist(), strict=True))
    assert [by_value[v] for v in values] == whole.tolist()
    assert len(set(by_value.values())) == len(by_value)


def test_strings_that_differ_in_one_place_differ_in_hash():
    """Every byte counts, at each side of the 8-byte steps and of the long-key limit, and so does the length."""
    texts = {"x" * n for n in range(0, 300)}
    for length in (1, 7, 8, 9, 16, 255, 256, 257, 300):
        texts |= {"x" * i + "y" + "x" * (length - i - 1) for i in range(length)}
    ordered = sorted(texts)
    assert len(set(hash_column(pa.array(ordered)).tolist())) == len(ordered)


def test_composite_keys_know_their_order():
    """(a, b) and (b, a), and ("ab", "c") and ("a", "bc"), are different keys."""
    codec = KeyCodec((pa.string(), pa.string()), (False, False))
    assert not codec.exact
    assert codec.dtype == np.int32
    codes, valid = codec.encode([pa.array(["a", "b", "ab", "a"]), pa.array(["b", "a", "c", "bc"])], 4)
    assert valid is None
    assert len(set(codes.tolist())) == 4


def test_one_null_of_a_composite_key_is_enough():
    """A tuple matches nothing as soon as one key under `=` is NULL; the null-safe ones do not count."""
    columns = [pa.array([1, None, 1, None]), pa.array(["a", "a", None, None])]
    assert KeyCodec((pa.int64(), pa.string()), (False, False)).encode(columns, 4)[1].tolist() == [True, *[False] * 3]
    mixed = KeyCodec((pa.int64(), pa.string()), (False, True)).encode(columns, 4)[1]
    assert mixed.tolist() == [True, False, True, False]


def test_without_a_key_all_tuples_share_a_code():
    """A window without an equality: one code for everything, exact."""
    codes, valid = KeyCodec((), ()).encode([], 3)
    assert (codes.tolist(), valid) == ([0, 0, 0], None)


def uneven(counts):
    """How far counts are from even, in standard deviations of a fair draw (chi-square, normalised)."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("buckets", [2, 3, 7, 64, 1000])
@pytest.mark.parametrize("keys", ["consecutive", "multiples of 4096", "hashed strings", "negative"])
def test_buckets_are_even(buckets, keys):
    """Distinct keys spread over buckets as a fair draw would, also when they are very regular."""
    codes = {
        "consecutive": np.arange(50_000),
        "multiples of 4096": np.arange(50_000) * 4096,
        "negative": -(10**15) - np.arange(50_000) * 7,
        "hashed strings": KeyCodec((pa.string(),), (False,)).encode([pa.array(map(str, range(50_000)))], 50_000)[0],
    }[keys]
    found = bucket_of(codes, buckets)
    assert found.min() >= 0
    assert found.max() < buckets
    assert abs(uneven(np.bincount(found, minlength=buckets))) < 6


def test_the_bucket_of_a_key_does_not_depend_on_its_width():
    """Codes of 32 and 64 bits of the same value are in the same bucket: tables outlive a codec's width."""
    codes = np.array([-5, -1, 0, 1, 2**31 - 1], np.int32)
    assert bucket_of(codes, 97).tolist() == bucket_of(codes.astype(np.int64), 97).tolist()


def test_mix64_is_a_bijection_on_a_sample():
    """No two inputs share an output."""
    values = np.concatenate([np.arange(10_000), np.arange(10_000) << 50]).astype(np.uint64)
    assert len(np.unique(mix64(values))) == len(np.unique(values))


def test_wide_types_are_not_exact():
    """Strings, big decimals, unsigned 64 bit and intervals with months are hashed."""
    wide = (pa.string(), pa.decimal128(19, 0), pa.uint64(), pa.binary(8), pa.month_day_nano_interval())
    assert not any(map(is_fixed_width, wide))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2), st.lists(st.integers(0, 2**64 - 1), max_size=20))
@settings(max_examples=examples(100), deadline=None)
def test_the_mixer_of_every_seed_is_a_bijection(seed, number, values):
    """`unmix` gives back what `mix` was given."""
    mixer, column = Mixer.of(seed, number), np.array(values, np.uint64)
    assert mixer.unmix(mixer.mix(column)).tolist() == values


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_every_step_of_a_hash_depends_on_the_seed(seed):
    """Under two seeds no value keeps its hash or its difference to another: not a short one, not a tail, not NULL."""
    texts = pa.array(["", "a", "a" * 8, "a" * 9, "b" * 300, "b" * 299 + "c", None])
    one, two = (hash_column(texts, Mixer.of(other % 2**64)) for other in (seed, seed + 1))
    assert not (one == two).any()
    i, j = np.tril_indices(7, -1)
    assert not (one[i] - one[j] == two[i] - two[j]).any()
    assert not (one[i] ^ one[j] == two[i] ^ two[j]).any()


def slow_hash(mixer, value):
    """The hash of one byte string by its definition, a word at a time, in Python's own integers."""
    full = 2**64 - 1

    def mix(x):
        x ^= int(mixer.start)
        for shift, factor in ((32, mixer.first), (29, mixer.second), (32, 1)):
            x = (x ^ (x >> shift)) * int(factor) & full
        return x

    words = [int.from_bytes(value[i : i + 8], "little") for i in range(0, len(value), 8)]
    hashed = mix(len(value))
    for word in words[:32]:
        hashed = mix(hashed * int(mixer.fold) & full ^ word)
    if words[32:]:
        tail = sum(mix(word ^ mix(2 * p)) * (mix(2 * p + 1) | 1) for p, word in enumerate(words[32:])) & full
        hashed = mix(hashed * int(mixer.fold) & full ^ tail)
    return hashed


@given(st.lists(st.one_of(st.binary(max_size=20), st.binary(min_size=250, max_size=700)), max_size=8), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_strings_are_hashed_together_as_they_are_alone(values, data):
    """The hashes of many strings at once, in chunks of any size, are those of a slow hash of each."""
    mixer = Mixer.of(data.draw(st.integers(0, 2**64 - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "CHUNK", data.draw(st.integers(1, 100)))
        found = hash_column(pa.array(values, pa.binary()), mixer)
    assert found.tolist() == [slow_hash(mixer, value) for value in values]


@pytest.mark.parametrize("type_", [t for t in ASCENDING if is_rebuildable(t)], ids=str)
def test_salted_codes_are_exact_and_show_nothing(type_):
    """Distinct values have distinct codes, none is its own code, another seed gives others, the value comes back."""
    column, rows = pa.array(ASCENDING[type_], type_), len(ASCENDING[type_])
    codecs = [KeyCodec((type_,), (False,), seed, "salted") for seed in (5, 6)]
    one, two = (codec.encode([column], rows)[0] for codec in codecs)
    assert len({*one.tolist(), *two.tolist(), *ordered_int64(column).tolist()}) == 3 * rows
    assert from_ordered_int64(codecs[0].ordered(one), type_).equals(column)
    assert codecs[0].exact


@pytest.mark.parametrize("seed", range(5))
def test_salted_codes_spread_over_buckets(seed):
    """Consecutive keys do, whatever the seed."""
    codes, _ = KeyCodec((pa.int64(),), (False,), seed, "salted").encode([pa.array(range(50_000))], 50_000)
    assert abs(uneven(np.bincount(bucket_of(codes, 64), minlength=64))) < 6
