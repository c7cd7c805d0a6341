"""TriJoin in the paper's numbers (VLDB: Sec. 3.2, 3.3, eq. 1 and 2), through the real engine; and programs it refuses.

The counts are those of the load report: packs made and alive, messages with packs sent on, `hubs` (the paper's
comparisons) and `members`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.instance.program import Program, Send
from evenjoin.instance.programs import program_of
from evenjoin.instance.spreads import prove
from evenjoin.spec import JoinSpec, build_spec
from evenjoin.testing import multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("ts", pa.int64())])
SCHEMAS = dict.fromkeys("rst", SCHEMA)
SELECT = ["r.id AS r", "s.id AS s", "t.id AS t"]
CYCLIC = "r.a = s.a AND s.b = t.b AND r.b = t.a"
CHAIN = "r.a = s.a AND s.b = t.b"


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows that all match each other."""
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "a": [0] * count, "b": [0] * count, "ts": ids}, schema=SCHEMA)


def run(on: str, packing: str, units: str, batches: Any, **more: Any) -> Any:
    """A join that has processed these batches, each {alias: number of rows}."""
    instances = sum(map(int, units.split(":")))
    strategy = f"trijoin(packing={packing}, units={units})"
    options = {"strategy": strategy, "layout": "split", "instances": instances, "select": SELECT, **more}
    join = evenjoin.local(SCHEMAS, on, **options)
    for batch in batches:
        join.process({name: rows(count) if isinstance(count, int) else count for name, count in batch.items()})
    return join


def packs(join: Any, name: str = "") -> Any:
    """(packs made, pairs in them, messages sent, packs alive, pairs alive) over all instances, of this store."""
    counted = [p for load in join.load().instances for p in load.packs if name in ("", p.name)]
    return tuple(sum(getattr(p, what) for p in counted) for what in ("made", "pairs", "sent", "alive", "alive_pairs"))


# --- Sec. 3.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("packing", "kept"), [("paired", 4), ("packed", 1)])
def test_the_papers_cyclic_example(packing, kept):
    """s comes and matches r1 .. r4: four pairs and four comparisons with t, or one pack and one comparison. The members
    are compared too, because in a cyclic join they have a condition with t."""
    with run(CYCLIC, packing, "1:1:2", [{"r": 4}, {"s": 1}]) as join:
        assert packs(join, "s@r") == (kept, 4, 0, kept, 4)
        assert join.process({"t": rows(1)}).num_rows == 4
        progress = join.progress()
        assert (progress.hubs, progress.members) == (kept, 4)


@pytest.mark.parametrize(("packing", "kept"), [("paired", 3), ("packed", 1)])
@pytest.mark.parametrize("units", ["1:1:2", "1:2:3"])
def test_the_papers_chain_example(packing, kept, units):
    """s comes and matches r1 .. r3: 3 packs, 3 n_t messages and 3 |K_T| comparisons; or 1, n_t and |K_T|."""
    n_t, stored = int(units[-1]), 6
    with run(CHAIN, packing, units, [{"r": 3, "t": stored}, {"s": 1}]) as join:
        made, pairs, sent, *_ = packs(join, "s@r")
        assert (made, pairs, sent) == (kept, 3, kept * n_t)
        progress = join.progress()
        assert (progress.hubs, progress.members, progress.results) == (kept * stored, 0, 3 * stored)


def test_a_chain_with_a_check_compares_members():
    """Where the ends have a condition with each other that drives nothing, each member is looked at."""
    with run(f"{CHAIN} AND r.id <> t.id", "packed", "1:1:2", [{"r": 3, "t": 6}, {"s": 1}]) as join:
        assert (join.progress().hubs, join.progress().members, join.progress().results) == (6, 18, 15)


# --- equations 1 and 2 ------------------------------------------------------------------------------------------------


def random_rows(rng: Any, count: int, values: int, first: int = 0) -> pa.Table:
    keys = rng.integers(0, values, (2, count))
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "a": keys[0], "b": keys[1], "ts": ids}, schema=SCHEMA)


@pytest.mark.parametrize("packing", ["paired", "packed"])
@pytest.mark.parametrize("on", [CYCLIC, CHAIN], ids=["cyclic", "chain"])
def test_equation_1_a_tuple_is_compared_with_at_most_the_packs_of_a_unit(on, packing):
    """L_r = |I_oK_Si| tau: at each unit an end's tuple is compared with no more hubs than there are packs."""
    rng = np.random.default_rng(5)
    first = {name: random_rows(rng, 60, 6) for name in "rst"}
    with run(on, packing, "2:2:2", [first]) as join:
        there = [sum(p.alive for p in load.packs) for load in join.load().instances]
        join.process({"r": random_rows(rng, 1, 6, 60)})
        hubs = [load.hubs for load in join.load().instances]
        assert all(compared <= alive for compared, alive in zip(hubs, there, strict=True))
        assert 0 < sum(hubs) < sum(there) and hubs[:2] == [0, 0]  # nothing is looked for at R's own units


def test_equation_2_only_the_middle_has_a_second_hop():
    """L_s = (|K_Ri| + |K_Ti|) tau + T_net: packs are sent on when s comes, and not when r or t does. With k R-units
    each T-unit gets the packs of all of them, which the paper's k |K_Ti| leaves out."""
    rng = np.random.default_rng(6)
    with run(CHAIN, "packed", "3:1:2", [{name: random_rows(rng, 40, 4) for name in "rst"}]) as join:
        sent = {}
        for number, name in enumerate("rts"):
            join.process({name: random_rows(rng, 5, 4, 100 + number)})
            sent[name] = packs(join, "s@r")
        assert (sent["r"][2], sent["t"][2]) == (0, 0)
        assert sent["s"][2] == 2 * sent["s"][0] > 0
        assert len(join._driver._program(join.table().program).program.hops) == 2
    cyclic = build_spec(SCHEMAS, CYCLIC)
    assert len(program_of(cyclic, "trijoin").hops) == 1


# --- what packing saves -----------------------------------------------------------------------------------------------


def saved(generated: int, pairs: int) -> float:
    return 1 - generated / pairs


@pytest.mark.parametrize("aimed", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_packing_saves_where_the_newcomer_is_the_hub(aimed, seed):
    """Of `lam` pairs that a newcomer makes at random at a unit, 1 - (1 - exp(-lam)) / lam are saved. The paper's 71 %
    fewer intermediate results is lam = 3.3."""
    units, stored, new = 2, 2_400, 2_000
    values = round(stored / units / aimed)
    rng = np.random.default_rng(seed)
    with run(CYCLIC, "packed", f"{units}:{units}:{units}", [{"r": random_rows(rng, stored, values)}]) as join:
        join.process({"s": random_rows(rng, new, values)})
        generated, pairs, *_ = packs(join, "s@r")
    lam = pairs / new / units
    assert abs(lam - aimed) < 0.15 * aimed
    assert abs(saved(generated, pairs) - (1 - (1 - math.exp(-lam)) / lam)) < 0.03


def test_what_packing_saves_at_the_middle_of_a_chain():
    """There the stored tuple is the hub, and gets a pack in each batch that brings it members: the larger the batches,
    the fewer packs. The packs of a hub become one when runs are merged."""
    stored, new, values = 600, 1_800, 600
    generated, alive = [], []
    for batches in (18, 6, 1):
        rng = np.random.default_rng(7)
        with run(CHAIN, "packed", "1:1:1", [{"s": random_rows(rng, stored, values)}]) as join:
            made = pairs = 0
            for _ in range(batches):
                join.process({"r": random_rows(rng, new // batches, values)})
                more = packs(join, "r@s")
                made, pairs = made + more[0], pairs + more[1]
            generated.append(saved(made, pairs))
            alive.append(saved(more[3], pairs))
            assert more[4] == pairs
    assert generated == sorted(generated)
    assert generated[0] < 0.25 < generated[2] and 0.6 < generated[2]
    assert all(after >= before for before, after in zip(generated, alive, strict=True))


def test_packed_and_paired_keep_the_same_pairs():
    """The same results from the same pairs, and never more packs, hubs or messages than paired."""
    for on in (CYCLIC, CHAIN):
        told = {}
        for packing in ("packed", "paired"):
            rng = np.random.default_rng(8)
            with run(on, packing, "2:2:2", []) as join:
                found = [multiset(join.process({n: random_rows(rng, 20, 5) for n in "rst"})) for _ in range(4)]
                totals = packs(join), join.progress().hubs, join.progress().members
            told[packing] = found, totals
        (packed, ((made, pairs, sent, alive, kept), hubs, members)) = told["packed"]
        (paired, ((one_made, one_pairs, one_sent, one_alive, one_kept), one_hubs, one_members)) = told["paired"]
        assert packed == paired
        assert (pairs, kept, members) == (one_pairs, one_kept, one_members) == (one_made, one_alive, members)
        assert (made < one_made, alive < one_alive, hubs < one_hubs, sent <= one_sent) == (True,) * 4


# --- programs that lose or repeat results (models: program_model.py) --------------------------------------------------

M = {0: "r.a = s.a AND r.b = t.b", 1: "r.a = s.a AND s.b = t.b", 2: "r.a = t.a AND s.b = t.b"}
"""A chain, by its middle side."""
ENDS = [(m, e) for m in range(3) for e in range(3) if e != m]


def spec_of(on: str) -> JoinSpec:
    return build_spec(SCHEMAS, on, select=SELECT)


def test_good_programs_are_accepted():
    """Cyclic, a common key, the chain with its middle at each place and either direction, the tree with each third
    side, also one that no edge reaches."""
    good = [(CYCLIC, "trijoin"), ("r.a = s.a AND s.a = t.a", "trijoin paired")]
    good += [(M[m], f"trijoin packed {e}") for m, e in ENDS] + [(CYCLIC, f"tree {c}") for c in range(3)]
    good += [(M[m], f"tree {e}") for m, e in ENDS]
    good += [("r.a = s.a AND r.id + s.id <> t.id", "tree 2"), ("s.a = t.a AND r.id + s.id <> t.id", "tree 0")]
    for on, name in good:
        program = program_of(spec_of(on), name)
        assert prove(program) is program


def resolved(program: Program, order: tuple[int, ...]) -> Program:
    """The same stores and paths, where the sides count as arriving in this order. A pack is as late as its newcomer."""
    newcomer = {path.into: path.source for path in program.paths if path.into is not None}
    stores = tuple(
        replace(store, latest=order.index(newcomer.get(number, number))) for number, store in enumerate(program.stores)
    )
    return replace(program, order=order, stores=stores)


@pytest.mark.parametrize(("m", "e"), ENDS)
def test_the_end_that_packs_are_sent_to_must_count_after_the_middle(m, e):
    """Hop 1 reads committed rows. If the end f came before m, then m would have to see f's rows of its own batch."""
    program = program_of(spec_of(M[m]), f"trijoin packed {e}")
    f = 3 - m - e
    assert program.order[0] == m
    for order in ((m, f, e), (m, e, f), (e, m, f)):
        assert prove(resolved(program, order))
    for order in ((f, m, e), (e, f, m), (f, e, m)):
        with pytest.raises(SpecError, match="give 0 results, not one"):
            prove(resolved(program, order))


def test_the_symmetric_scheme_on_a_chain_is_refused():
    """Nothing is sent on: results whose last tuple is the middle's are lost."""
    program = program_of(spec_of(CHAIN), "trijoin")
    symmetric = replace(program, paths=tuple(replace(p, send=None) for p in program.paths if p.hop == 0))
    with pytest.raises(SpecError, match="give 0 results, not one"):
        prove(symmetric)


def test_both_directions_forwarded_are_refused():
    """As the paper's text has it: every result whose last tuple is the middle's would come twice."""
    spec = spec_of(CHAIN)
    program, mirror = (program_of(spec, f"trijoin packed {end}") for end in (0, 2))
    sends = {path.into: path.send for path in (*program.paths, *mirror.paths) if path.send is not None}
    paths = tuple(replace(path, send=sends.get(path.into)) for path in program.paths if path.hop == 0)
    both = replace(program, paths=(*paths, *program.hops[1].paths, *mirror.hops[1].paths))
    assert sum(path.send is not None for path in both.paths) == 2
    with pytest.raises(SpecError, match="give 2 results, not one"):
        prove(both)


def test_a_tree_whose_third_side_probes_at_hop_0_is_refused():
    """It would see the pairs of earlier batches only."""
    program = program_of(spec_of(CHAIN), "tree 2")
    early = tuple(replace(path, hop=0) if path.source == 2 else path for path in program.paths)
    stores = tuple(replace(store, hop=0) if number == 2 else store for number, store in enumerate(program.stores))
    with pytest.raises(SpecError, match="not one"):
        prove(replace(program, stores=stores, paths=early))


def test_packs_that_are_sent_to_the_wrong_group_are_refused():
    """Packs made at R's units probe T where T is not."""
    program = program_of(spec_of(CHAIN), "trijoin")
    wrong = tuple(
        replace(path, send=Send(path.send.store, 0, "probe")) if path.send is not None else path
        for path in program.paths
    )
    with pytest.raises(SpecError, match="give 0 results"):
        prove(replace(program, paths=wrong))


def test_a_direct_join_over_units_of_its_own_is_refused():
    """Tuples that meet in pairs only cannot be joined by a path of two steps: the second store is elsewhere."""
    program = program_of(spec_of(CHAIN), "direct")
    with pytest.raises(SpecError, match="give 0 results"):
        prove(replace(program, meeting="pairs"))


def test_a_path_that_is_left_out_shows():
    """Whatever path of whatever program is taken away, some spread loses its result."""
    for on, name in ((CYCLIC, "trijoin"), (CHAIN, "trijoin"), (CHAIN, "tree 2"), (CHAIN, "direct")):
        program = program_of(spec_of(on), name)
        for left_out in program.paths:
            with pytest.raises(SpecError, match="not one"):
                prove(replace(program, paths=tuple(path for path in program.paths if path is not left_out)))


def test_what_trijoin_refuses_in_words():
    """Four sides, a side that nothing drives to, a direction that is no end."""
    four = dict.fromkeys("rstu", SCHEMA)
    on = "r.a = s.a AND s.b = t.b"
    for schemas, text, strategy, words in (
        (four, f"{on} AND t.a = u.a", "trijoin", "three sides, not 4"),
        (four, f"{on} AND t.a = u.a", "tree", "three sides, not 4"),
        (SCHEMAS, "r.a = s.a AND s.b <> t.b", "trijoin", "leads to side 't'"),
        (SCHEMAS, on, "trijoin(forward=s)", "one of the ends 'r' and 't'"),
        (SCHEMAS, on, "trijoin(forward=x)", "one of the sides r, s, t"),
        (SCHEMAS, on, "trijoin(packing=loose)", "packed, paired"),
        (SCHEMAS, on, "tree(last=s)", "'r' and 't' alone"),
        (SCHEMAS, on, "tree(last=x)", "one of the sides"),
    ):
        with pytest.raises(SpecError, match=words):
            evenjoin.local(schemas, text, strategy=strategy, instances=4)


