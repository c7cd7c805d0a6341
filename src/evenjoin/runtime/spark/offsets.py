"""What Spark has read up to a batch, as a digest of Spark's own part of the checkpoint.

Spark numbers the batches, and remembers in `spark/` what each of them reads:

    spark/offsets/<batch>    a version, a line with the time and settings, and a line for each source: how far the batch
                             reads it
    spark/sources/<i>/<n>    a file source: the files of log offset n. Every tenth or so is called <n>.compact instead
                             and holds the files of all log offsets up to n
    spark/sources/<i>/0      another source, such as rate or kafka: where it began

A file source's line is only {"logOffset": n}: which files that means stands in its log. A batch covers all log offsets
after those of the batch before, which may be several: a crash can leave an entry in the log that no batch has read.

    digest(n) = hash over the sources of   the files of all log offsets up to that of batch n   (a file source)
                                           (the offset of batch n, where the source began)      (any other)

So a digest stands for everything that the batches 0 to n have read together, and two of them for what one batch reads.
That is what commits have to agree with (commit/position.py): whether batch n may be left out because it was joined
before, and whether batch n + 1 goes on where n ended, are both questions about all that was read up to n.

Guarantee: the digest is the same for every replay of a batch and for a restored copy of `spark/`, because it is made of
what Spark writes once: neither the time and settings, nor the numbers of log offsets, nor the order of files go into
it. It differs as soon as one file more, fewer or modified, or another offset, was read.
Spark's query id (`spark/metadata`) does not go into it either. If `spark/` is deleted and Spark plans the same data
under the same numbers again, leaving those batches out is right although the id is new; and an id that is still the
same says nothing about offsets that were rolled back. So what was read decides, and nothing else.
Not guaranteed: that a file or topic still holds what it held. Of a file its path and modification time are known.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

from evenjoin.errors import StateCorruptionError
from evenjoin.state.files import Folder

NOTHING = "-"
"""The line of a source that has not been read at all yet."""
ADVICE = "restore spark/ of the checkpoint from a copy, or start with a new checkpoint"


@dataclass(slots=True)
class Offsets:
    """Digests of one checkpoint. It remembers how far it has read the logs of file sources, so that the next batch only
    costs the entries that are new."""

    folder: Folder
    _logs: dict[str, tuple[int, int]] = field(default_factory=dict)  # source -> (log offset, sum of its files so far)
    _digests: dict[int, str] = field(default_factory=dict)  # of the newest batch and the one before

    def digest(self, batch: int) -> str:
        """What Spark has read up to and including this batch, as hex text. StateCorruptionError if that is not to be
        found."""
        if batch not in self._digests:
            read = [[source, *self._read(source, offset)] for source, offset in self._offsets(batch)]
            recent = {b: digest for b, digest in self._digests.items() if b >= batch - 1}
            self._digests = {**recent, batch: _hash(read).hex()}
        return self._digests[batch]

    def files(self, batch: int, sources: int) -> list[list[str]] | None:
        """The files that a batch reads, by source, as Spark names them; None if not all of its so many sources are
        file sources. They are numbered as they stand in the query."""
        ends = dict(self._offsets(batch))
        begins = dict(self._offsets(batch - 1)) if batch > 0 else {}
        if list(ends) != [str(number) for number in range(sources)]:
            return None
        spans = [(_log_offset(begins.get(source, NOTHING)), _log_offset(end)) for source, end in ends.items()]
        if any(begin is None or end is None for begin, end in spans):
            return None
        return [
            [path for number in range((begin or 0) + 1, (end or 0) + 1) for path in self._paths(str(source), number)]
            for source, (begin, end) in enumerate(spans)
        ]

    def _paths(self, source: str, number: int) -> list[str]:
        """The files of one log offset. The log has them as URIs."""
        return [unquote(str(file["path"])) for found, file in self._log(*_names(source, number)) if found == number]

    def _offsets(self, batch: int) -> list[tuple[str, str]]:
        """(source, offset) of a batch. Sources have numbers in version 1 of Spark's format, and names in version 2."""
        name = f"spark/offsets/{batch}"
        version, lines = self._lines(name)
        if version == "v1":
            return [(str(number), line) for number, line in enumerate(lines[1:])]
        if version == "v2":
            split = (line.partition(":") for line in lines[1:])
            return sorted((source, offset) for source, _, offset in split)
        raise _damaged(name)

    def _read(self, source: str, offset: str) -> list[Any]:
        """What was read of a source, as JSON."""
        if offset == NOTHING:
            return []
        end = _log_offset(offset)
        if end is not None:
            return [self._files(source, end) % (1 << 128)]
        try:
            known = json.loads(offset)
        except ValueError:
            known = offset
        try:
            began = self.folder.load(f"spark/sources/{source}/0").to_pybytes().hex()
        except FileNotFoundError:
            began = ""
        return [known, began]

    def _files(self, source: str, end: int) -> int:
        """The sum of the hashes of all files up to a log offset. A sum does not depend on their order."""
        at, total = self._logs.get(source, (-1, 0))
        if at < 0 or at > end:
            at, total = self._newest_compact(source, end)
        for number in range(at + 1, end + 1):
            total += self._entry(source, number)
        self._logs[source] = end, total
        return total

    def _newest_compact(self, source: str, end: int) -> tuple[int, int]:
        """The last log offset up to `end` that the newest compact file holds, and the sum of the files up to there.
        (-1, 0) if no file is compact yet."""
        parts = (name.partition(".") for name in self.folder.names(f"spark/sources/{source}"))
        newest = max((int(number) for number, _, kind in parts if kind == "compact"), default=-1)
        if newest < 0:
            return -1, 0
        files = self._log(f"spark/sources/{source}/{newest}.compact")
        return min(newest, end), sum(_value(file) for number, file in files if number <= end)

    def _entry(self, source: str, number: int) -> int:
        """The sum of the hashes of the files of one log offset."""
        files = self._log(*_names(source, number))
        if max((found for found, _ in files), default=-1) != number:
            raise _damaged(_names(source, number)[0])
        return sum(_value(file) for found, file in files if found == number)

    def _log(self, *names: str) -> list[tuple[int, dict[str, Any]]]:
        """The log offset of each file that a part of a source's log names, and what it says of the file."""
        version, lines = self._lines(*names)
        try:
            files = [json.loads(line) for line in lines]
            numbers = [int(file.pop("batchId")) for file in files]
        except (ValueError, KeyError, AttributeError, TypeError):
            raise _damaged(names[0]) from None
        if version != "v1":
            raise _damaged(names[0])
        return list(zip(numbers, files, strict=True))

    def _lines(self, *names: str) -> tuple[str, list[str]]:
        """The first line of the first of these files that is there, which is its version, and its other lines."""
        for name in names:
            with suppress(FileNotFoundError):
                try:
                    text = self.folder.load(name).to_pybytes().decode()
                except UnicodeDecodeError:
                    raise _damaged(name) from None
                version, *lines = text.removesuffix("\n").split("\n")
                return version, lines
        raise StateCorruptionError(f"{names[0]} is missing from the checkpoint: {ADVICE}")


def _log_offset(offset: str) -> int | None:
    """How far an offset says that a file source was read: -1 for not at all; None if it is another source's."""
    if offset == NOTHING:
        return -1
    try:
        known = json.loads(offset)
    except ValueError:
        return None
    if isinstance(known, dict) and list(known) == ["logOffset"] and isinstance(known["logOffset"], int):
        return known["logOffset"]
    return None


def _names(source: str, number: int) -> tuple[str, str]:
    """The names that the file of a log offset may have."""
    return f"spark/sources/{source}/{number}", f"spark/sources/{source}/{number}.compact"


def _value(file: object) -> int:
    return int.from_bytes(_hash(file), "big")


def _hash(value: object) -> bytes:
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()


def _damaged(name: str) -> StateCorruptionError:
    return StateCorruptionError(f"{name} of the checkpoint is damaged, or of a Spark that is not known here: {ADVICE}")
