"""One damage to one file of a checkpoint, and how to take it back.

    flip      a few bytes are changed                swap      exchanged with another file of its kind
    cut       cut short at some place                foreign   replaced by that file of another checkpoint
    empty     emptied                                older     replaced by what it was at an earlier time
    delete    deleted                                stray     another file of its kind is copied beside it
    folder    its whole folder is deleted            rollback  its whole folder is what it was at an earlier time

Invariant: `Damaged.undo` leaves every file that the damage touched as it was before.
Not here: what the engine makes of it (embedded.py, damages.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.case import Damage
from chaos.engine import kind_of

DAMAGES = ("flip", "cut", "empty", "delete", "swap", "foreign", "older", "stray", "folder", "rollback")
Elsewhere = Callable[[str], Path | None]
"""Where another checkpoint of the same join is: "foreign", or "older"."""


@dataclass(slots=True)
class Damaged:
    """What was done. `before` has the bytes of each file touched; None: it was not there."""

    root: Path
    how: str
    file: str
    before: dict[str, bytes | None] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return kind_of(self.file)

    def undo(self) -> None:
        for name in self.before:
            _put(self.root / name, self.before[name])

    def write(self, name: str, data: bytes | None) -> None:
        """Give a file other bytes, or none. Where Hadoop keeps its checksum beside it, that goes: on object stores
        there is none, and it would refuse whatever is done here before anybody else looks at the file."""
        path = self.root / name
        for touched in (name, sidecar(name)):
            old = self.root / touched
            self.before.setdefault(touched, old.read_bytes() if old.exists() else None)
        _put(path, data)
        _put(self.root / sidecar(name), None)


def sidecar(name: str) -> str:
    """Where Hadoop keeps the checksum of a file."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/.{file}.crc" if folder else f".{file}.crc"


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.put")  # a new file: who has mapped the old one keeps it
    fresh.write_bytes(data)
    os.replace(fresh, path)


def files_of(root: Path) -> dict[str, list[str]]:
    """The files of a checkpoint by kind. Hidden files (Hadoop's own checksums) are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.startswith(".") and not path.name.endswith(".part"):
            name = path.relative_to(root).as_posix()
            found[kind_of(name)].append(name)
    return dict(found)


def apply(damage: Damage, root: Path, elsewhere: Elsewhere) -> Damaged | None:
    """Damage one file. None if that is not possible: there is no other file to swap with, or it has the same bytes."""
    files = files_of(root)
    if not files:
        return None
    kind = _pick(sorted(files), damage.kind)
    name = _pick(files[kind], damage.file)
    damaged, data = Damaged(root, damage.how, name), (root / name).read_bytes()
    _CHANGES[damage.how](damaged, data, damage, [f for f in files[kind] if f != name], elsewhere)
    changed = any((root / n).read_bytes() != old if (root / n).exists() else old is not None
                  for n, old in damaged.before.items())  # fmt: skip
    return damaged if changed else None


def _pick(among: list[str], where: float) -> str:
    return among[int(where * len(among))]


def _flip(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    changed = bytearray(data)
    first = int(damage.at * len(data))
    for place in range(first, min(first + 1 + first % 3, len(data))):
        changed[place] ^= 1 + (first + place) % 255
    damaged.write(damaged.file, bytes(changed))


def _cut(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    damaged.write(damaged.file, data[: int(damage.at * len(data))])


def _swap(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    if others:
        other = _pick(others, damage.at)
        theirs = (damaged.root / other).read_bytes()
        damaged.write(other, data)
        damaged.write(damaged.file, theirs)


def _from_elsewhere(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    """The file of the same name, or where the names differ (they hold random parts) another one of its kind."""
    source = elsewhere(damaged.how)
    theirs = [] if source is None else files_of(source).get(damaged.kind, [])
    if source is not None and theirs:
        name = damaged.file if damaged.file in theirs else _pick(theirs, damage.at)
        damaged.write(damaged.file, (source / name).read_bytes())


def _stray(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    """A copy under a name that the engine may take for its own: the next number, or one letter more."""
    path = Path(damaged.file)
    name = str(int(path.name) + 1) if path.name.isdigit() and damage.at < 0.3 else f"a{path.name}"
    if not (damaged.root / path.with_name(name)).exists():
        damaged.write(path.with_name(name).as_posix(), data)


def _folder(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    for name in _inside(damaged.root, damaged.file):
        damaged.write(name, None)


def _rollback(damaged: Damaged, data: bytes, damage: Damage, others: list[str], elsewhere: Elsewhere) -> None:
    older = elsewhere("older")
    if older is not None:
        before = _inside(older, damaged.file)
        for name in {*_inside(damaged.root, damaged.file)} - {*before}:
            damaged.write(name, None)
        for name in before:
            damaged.write(name, (older / name).read_bytes())


def _inside(root: Path, name: str) -> list[str]:
    """The files of the folder that a file is in: `commits`, `segments`, `spark`, ...; none for a file at the top."""
    top = name.split("/")[0]
    return [n for files in files_of(root).values() for n in files if n.startswith(f"{top}/")]


_CHANGES: dict[str, Callable[[Damaged, bytes, Damage, list[str], Elsewhere], None]] = {
    "flip": _flip,
    "cut": _cut,
    "empty": lambda damaged, *_: damaged.write(damaged.file, b""),
    "delete": lambda damaged, *_: damaged.write(damaged.file, None),
    "swap": _swap,
    "foreign": _from_elsewhere,
    "older": _from_elsewhere,
    "stray": _stray,
    "folder": _folder,
    "rollback": _rollback,
}
