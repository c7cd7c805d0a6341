"""Streams of rows by a script: keys are hot where and when it says, and the join finds what brute force finds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.bench.against_best import judged, main, told
from evenjoin.bench.catalog import workload
from evenjoin.bench.compare import Comparison, Run, Trace
from evenjoin.bench.compare_plots import Panel, panels_plot, png
from evenjoin.bench.compare_report import as_document
from evenjoin.bench.cpu import Usage
from evenjoin.bench.jobs import Outcome
from evenjoin.bench.join_workload import Size
from evenjoin.bench.scripts import HEAT, NAMES, ScriptedStreams
from evenjoin.errors import SpecError


def hottest(script, batch, number=0):
    (key, rows), *_ = Counter(ScriptedStreams(script).batch(number, batch)["k"].to_pylist()).most_common(1)
    return key, rows / ScriptedStreams(script).rows_per_batch


def test_the_hot_key_has_its_share_of_side_0_and_no_other():
    assert hottest("hot", 3)[1] == pytest.approx(HEAT, abs=0.02)
    assert hottest("hot", 3, number=1)[1] < 0.01
    assert hottest("hot", 3)[0] == hottest("hot", 9)[0]


def test_the_pairs_of_a_key_that_is_hot_on_both_sides_are_about_two_in_three():
    left, right = (Counter(ScriptedStreams("hot-both").batch(side, 0)["k"].to_pylist()) for side in (0, 1))
    pairs = {key: left[key] * right[key] for key in left}
    assert max(pairs.values()) / sum(pairs.values()) == pytest.approx(0.66, abs=0.05)


def test_rows_without_a_key_and_keys_that_grow():
    keys = ScriptedStreams("nulls").batch(0, 4)["k"]
    assert keys.null_count / len(keys) == pytest.approx(HEAT, abs=0.02)
    ends = [pc.min_max(ScriptedStreams("monotone").batch(0, batch)["k"]).as_py() for batch in (0, 1, 8)]
    assert [(end["min"], end["max"]) for end in ends] == [(0, 199), (50, 249), (400, 599)]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_rows_and_auto_finds_what_hash_finds(name):
    """On the embedded engine, two small batches."""
    one, two, other = (workload(name, Size(300, 2, seed)) for seed in (5, 5, 6))
    sides = [list(one.streams.side(side)) for side in (0, 1)]
    assert sides == [list(two.streams.side(side)) for side in (0, 1)]
    assert sides != [list(other.streams.side(side)) for side in (0, 1)]
    found = []
    for strategy in ("hash", "auto"):
        schemas = {alias: sides[side][0].schema for side, alias in enumerate(one.aliases)}
        options = {"event_time": "ts", "watermark": one.watermark, "strategy": strategy, "select": list(one.select)}
        with evenjoin.local(schemas, one.condition, instances=4, **options) as join:
            batches = [join.process(dict(zip(one.aliases, rows, strict=True))) for rows in zip(*sides, strict=True)]
        found.append(sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)))
    assert found[0] == found[1]


def test_an_unknown_script_is_refused():
    with pytest.raises(SpecError, match="unknown workload 'script-cold'"):
        workload("script-cold")


def run(name, *batch_ms, also=()):
    """A run whose warm batches took so long, the fastest of several rounds."""
    found = Run(name, Outcome("evenjoin", 10, 1, Usage(1.0), batch_ms))
    return replace(found, rounds=(found.warm_ms, *also))


def test_auto_is_judged_by_the_median_of_its_rounds_over_the_best_of_the_others():
    """A strategy that was fast once is not the best, and the first batches do not count."""
    runs = (
        run("hash", 900, 900, 10, 10, also=(30, 31)),
        run("djb", 900, 900, 15, 25),
        run("auto", 900, 900, 20, 24, also=(21, 90)),
    )
    comparison = Comparison(workload("script-hot", Size(10, 4)), 4, runs[0].outcome, runs)
    auto, ratio = judged(comparison)
    assert (auto.name, ratio) == ("auto", pytest.approx(1.1))
    assert told(auto) == "auto 22 (21-90)"
    assert told(runs[1]) == "djb 20"
    assert png(panels_plot([Panel.of(comparison)] * 4)).startswith(b"\x89PNG")


def test_a_figure_is_drawn_again_from_what_was_saved(tmp_path):
    """A saved comparison gives the panel that the comparison itself gives."""
    measures = {"hash": (1.0,) * 3, "auto": (1.0,) * 3}
    trace = Trace((1.0,) * 3, measures, ("",) * 3, (), (), (), (), (2,) * 3, (1,) * 3, (1,) * 3, ())
    runs = tuple(replace(run(name, 900, 900, 30), trace=trace) for name in ("hash", "auto"))
    comparison = Comparison(workload("script-hot", Size(10, 4)), 4, runs[0].outcome, runs)
    saved = json.loads(json.dumps(as_document(comparison)))
    assert Panel.read(saved).runs[1][0] == "auto"
    assert [list(ms) for _, ms, _ in Panel.read(saved).runs] == [list(ms) for _, ms, _ in Panel.of(comparison).runs]
    (tmp_path / "best.json").write_text(json.dumps({"runs": [saved]}))
    drawn = CliRunner().invoke(main, ["--redraw", str(tmp_path / "best.json"), "--figure", str(tmp_path / "a.png")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_has_the_same_colour_in_all_panels():
    """Whatever the runs of a panel are, and in whatever order."""
    ms = [5.0] * 9
    lines = [["hash", "auto"], ["djb", "hash", "auto"], ["auto"]]
    figure = panels_plot([Panel(str(n), [(name, ms, [(7, 3)]) for name in names]) for n, names in enumerate(lines)])
    drawn = {(line.get_label(), line.get_color()) for axes in figure.axes for line in axes.get_lines()}
    colours = dict(one for one in drawn if not one[0].startswith("_"))
    assert set(colours) == {"hash", "auto", "djb"}
    assert len(set(colours.values())) == 3
    assert {colour for _, colour in drawn} == set(colours.values())
