"""The machines: nodes with cores and speeds, slow for a while, lost and back; and how long tasks take on them.

    Cluster(speeds=(1.0, 1.0, 0.5), cores=4, slow=(Slow(node=0, first=10, last=20, factor=3.0),))

Instance i always runs on node i // cores % nodes. On its node a task takes the first core that is free, in the order
that the work asks for (instance/work.py), as Spark starts tasks. A lost node is replaced before the batch; its
instances read their state again, which is the profile's to price (cost.py).

Pure values; cost O(instances * log cores). Not here: how much work a task has.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
import numpy.typing as npt

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64


@dataclass(frozen=True, slots=True)
class Slow:
    """A straggler: from batch `first` to `last`, both included, the node takes `factor` times as long."""

    node: int
    first: int
    last: int
    factor: float = 2.0


@dataclass(frozen=True, slots=True)
class Loss:
    """A node that is lost just before a batch."""

    node: int
    batch: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """`speeds` are by node; 1 is the machine on which the profile was measured. Every node has `cores` cores."""

    speeds: tuple[float, ...] = (1.0,)
    cores: int = 1
    slow: tuple[Slow, ...] = ()
    lost: tuple[Loss, ...] = ()

    def __post_init__(self) -> None:
        if not self.speeds or min(self.speeds) <= 0 or self.cores < 1:
            raise SpecError(f"a cluster needs nodes of a speed above 0 with cores, not {self.speeds} and {self.cores}")

    @classmethod
    def of(cls, instances: int, cores: int = 4) -> Cluster:
        """Equal nodes with a core for each instance."""
        return cls((1.0,) * -(-instances // cores), cores)

    @property
    def size(self) -> int:
        """All cores."""
        return self.cores * len(self.speeds)

    def node_of(self, instances: int) -> I64:
        """[instances] The node that each instance runs on."""
        return np.arange(instances) // self.cores % len(self.speeds)

    def speed_of(self, instances: int, batch: int) -> F64:
        """[instances] The speed of each instance in a batch."""
        speeds = np.array(self.speeds, np.float64)
        for slow in self.slow:
            if slow.first <= batch <= slow.last:
                speeds[slow.node] /= slow.factor
        return speeds[self.node_of(instances)]

    def recovering(self, instances: int, batch: int) -> npt.NDArray[np.bool_]:
        """[instances] Which instances were on a node that was lost before this batch."""
        return np.isin(self.node_of(instances), [loss.node for loss in self.lost if loss.batch == batch])

    def makespan(self, taken_ms: F64, order: I64 | None = None) -> float:
        """How long the tasks of all instances take together, each taking so long on its core."""
        if len(taken_ms) <= self.size:
            return float(taken_ms.max(initial=0.0))
        return float((self.begun(taken_ms, order) + taken_ms).max())

    def begun(self, taken_ms: F64, order: I64 | None = None) -> F64:
        """[instances] When each task begins, in ms: in this order (None: that of instances) on the first core of its
        node that is free."""
        ranks = np.arange(len(taken_ms)) if order is None else order
        out, nodes = np.zeros(len(taken_ms)), self.node_of(len(taken_ms))
        for node in range(len(self.speeds)):
            mine = ranks[nodes[ranks] == node]
            free = [0.0] * self.cores
            for task, taken in zip(mine.tolist(), taken_ms[mine].tolist(), strict=True):
                out[task] = free[0]
                heapreplace(free, free[0] + taken)
        return out
