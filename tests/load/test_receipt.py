"""Receipts come back as they were written, and fold into the load report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evenjoin.errors import ReceiptError
from evenjoin.load.intake import Intake
from evenjoin.load.receipt import HeavyKey, Receipt
from evenjoin.load.report import InstanceLoad, LoadReport, Ran, fold, report_of
from evenjoin.load.sampled import sampled
from evenjoin.load.samples import Slice
from evenjoin.placement import RoutingTable
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run


def run(file, rows, alive=None):
    return Run(file, 0, rows, rows if alive is None else alive, 0, -5, 5, rows * 8, rows * 8 + 100, 1, dirty=(1, -2))


def receipt(instance, **more):
    values = {
        "sealed": {(instance, 0): (run(f"a{instance}", 3),)},
        "merged": {},
        "stored": (3, 0),
        "probes": (0, 4),
        "results": (6, 0),
        "busy_ms": 2.0,
        **more,
    }
    return Receipt(9, instance, **values)


def test_round_trip():
    """Everything, also NULL times, odd names and both kinds of run."""
    full = receipt(
        1,
        merged={(1, 0): (run("b", 4), run("c", 4, alive=1)), (1, 1): ()},
        cells=((0, 2, 3, 0, 1), (1, 0, 4, 9, 2)),
        heavy=(HeavyKey(-(2**63), 'a "quoted", Zürich', (3, 0), (1, 2), (9, 9), (6, 0)),),
        intake=(Intake(5, 1, 1, -(2**63)), Intake(4, 0, 0, None)),
        late_files=("late/9/0-x.arrow",),
    )
    assert Receipt.from_bytes(full.to_bytes()) == full
    assert Receipt.from_bytes(receipt(0).to_bytes()) == receipt(0)


@pytest.mark.parametrize("place", [0, 4, 8, 9, 60, -1])
def test_a_damaged_receipt_is_never_believed(place):
    """Whichever byte is changed or lost, the file is named: a count or a run that is wrong would go into the commit."""
    good = bytearray(receipt(1).to_bytes())
    changed = good.copy()
    changed[place] ^= 1
    for bad in (bytes(changed), bytes(good[:place]), b""):
        with pytest.raises(ReceiptError, match="receipts/9/1-x of the checkpoint is damaged; the batch will be replay"):
            Receipt.from_bytes(bad, "receipts/9/1-x")


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        (Intake(), Intake(), Intake()),
        (Intake(1, 2, 3, 4), Intake(), Intake(1, 2, 3, 4)),
        (Intake(1, 2, 3, -4), Intake(10, 20, 30, -9), Intake(11, 22, 33, -4)),
        (Intake(latest=0), Intake(latest=None), Intake(latest=0)),
    ],
)
def test_intakes_add_up(one, two, both):
    """Counts add, the latest time is the later one; in either order."""
    assert one + two == two + one == both


def test_fold():
    """Stored and bytes are the manifest's, the rest the receipts'; bucket counts and intakes are sums."""
    manifest = Manifest({(0, 0): (run("a0", 3), run("old", 10, alive=4)), (1, 1): (run("x", 2),)})
    receipts = [
        receipt(0, cells=((0, 2, 3, 5, 1),), intake=(Intake(5, 1, 0, 7), Intake(4, 0, 2, 3))),
        receipt(1, cells=((0, 2, 1, 7, 1), (1, 0, 4, 4, 0)), results=(0, 1), busy_ms=6.0),
        receipt(2, intake=(Intake(1, 0, 0, 9), Intake())),
    ]
    report = fold(receipts, manifest, 2)
    assert report.instances == (
        InstanceLoad(0, (7, 0), (0, 4), (6, 0), 104, 2.0),
        InstanceLoad(1, (0, 2), (0, 4), (0, 1), 16, 6.0),
        InstanceLoad(2, (0, 0), (0, 4), (6, 0), 0, 2.0),
    )
    assert report.cells == ((0, 2, 4, 12, 2), (1, 0, 4, 4, 0))
    assert report.intake == (Intake(6, 1, 0, 9), Intake(4, 0, 2, 3))
    assert (report.batch, report.matches) == (9, 13)
    assert report.imbalance == pytest.approx(6.0 * 3 / 10.0)


def test_times_are_those_of_one_row_and_of_one_message():
    """100 tuples that are stored and probe at the same instance are 100 messages, whatever they did there. An instance
    that placed little says little of the time that it takes: its call of `place` was nearly all overhead."""
    busy = receipt(0, stored=(50, 50), probes=(50, 50), messages=(50, 50), receive_ms=0.2, place_us=0.04)
    idle = receipt(1, stored=(0, 0), probes=(0, 0), messages=(0, 0), place_us=60.0)
    report = fold([busy, idle], Manifest(), 2)
    assert (report.hash_us, report.transfer_us) == (pytest.approx(0.04), pytest.approx(2.0))
    nothing = fold([idle], Manifest(), 2)
    assert (nothing.hash_us, nothing.transfer_us) == (0, 0)


def test_a_split_key_is_one_heavy_key():
    """Counts of a key that several instances report are added, its probes are not; the heaviest come first."""
    receipts = [
        receipt(
            0,
            heavy=(
                HeavyKey(7, "seven", (5, 1), (9, 3), (50, 10), (3, 0)),
                HeavyKey(8, "eight", (9, 0), (0, 0), (9, 0), (0, 0)),
            ),
        ),
        receipt(1, heavy=(HeavyKey(7, "seven", (4, 2), (9, 3), (40, 20), (1, 0)),)),
    ]
    assert fold(receipts, Manifest(), 2).heavy == (
        HeavyKey(7, "seven", (9, 3), (9, 3), (90, 30), (4, 0)),
        HeavyKey(8, "eight", (9, 0), (0, 0), (9, 0), (0, 0)),
    )


def test_a_key_stored_where_it_is_light_is_still_counted_by_its_probes():
    """Instance 0 stores side 0 of the key and sees all 40 tuples of side 1 probe; their host reports nothing."""
    receipts = [receipt(0, heavy=(HeavyKey(7, "seven", (5, 0), (0, 40), (5, 0), (3, 0)),)), receipt(1)]
    assert fold(receipts, Manifest(), 2).heavy[0].arrived == (5, 40)


def test_report_round_trip():
    """Through JSON text, as the commit keeps it."""
    report = fold(
        [
            receipt(
                0,
                cells=((0, 2, 3, 0, 1),),
                heavy=(HeavyKey(7, "x", (5, 1), (1, 1), (8, 8), (3, 0)),),
                intake=(Intake(5), Intake()),
            )
        ],
        Manifest({(0, 0): (run("a0", 3),)}),
        2,
    )
    assert LoadReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_idle_instances_are_even():
    """Nothing to do is not an imbalance."""
    assert fold([receipt(0, busy_ms=0.0), receipt(1, busy_ms=0.0)], Manifest(), 2).imbalance == 1.0


def sliced(*slices):
    return tuple(Slice(number, until, points) for number, until, points in slices)


def test_samples_expire_with_their_sub_window():
    """Sub-windows 0 and 1 came in the first batch. Runs up to time 9 have expired: the first leaves, the other stays as
    it was, and what came now is added. The commit has each point once."""
    came = sliced((0, 9, ((1, 4.0), (5, 6.0))), (1, 13, ((2, 3.0),)))
    first = receipt(0, stored=(26, 0), intake=(Intake(13, sample=came), Intake()))
    before = sampled(fold([first], Manifest({(0, 0): (run("a", 26),)}), 2), [first], None)
    assert before.samples == (((1, 4.0), (2, 3.0), (5, 6.0)), ())
    more = sliced((1, 17, ((2, 1.0), (4, 2.0))), (2, 20, ((1, 7.0),)))
    second = receipt(0, stored=(20, 0), intake=(Intake(10, sample=more), Intake()))
    left = fold([second], Manifest({(0, 0): (run("a", 26),)}), 2, before)
    after = sampled(left, [second], before, (9, None))
    assert after.slices[0] == sliced((1, 17, ((2, 4.0), (4, 2.0))), (2, 20, ((1, 7.0),)))
    assert after.samples == (((1, 7.0), (2, 4.0), (4, 2.0)), ())
    data = json.loads(json.dumps(after.to_json()))
    assert "samples" not in data
    assert not data["intake"][0]["sample"]
    assert LoadReport.from_json(data) == after


def test_what_expires_is_the_runs_that_are_no_longer_kept():
    """A run is (file, ..., high): those up to 9 are gone on side 0, none on side 1."""
    old, new = replace(run("a", 4), high=9), replace(run("b", 4), high=12)
    stored = Manifest({(0, 0): (old, new), (1, 0): (replace(old, file="c", high=7),), (0, 1): (new,)})
    kept, expired = stored.expired((5, None), 14)
    assert expired == 8
    one = receipt(
        0, stored=(8, 4), intake=(Intake(8, sample=sliced((0, 9, ((1, 8.0),)), (1, 12, ((2, 4.0),)))), Intake())
    )
    ran = Ran(RoutingTable(0, 1, 2, 1, ()))
    assert report_of([one], stored, kept, expired, None, ran).samples == (((2, 4.0),), ())


def test_samples_stand_for_what_nobody_sampled_too():
    """A planner that starts on state of a strategy without samples: 10 new tuples of 3,010 alive stand for all."""
    new = receipt(0, stored=(10, 0), intake=(Intake(10, sample=sliced((0, None, ((1, 4.0), (2, 6.0))))), Intake()))
    found = sampled(fold([new], Manifest({(0, 0): (run("a", 3010),)}), 2), [new], None)
    assert found.samples == (((1, 1204.0), (2, 1806.0)), ())
