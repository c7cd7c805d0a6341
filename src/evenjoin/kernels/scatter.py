"""Scatter: from placed tuples to one contiguous piece per instance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Scatter(NamedTuple):
    """`rows[bounds[i]:bounds[i+1]]` are the messages of the i-th destination, `instances[i]`; `roles` runs beside."""

    rows: npt.NDArray[np.int64]
    roles: npt.NDArray[np.uint8]
    instances: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]


def scatter(
    rows: npt.NDArray[np.int64], instances: npt.NDArray[np.int32], roles: npt.NDArray[np.uint8], count: int
) -> Scatter:
    """Group messages by instance, keeping their order. O(messages): a radix sort for up to 65,536 instances."""
    order = np.argsort(instances.astype(np.uint16 if count <= 2**16 else np.uint32), kind="stable")
    sizes = np.bincount(instances, minlength=count)
    used = np.flatnonzero(sizes)
    bounds = np.concatenate([[0], np.cumsum(sizes[used])])
    return Scatter(rows[order], roles[order], used, bounds)
