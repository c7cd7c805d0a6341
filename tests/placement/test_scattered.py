"""Scatter: messages grouped by instance, in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement.place import Placement
from thorough import examples


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 6), st.integers(1, 3)), max_size=30))
def test_each_message_goes_to_its_instance_in_order(messages):
    """One contiguous piece per instance that gets anything, messages in the order they came."""
    rows, instances, roles = (np.array([m[i] for m in messages], np.int64) for i in range(3))
    out = Placement(rows, instances.astype(np.int32), roles.astype(np.uint8)).by_instance(7)
    pieces = {
        int(instance): list(zip(out.rows[a:b].tolist(), out.roles[a:b].tolist(), strict=True))
        for instance, a, b in zip(out.instances, out.bounds[:-1], out.bounds[1:], strict=True)
    }
    assert pieces == {
        i: [(row, role) for row, instance, role in messages if instance == i] for i in {m[1] for m in messages}
    }


@pytest.mark.parametrize("count", [2**16, 2**16 + 1])
def test_more_instances_than_fit_into_16_bits(count):
    """The last instance is not confused with another."""
    instances = np.array([count - 1, 0, count - 1], np.int32)
    out = Placement(np.arange(3), instances, np.ones(3, np.uint8)).by_instance(count)
    assert (out.rows.tolist(), out.instances.tolist()) == ([1, 0, 2], [0, count - 1])
