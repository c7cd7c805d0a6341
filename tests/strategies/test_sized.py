"""Tasks of a capacity, and a fixed number of them: exact counts decide, and a stationary stream is left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.load.adsp import Floor
from evenjoin.load.items import items_of
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import EVERYTHING, At, Reach, check, place
from evenjoin.placement.pieces import stored_volume
from evenjoin.placement.topology import Role
from evenjoin.runtime.rebalance import decide
from evenjoin.runtime.settings import Guards
from evenjoin.spec import build_spec
from evenjoin.strategies import Adsp, Square, resolve
from evenjoin.strategies.adsp.cells import Scheme
from evenjoin.strategies.adsp.exact import fullest, regular, varietal
from evenjoin.strategies.elastic import Scaling, elastic, fixed
from evenjoin.testing import brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
REACHES = {"<>": EVERYTHING, "band": Reach(-20, 20), "equality": Reach(0, 0)}


def seen(table, tuples, batch=0, sizes=()):
    """The report of a batch after which these tuples (codes and positions by side) are alive: exact counts by instance,
    and every code a sample."""
    stored = []
    for side, at in enumerate(tuples):
        where = place(table, side, at).only(Role.STORE)
        stored.append(np.bincount(where.instance, minlength=table.instances).tolist())
    loads = tuple(InstanceLoad(i, some, (0, 0), (0, 0), 0, 0.0) for i, some in enumerate(zip(*stored, strict=True)))
    counts = [np.unique(at.codes, return_counts=True) for at in tuples]
    samples = tuple(tuple(zip(codes.tolist(), map(float, n), strict=True)) for codes, n in counts)
    return LoadReport(batch, loads, (), (), (), samples=samples, sizes=sizes)


def drawn(rng, rows, keys=2000):
    return At(rng.integers(0, keys, rows), rng.integers(0, 2**32, rows, np.uint32))


def exact(table, loads, samples):
    """A report with these counts by instance and side."""
    loads = tuple(InstanceLoad(i, some, (0, 0), (0, 0), 0, 0.0) for i, some in enumerate(loads))
    return LoadReport(9, loads, (), (), (), samples=samples)


def test_the_present_table_is_judged_by_what_it_stores():
    """The samples say 50 a task; one task stores 90 of V = 100, so it is too full. Of another table the samples tell,
    scaled to what is stored altogether."""
    strategy = Square(task_capacity=100)
    table = strategy.initial(2, 2, "shared")
    seen = exact(table, [(60, 30), (20, 10)], (((1, 60.0),), ((2, 20.0),)))
    items = items_of(seen, table)
    assert strategy.load(items, table).tolist() == [[90, 30]]
    assert strategy.imbalance(items, table) == pytest.approx(90 / 80)
    assert strategy.is_overfull(items, table)
    other = strategy.initial(1, 2, "shared")
    grid = table.regions[0].topology
    copies = 80 / grid.columns + 40 / grid.rows  # a row's tuples are in every column, and the other way round
    assert strategy.load(items, other).tolist() == [[pytest.approx(copies)]]
    assert stored_volume(table, items.alive).sum() == pytest.approx(120)


def test_a_capacity_in_bytes():
    """Eq. 1: tuples of 100 and of 10 bytes. 40 of each are 4,400 bytes, more than 80 % of 5,000; of V = 80 tuples they
    would be all. The scheme divides the side that is large in bytes."""
    points = (((1, 40.0),), ((2, 40.0),))
    strategy = Square(task_capacity=5000, unit="bytes")
    table = strategy.initial(1, 2, "shared")
    report = replace(exact(table, [(40, 40)], points), sizes=(100.0, 10.0))
    items = items_of(report, table)
    assert strategy.load(items, table).tolist() == [[4400]]
    assert strategy.imbalance(items, table) == pytest.approx(4400 / 4000)
    grid = strategy.plan(report, items, table).regions[0].topology
    assert (grid.rows, grid.columns) == (3, 1)
    with pytest.raises(SpecError, match="unit must be 'tuples' or 'bytes'"):
        resolve("square(unit=rows)")


def test_the_report_knows_the_bytes_of_a_tuple():
    """A side with a wide column has larger tuples; without one both sides are alike."""
    wide = pa.schema([("k", pa.int64()), ("text", pa.string())])
    with evenjoin.local(
        {"l": wide, "r": wide}, "l.k = r.k", select=["l.text AS a", "r.k AS b"], strategy="square"
    ) as j:
        rows = pa.table([range(50), ["x" * 500] * 50], schema=wide)
        j.process({"l": rows, "r": rows})
        one, two = j.load().sizes
    assert one > two + 400
    assert LoadReport.from_json(j.load().to_json()).sizes == (one, two)


@pytest.mark.parametrize(("tasks", "rows", "columns", "scheme", "load"), [
    (1, 100, 100, Scheme(1, 1), 200), (6, 100, 100, Scheme(2, 3), 100 / 2 + 100 / 3), (8, 800, 100, Scheme(8, 1), 200),
    (7, 100, 100, Scheme(4, 1, 3, "column", 13 / 24), 475 / 6),
])  # fmt: skip
def test_a_scheme_of_exactly_so_many_tasks(tasks, rows, columns, scheme, load):
    """Seven tasks are 4 x 1 and an adjustive line of 3: less than 1 x 7 stores (114), and than six of them (83)."""
    made = varietal(tasks, rows, columns)
    assert replace(made, regular=0.0) == replace(scheme, regular=0.0)
    assert made.regular == pytest.approx(scheme.regular)
    assert fullest(made, rows, columns) == pytest.approx(load)
    assert regular(tasks, rows, columns).tasks == made.tasks == tasks


def every_size():
    """All of 1 to 16; areas are planned for some of them, and for the others in slow runs."""
    for name in ("square", "dynamic", "adsp"):
        for reach in REACHES:
            for tasks in range(1, 17):
                slow = name == "adsp" and reach != "<>" and tasks not in (1, 2, 5, 8)
                yield pytest.param(name, reach, tasks, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("name", "reach", "tasks"), [*every_size()])
def test_a_fixed_number_of_instances_holds(name, reach, tasks):
    """Whatever the volumes are, plans have as many tasks as were asked for; Dynamic needs a power of
    two and says so."""
    strategy = resolve("adsp(lines=8)" if name == "adsp" else name)
    if name == "dynamic" and tasks & (tasks - 1):
        with pytest.raises(SpecError, match="use instances="):
            fixed(strategy, tasks)
        return
    strategy, rng = fixed(strategy, tasks), np.random.default_rng(tasks)
    table = replace(strategy.initial(tasks, 2, "shared"), reach=REACHES[reach])
    for rows, columns in ((200, 200), (300, 40)):
        report = seen(table, (drawn(rng, rows, 600), drawn(rng, columns, 600)))
        items = items_of(report, table)
        made = strategy.plan(report, items, table)
        table = table if made is None else check(made)
        assert table.instances == tasks
        load = strategy.load(replace(items, held=None), table)
        assert load.max() <= 1.35 * fullest(regular(tasks, rows, columns), rows, columns)


def test_limits_of_the_strategy_itself_count_more():
    """`instances=2` is then only where it starts. Ideal is Square without a limit."""
    assert fixed(Adsp(most=12), 2) == Adsp(most=12)
    assert fixed(Adsp(), 2) == Adsp(least=2, most=2)
    assert fixed(resolve("hash"), 2) == resolve("hash")
    ideal = elastic(resolve("ideal"), Scaling(10, 2, 4))
    square = elastic(resolve("square"), Scaling(10, 2, 4))
    table = square.initial(2, 2, "shared")
    report = seen(table, (drawn(np.random.default_rng(1), 100),) * 2)
    made = [some.plan(report, items_of(report, table), table).instances for some in (ideal, square)]
    assert made == [31 * 31, 4]


def test_a_join_of_fixed_size_is_the_brute_force_join():
    """A band on five instances: one grid, then areas, five tasks all the time."""
    schema, on = pa.schema([("id", pa.int64()), ("k", pa.int64())]), "r.k BETWEEN l.k - 3 AND l.k + 3"
    rng, schemas, select = np.random.default_rng(3), {"l": schema, "r": schema}, ["l.id AS a", "r.id AS b"]
    data = {a: pa.table([range(150), rng.integers(0, 300, 150)], schema=schema) for a in "lr"}
    with evenjoin.local(schemas, on, select=select, strategy="adsp", instances=5) as join:
        parts = [join.process({a: data[a].slice(n * 50, 50) for a in "lr"}) for n in range(3)]
        assert (join.table().instances, join.table().ranged) == (5, True)
    assert multiset(pa.concat_tables(parts)) == brute_force(build_spec(schemas, on, select=select), data)


# ---- stationary and growing streams ----


def rebalances(strategy, reach, batches, rows, instances=1, seed=7):
    """In which of the batches a table was replaced; `rows(batch)` tuples of each side are alive after a batch, newly
    drawn, so that counts differ by chance as those of a window do."""
    table = replace(strategy.initial(instances, 2, "shared"), reach=reach)
    rng, last, out = np.random.default_rng(seed), None, []
    for batch in range(batches):
        report = seen(table, (drawn(rng, rows(batch)), drawn(rng, rows(batch))), batch)
        decision = decide(strategy, report, table, Guards(), last, lambda: 0.0)
        if decision.table is not table:
            out.append(batch)
        table, last = decision.table, decision.verdict.rebalanced
    return out, table


@pytest.mark.parametrize("seed", [7, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5))])
@pytest.mark.parametrize("size", ["auto", "fixed"])
@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", ["square", "dynamic", "adsp"])
def test_a_stationary_stream_is_left_alone(name, reach, size, seed):
    """At most two rebalances in 40 batches: one to the size that is needed, or to areas."""
    sized = elastic(resolve(name), Scaling(1000)) if size == "auto" else fixed(resolve(name), 8)
    found, table = rebalances(sized, REACHES[reach], 40, lambda batch: 2000, 1 if size == "auto" else 8, seed)
    assert len(found) <= 2, found
    assert table.instances == 8 if size == "fixed" else table.instances > 4


@pytest.mark.parametrize("name", ["square", "dynamic", "adsp"])
def test_with_the_full_history_rebalances_grow_with_the_logarithm(name):
    """As many rebalances while the volume grows from 1/4 of the history to 1/2 as from 1/2 to all of it, about."""
    sized = elastic(resolve(name), Scaling(1000, max_instances=2000))
    found, _ = rebalances(sized, EVERYTHING, 64, lambda batch: 100 * (batch + 1))
    early, late = sum(16 <= batch < 32 for batch in found), sum(batch >= 32 for batch in found)
    assert late <= early + 2, found
    assert len(found) <= 16


# ---- the search for a capacity ----


def steps(times, floor):
    """An offer whose tasks are so many times the floor, in whole numbers, and what it was asked."""
    asked = []

    def offer(capacity, enough):
        asked.append(capacity)
        return int(np.ceil(times(capacity) * floor.tasks(capacity))), capacity

    return offer, asked


@pytest.mark.parametrize("pairs", [0.0, 1e8], ids=["light codes", "a heavy code"])
@pytest.mark.parametrize(
    "times", [lambda _: 1.0, lambda _: 1.06, lambda _: 3.0, lambda c: 1 + 500 / c], ids=["1", "1.06", "3", "falling"]
)
@pytest.mark.parametrize("most", [7, 256])
def test_the_smallest_capacity_is_found_in_a_few_trials(most, times, pairs):
    """At most 256 tasks: no more than 1 % above the smallest capacity that does, whatever the schemes need."""
    floor = Floor(np.array([1e5, 2e4]), np.array([0.0, pairs]))
    offer, asked = steps(times, floor)
    found = Adsp(task_capacity=10, most=most).made_for(offer, floor)
    trials = len(asked)
    fine = found / 1.02 * np.linspace(1, 1.02, 2001)
    least = next(capacity for capacity in fine if offer(capacity, 0)[0] <= most)
    assert offer(found, 0)[0] <= most
    assert least > fine[0]
    assert found <= 1.0101 * least
    assert trials <= 12


def test_a_capacity_that_is_hopeless_by_the_floor_is_not_tried():
    """V = 10 for 120,000 tuples takes 12,000 tasks at least, which are too many."""
    floor = Floor(np.array([1e5, 2e4]), np.zeros(2))
    offer, asked = steps(lambda _: 1.05, floor)
    Adsp(task_capacity=10, most=256).made_for(offer, floor)
    assert min(asked) >= 120_000 / 256 * 0.999


def test_too_few_tasks_are_made_for_a_smaller_capacity():
    """One task would do, and four are wanted: a capacity below V."""
    floor = Floor(np.array([1000.0]), np.zeros(1))
    offer, _ = steps(lambda _: 1.0, floor)
    found = Adsp(task_capacity=100_000, least=4, most=8).made_for(offer, floor)
    assert 250 <= found <= 252.6
