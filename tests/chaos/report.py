"""What a campaign tells: how often each thing was tried, and each finding with its seed and its smallest case.

Invariant: two runs of the same seeds print the same counts.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from chaos.case import Case
from chaos.check import Finding

SAVED = Path("build/chaos")


@dataclass(slots=True)
class Found:
    """A finding, the case it came from, and how to see it again."""

    seed: int
    finding: Finding
    case: Case | None
    again: str

    @property
    def kind(self) -> str:
        """What went wrong, and by which events. Alike findings have the same kind."""
        if self.case is None:
            return self.finding.kind
        events = sorted({type(event).__name__ for event in self.case.events} - {"Kill"})
        return f"{self.finding.kind} ({', '.join(events) or 'kills only'})"

    def save(self) -> Path:
        SAVED.mkdir(parents=True, exist_ok=True)
        name = "-".join("".join(c if c.isalnum() else " " for c in self.kind).lower().split())
        path = SAVED / f"{name[:60]}-{self.seed}.json"
        case = self.case.to_json() if self.case is not None else None
        path.write_text(json.dumps({"finding": self.finding.kind, "text": self.finding.text, "case": case}, indent=1))
        return path


def load(path: Path) -> Case:
    """The case of a saved finding."""
    return Case.from_json(json.loads(path.read_text())["case"])


@dataclass(slots=True)
class Report:
    """Counts by (what, which), and the findings."""

    tally: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    def add(self, found: Found) -> None:
        self.found.append(found)
        path = found.save()
        print(f"\nFOUND {found.kind}, seed {found.seed}\n  {found.finding.text.splitlines()[0][:300]}")
        how = "smallest: --replay" if found.case is not None else "told in"
        print(f"  again: {found.again}   {how} {path}", flush=True)
        if found.case is not None:
            print(describe(found.case), flush=True)

    def show(self) -> None:
        """Print all counts, by what they count."""
        for what in sorted({what for what, _ in self.tally}):
            counts = {which: n for (w, which), n in sorted(self.tally.items()) if w == what}
            print(f"\n{what}: {sum(counts.values())}")
            for which, count in counts.items():
                print(f"  {count:7}  {which}")
        kinds = Counter(found.kind for found in self.found)
        print(f"\nfindings: {len(self.found)}")
        for kind, count in sorted(kinds.items()):
            seeds = [str(found.seed) for found in self.found if found.kind == kind]
            print(f"  {count:7}  {kind}: seeds {', '.join(seeds[:8])}{' ...' if len(seeds) > 8 else ''}")


def describe(case: Case) -> str:
    """A case in a few lines."""
    sizes = " ".join("+".join(str(len(rows)) for rows in batch) for batch in case.batches)
    times = "no watermark" if case.delay is None else f"watermark delay {case.delay}, late rows: {case.late}"
    lines = [f"join {case.join!r}, {times}, rows by batch {sizes}, next batch {case.resume}"]
    lines += [f"start {n}: {start}" for n, start in enumerate(case.starts)]
    return "\n".join(f"    {line}" for line in [*lines, *map(str, case.events)])
