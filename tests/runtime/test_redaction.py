"""Redacted keys: outside of segments, which are the data, no file and no report of a join shows a key or its code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.errors import CheckpointMismatchError, SpecError
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.spec import build_spec
from evenjoin.testing import Hooks, brute_force, multiset
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

FIRST = 987_654_321_012_345
KEYS = {
    "integer": pa.array([FIRST + 1_000_003 * n for n in range(40)]),
    "negative": pa.array([-FIRST - 1_000_003 * n for n in range(40)]),
    "float": pa.array([FIRST + 0.25 + 1_000_003 * n for n in range(40)]),
    "timestamp": pa.array([FIRST + 1_000_003 * n for n in range(40)], pa.timestamp("us")),
    "text": pa.array([f"customer {FIRST + n}" for n in range(40)]),
    "long text": pa.array([f"{FIRST + n}" * 30 for n in range(40)]),
}
"""Recognisable keys of several types."""
GUARDS = evenjoin.Guards(cooldown=0, min_work=0, min_gain=0)


def rows(keys, seed, count=120):
    """A few of the keys are hot, so that strategies move them."""
    picked = np.random.default_rng(seed).zipf(1.2, count) % len(keys)
    return pa.table({"k": keys.take(pa.array(picked)), "v": pa.array(np.arange(count) + seed * count)})


def traces(keys):
    """What a key looks like in a file: its text, and the text and bytes of its code where that is its value."""
    found = {str(key).encode() for key in keys.to_pylist()}
    if not pa.types.is_string(keys.type):
        codes = ordered_int64(keys)
        found |= {str(code).encode() for code in codes.tolist()}
        found |= {codes[n : n + 1].astype(order).tobytes() for n in range(len(codes)) for order in ("<i8", ">i8")}
        found |= {b"%x" % code for code in codes.view(np.uint64).tolist()}
    return found


def shown(data, keys):
    """The traces of keys that are somewhere in the data."""
    text = data if isinstance(data, bytes) else repr(data).encode()
    return [trace for trace in traces(keys) if trace in text]


def guarded(folder, keys, seen):
    """A step of the driver that looks through every file of the checkpoint but the segments."""

    def step(name, batch):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.relative_to(folder).parts[0] != "segments":
                seen.add(path.relative_to(folder).parts[0])
                assert shown(path.read_bytes(), keys) == [], path
                assert shown(str(path), keys) == []

    return Hooks(step=step)


def inspected(folder, *arguments):
    result = CliRunner().invoke(command, ["inspect", str(folder), "--show-keys", "--migrations", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


PLANNED = [
    *(("fastjoin", kind) for kind in KEYS),
    ("djb", "integer"),
    ("djb", "text"),
    ("adsp(task_capacity=300, most=64)", "integer"),
]


@pytest.mark.parametrize(("strategy", "kind"), PLANNED, ids=str)
def test_no_key_leaves_the_segments(strategy, kind, tmp_path):
    """Through rebalances and a restart: commits, tables, receipts, reports, progress and `inspect` have no trace of a
    key, and the results are right."""
    keys, folder, seen, results, moved = KEYS[kind], tmp_path / "ck", set(), [], 0
    schema, on, select = rows(keys, 0).schema, "l.k = r.k", ["l.k AS k", "l.v AS a", "r.v AS b"]
    sent = [{alias: rows(keys, 2 * batch + side) for side, alias in enumerate("lr")} for batch in range(6)]
    options = {"select": select, "strategy": strategy, "guards": GUARDS, "redact_keys": True, "checkpoint": folder}
    for part, instances in ((sent[:4], 3), (sent[4:], 2)):
        hooks = guarded(folder, keys, seen)
        with evenjoin.local({"l": schema, "r": schema}, on, instances=instances, hooks=hooks, **options) as join:
            results += [join.process(batch) for batch in part]
            moved += sum(event.tuples for event in join.migrations())
            assert shown((join.load(), join.table(), join.progress(), join.migrations()), keys) == []
    assert {"commits", "tables", "receipts", "join.json"} <= seen
    assert moved > 0
    assert shown(inspected(folder).encode(), keys) == shown(inspected(folder, "--json").encode(), keys) == []
    whole = {alias: pa.concat_tables(batch[alias] for batch in sent) for alias in "lr"}
    spec = build_spec({"l": schema, "r": schema}, on, select=select)
    assert multiset(pa.concat_tables(results)) == brute_force(spec, whole)


def test_a_redacted_key_is_told_by_its_salted_code(tmp_path, monkeypatch):
    """The hot key has a name and a region of its own as before, and both are another number in another checkpoint."""
    names, seeds = [], iter([1, 2])
    monkeypatch.setattr("evenjoin.commit.identity.secrets.randbits", lambda bits: next(seeds))
    for folder in (tmp_path / "one", tmp_path / "two"):
        with evenjoin.local(
            {a: rows(KEYS["integer"], 0).schema for a in "lr"}, "l.k = r.k", strategy="djb", guards=GUARDS,
            redact_keys=True, checkpoint=folder,
        ) as join:  # fmt: skip
            for batch in range(6):
                join.process({a: rows(KEYS["integer"], batch) for a in "lr"})
            heavy = {key.code: key.name for key in join.load().heavy}
        document = json.loads(inspected(folder, "--json"))
        hottest = [key["name"] for key in document["heaviest_keys"]]
        assert all(name == f"key-{code % 2**64:016x}" for code, name in heavy.items())
        assert {*hottest} <= {*heavy.values()}
        assert {code for region in document["table"]["regions"] for code in region.get("keys", ())} & {*heavy}
        names.append(hottest)
    assert names[0] != names[1]


@pytest.mark.parametrize(
    "strategy", ["random", "square(task_capacity=150, most=64)", "dynamic(task_capacity=150, most=64)"]
)
def test_keys_of_a_band_are_neither_sampled_nor_told(strategy, tmp_path):
    """Where codes are compared by order they are the keys' values: they stay in the segments, and the join runs."""
    keys, folder, seen = KEYS["integer"], tmp_path / "ck", set()
    schema, on = rows(keys, 0).schema, "abs(l.k - r.k) <= 2000006"
    sent = [{alias: rows(keys, 2 * batch + side) for side, alias in enumerate("lr")} for batch in range(4)]
    options = {"select": ["l.v AS a", "r.v AS b"], "checkpoint": folder, "hooks": guarded(folder, keys, seen)}
    with evenjoin.local(
        {"l": schema, "r": schema}, on, strategy=strategy, guards=GUARDS, track=8, redact_keys=True, **options
    ) as join:
        results = [join.process(batch) for batch in sent]
        assert shown((join.load(), join.table(), join.progress(), join.migrations()), keys) == []
    assert {"commits", "receipts"} <= seen
    assert shown(inspected(folder).encode(), keys) == shown(inspected(folder, "--json").encode(), keys) == []
    whole = {alias: pa.concat_tables(batch[alias] for batch in sent) for alias in "lr"}
    spec = build_spec({"l": schema, "r": schema}, on, select=options["select"])
    assert multiset(pa.concat_tables(results)) == brute_force(spec, whole)


@pytest.mark.parametrize("on", ["l.v = r.v AND ", "abs(l.v - r.v) <= 3 AND ", ""])
def test_values_of_a_range_stay_in_the_segments_too(on, tmp_path):
    """Runs may be sorted by another column of the condition. Without redaction a commit says between which values."""
    keys, folder = KEYS["integer"], tmp_path / "ck"
    schema, on = rows(keys, 0).schema, f"{on}r.k BETWEEN l.k - 1000003 AND l.k"
    data = pa.table([keys, pa.array(range(len(keys)))], schema=schema)
    options = {"select": ["l.v AS a", "r.v AS b"], "checkpoint": folder, "hooks": guarded(folder, keys, set())}
    with evenjoin.local({"l": schema, "r": schema}, on, redact_keys=True, **options) as join:
        results = [join.process({alias: data}) for alias in "lrl"]
    spec = build_spec({"l": schema, "r": schema}, on, select=options["select"])
    whole = {"l": pa.concat_tables([data, data]), "r": data}
    assert multiset(pa.concat_tables(results)) == brute_force(spec, whole)


def test_areas_of_a_band_cannot_be_redacted():
    """A-DSP's tables name keys. That is refused with the strategies that do not; for an equality it is salted codes."""
    schema = pa.schema([("k", pa.int64())])
    sides = {"l": schema, "r": schema}
    asked = {"strategy": "adsp(task_capacity=100)", "redact_keys": True}
    with pytest.raises(
        SpecError, match=r"redact_keys=True with strategy 'adsp'.*\n.*dynamic, hypercube, ideal, random, square"
    ):
        evenjoin.local(sides, "abs(l.k - r.k) <= 1", **asked)
    scaling = evenjoin.Scaling(task_capacity=10)
    with pytest.raises(SpecError, match="redact_keys=True"):
        evenjoin.local(sides, "l.k < r.k", instances="auto", scaling=scaling, **asked)
    evenjoin.local(sides, "l.k = r.k", **asked).close()


@pytest.mark.parametrize("first", [False, True])
def test_a_checkpoint_is_redacted_from_its_first_batch_or_never(first, tmp_path):
    """Its codes depend on it, and old commits would keep old names: another answer at a restart is refused in words."""
    schema = pa.schema([("k", pa.int64())])

    def start(redact):
        return evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", redact_keys=redact, checkpoint=tmp_path / "ck")

    with start(first) as join:
        join.process({"l": pa.table({"k": [1]})})
    with pytest.raises(
        CheckpointMismatchError, match=f"redact_keys: checkpoint has {first}, this join has {not first}"
    ):
        start(not first)
    with start(first) as join:
        assert join.process({"r": pa.table({"k": [1]})}).num_rows == 1


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12), st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=examples(40), deadline=None)
@pytest.mark.parametrize(
    "on", ["l.k = r.k", "l.k = r.k AND r.t BETWEEN l.t - 1 AND l.t + 1", "l.k = r.k AND l.t = r.t", "l.k + 0 = r.k"]
)
def test_the_answer_does_not_depend_on_the_salt(on, keys, instances, apart):
    """Salted codes join what plain codes join, for keys of any size, and columns rebuilt from them are the keys."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    left = pa.table([keys, [n % 3 for n in range(len(keys))]], schema=schema)
    right = pa.table([keys[::-1], [n % 2 for n in range(len(keys))]], schema=schema)
    options = {"select": ["l.k AS a", "r.k AS b", "r.t"], **({"event_time": "t"} if "BETWEEN" in on else {})}
    sides = {"l": schema, "r": schema}
    with evenjoin.local(sides, on, instances=instances, redact_keys=True, **options) as join:
        results = [join.process({"l": left}), *(join.process({}) for _ in range(apart)), join.process({"r": right})]
    assert multiset(pa.concat_tables(results)) == brute_force(build_spec(sides, on, **options), {"l": left, "r": right})


def test_a_windowed_join_is_redacted_too(tmp_path):
    """The key is salted; the start of the window is a time, as the watermark is, and stays one."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    keys = KEYS["integer"]
    data = pa.table([keys, pa.array(range(len(keys)))], schema=schema)
    with evenjoin.local(
        {"l": schema, "r": schema}, "l.k = r.k", event_time="t", watermark=1000, window=evenjoin.tumbling(10),
        select=["l.k", "window.start"], redact_keys=True, checkpoint=tmp_path / "ck",
        hooks=guarded(tmp_path / "ck", keys, set()),
    ) as join:  # fmt: skip
        found = join.process({"l": data, "r": data})
    assert sorted(found.to_pylist(), key=str) == sorted(
        ({"k": key, "start": n // 10 * 10} for n, key in enumerate(keys.to_pylist())), key=str
    )


def test_late_rows_are_data(tmp_path: Path):
    """They go to the side output that was asked for, and leave no trace in the checkpoint once the batch is final."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    got, keys, folder = [], KEYS["integer"], tmp_path / "ck"
    with evenjoin.local(
        {"l": schema, "r": schema}, "l.k = r.k AND l.t = r.t", event_time="t", watermark=0, redact_keys=True,
        late=lambda rows, alias, batch: got.extend(rows.column("k").to_pylist()), checkpoint=folder,
    ) as join:  # fmt: skip
        for time in (100, 5):
            join.process({a: pa.table([keys, [time] * len(keys)], schema=schema) for a in "lr"})
    assert sorted(got) == sorted(keys.to_pylist() * 2)
    files = [path for path in folder.rglob("*") if path.is_file() and "segments" not in path.parts]
    assert [path for path in files if shown(path.read_bytes(), keys)] == []
