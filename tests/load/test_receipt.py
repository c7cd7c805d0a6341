"""Receipts come back as they were written, and fold into the load report."""

from __future__ import annotations

import json

import pytest

from evenjoin.load.receipt import HeavyKey, Intake, Receipt
from evenjoin.load.report import HEAVY_KEYS, InstanceLoad, LoadReport, fold
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run


def run(file, rows, alive=None):
    return Run(file, 0, rows, rows if alive is None else alive, 0, -5, 5, rows * 8, rows * 8 + 100, 1, dirty=(1, -2))


def receipt(instance, **more):
    values = {
        "sealed": ((run(f"a{instance}", 3),), ()),
        "merged": ((), ()),
        "stored": (3, 0),
        "probes": (0, 4),
        "matches": 6,
        "busy_ms": 2.0,
        **more,
    }
    return Receipt(9, instance, **values)


def test_round_trip():
    """Everything, also NULL times, odd names and both kinds of run."""
    full = receipt(
        1,
        merged=((run("b", 4), run("c", 4, alive=1)), ()),
        buckets=((0, 2, 3), (1, 0, 4)),
        heavy=(HeavyKey(-(2**63), 'a "quoted", Zürich', (3, 0), 6),),
        intake=(Intake(5, 1, 1, -(2**63)), Intake(4, 0, 0, None)),
        late_files=("late/9/0-x.arrow",),
    )
    assert Receipt.from_bytes(full.to_bytes()) == full
    assert Receipt.from_bytes(receipt(0).to_bytes()) == receipt(0)


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
        receipt(0, buckets=((0, 2, 3),), intake=(Intake(5, 1, 0, 7), Intake(4, 0, 2, 3))),
        receipt(1, buckets=((0, 2, 1), (1, 0, 4)), matches=1, busy_ms=6.0),
        receipt(2, intake=(Intake(1, 0, 0, 9), Intake())),
    ]
    report = fold(receipts, manifest, 2, expired=8)
    assert report.instances == (
        InstanceLoad(0, (7, 0), (0, 4), 6, 104, 2.0),
        InstanceLoad(1, (0, 2), (0, 4), 1, 16, 6.0),
        InstanceLoad(2, (0, 0), (0, 4), 6, 0, 2.0),
    )
    assert report.buckets == ((0, 2, 4), (1, 0, 4))
    assert report.intake == (Intake(6, 1, 0, 9), Intake(4, 0, 2, 3))
    assert (report.batch, report.expired, report.matches) == (9, 8, 13)
    assert report.imbalance == pytest.approx(6.0 * 3 / 10.0)


def test_a_split_key_is_one_heavy_key():
    """Counts of a key that several instances report are added; the heaviest come first, at most HEAVY_KEYS."""
    receipts = [
        receipt(0, heavy=(HeavyKey(7, "seven", (5, 1), 3), HeavyKey(8, "eight", (9, 0), 0))),
        receipt(1, heavy=(HeavyKey(7, "seven", (4, 2), 1),)),
    ]
    assert fold(receipts, Manifest(), 2).heavy == (HeavyKey(7, "seven", (9, 3), 4), HeavyKey(8, "eight", (9, 0), 0))
    many = [receipt(i, heavy=tuple(HeavyKey(100 * i + k, "", (k, 0), 0) for k in range(30))) for i in range(3)]
    heaviest = fold(many, Manifest(), 2).heavy
    assert len(heaviest) == HEAVY_KEYS
    assert [key.arrived[0] for key in heaviest] == sorted((k for k in range(30) for _ in range(3)), reverse=True)[
        :HEAVY_KEYS
    ]


def test_report_round_trip():
    """Through JSON text, as the commit keeps it."""
    report = fold(
        [receipt(0, buckets=((0, 2, 3),), heavy=(HeavyKey(7, "x", (5, 1), 3),), intake=(Intake(5), Intake()))],
        Manifest({(0, 0): (run("a0", 3),)}),
        2,
    )
    assert LoadReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_idle_instances_are_even():
    """Nothing to do is not an imbalance."""
    assert fold([receipt(0, busy_ms=0.0), receipt(1, busy_ms=0.0)], Manifest(), 2).imbalance == 1.0
