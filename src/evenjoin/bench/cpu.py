"""CPU time and peak memory of a process and all that it started, from /proc.

Wall time on a shared machine says as much about the neighbours as about the system measured; CPU seconds do not.
Where there is no /proc (macOS) every figure is 0.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used; CPU and memory are those of all its processes."""

    wall_s: float
    cpu_s: float = 0.0
    peak_mb: float = 0.0


class Clock:
    """Measures from the moment it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), cpu_s()

    def read(self) -> Usage:
        """What has been used by now."""
        return Usage(time.monotonic() - self._wall, cpu_s() - self._cpu, peak_mb())


def cpu_s(root: int | None = None) -> float:
    """CPU seconds so far of the process (ours by default), its descendants and the children they have reaped."""
    ticks = sum(sum(map(int, stat[11:15])) for stat in _stats(root or os.getpid()).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mb(root: int | None = None) -> float:
    """The sum of the peak resident sizes of the process and its living descendants, in MB."""
    return sum(_peak_kb(pid) for pid in _stats(root or os.getpid())) / 1024


def _stats(root: int) -> dict[int, list[str]]:
    """The fields of /proc/<pid>/stat after the name, for the process and its descendants."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
    tree, added = {root}, {root}
    while added:
        added = {pid for pid, stat in found.items() if int(stat[1]) in added}
        tree |= added
    return {pid: found[pid] for pid in tree if pid in found}


def _peak_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
