"""The manifest: which runs each instance holds of each store. A frozen value; a change makes a new one.

    manifest after a batch  =  manifest before  -  runs that were merged  +  runs that were sealed  -  expired runs

The manifest of the last commit is the state: a file that it does not name is garbage.
Not here: reading runs (segment.py), and which table placed them (the commit says that).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenjoin.state.segment import Run

Place = tuple[int, int]
"""(instance, store): what one instance keeps of one store of its program. Store s holds the tuples of side s."""


Change = tuple[Mapping[Place, Iterable[Run]], Mapping[Place, Iterable[Run]]]
"""(gone, come): by place, the runs that leave it and those that come to it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Runs by place; `stores` are the stores of which there are any."""

    runs: Mapping[Place, tuple[Run, ...]] = field(default_factory=dict)
    stores: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stores", frozenset(store for _, store in self.runs))

    def of(self, instance: int, store: int) -> tuple[Run, ...]:
        return self.runs.get((instance, store), ())

    def __iter__(self) -> Iterator[tuple[int, int, Run]]:
        for (instance, store), runs in sorted(self.runs.items()):
            for run in runs:
                yield instance, store, run

    @property
    def files(self) -> set[str]:
        return {run.file for _, _, run in self}

    def stored(self, instance: int, store: int) -> int:
        """How many tuples of a store are alive on an instance."""
        return sum(run.alive for run in self.of(instance, store))

    def bytes(self, instance: int) -> int:
        """Bytes of all runs that an instance holds, dead tuples of masked runs included."""
        return sum(run.bytes for store in self.stores for run in self.of(instance, store))

    def changed_by(self, changes: Iterable[Change]) -> Manifest:
        """The manifest after several changes, each given as (gone, come). O(runs), however many changes there are."""
        runs = dict(self.runs)
        for gone, come in changes:
            for place in sorted({*gone, *come}):
                leaving = set(gone.get(place, ()))
                kept = (run for run in runs.get(place, ()) if run not in leaving)
                runs[place] = (*kept, *come.get(place, ()))
        return Manifest({place: some for place, some in runs.items() if some})

    def changed(self, gone: Mapping[Place, Iterable[Run]], come: Mapping[Place, Iterable[Run]]) -> Manifest:
        """The manifest without the runs that are gone and with those that have come, by place. A place without runs is
        not named: its store may not exist in the program that goes on."""
        return self.changed_by([(gone, come)])

    def renumbered(self, heirs: Mapping[int, int]) -> Manifest:
        """The same runs under the new numbers of their instances: `heirs[i]` is that of instance i. What is left of an
        instance without one (-1) is gone. No file is touched; a mask goes on to mean the number it was made for."""
        if all(heir == number for number, heir in heirs.items()):
            return self
        runs = {
            (heir, store): tuple(_under(run, instance, heir) for run in some)
            for (instance, store), some in self.runs.items()
            if (heir := heirs.get(instance, -1)) >= 0
        }
        return Manifest(dict(sorted(runs.items())))

    def expired(self, horizons: tuple[int | None, ...], watermark: int | None) -> tuple[Manifest, int]:
        """The manifest without expired runs, and how many live tuples those had.

        A run expires when its latest tuple is dead: `high` + horizon <= watermark. `horizons` are by store; a store
        with None never expires. A run with one tuple that is still needed stays whole.
        """
        if watermark is None or all(h is None for h in horizons):
            return self, 0
        kept: dict[Place, tuple[Run, ...]] = {}
        dropped = 0
        for (instance, store), runs in self.runs.items():
            horizon = horizons[store]
            live = tuple(r for r in runs if horizon is None or r.high + horizon > watermark)
            dropped += sum(r.alive for r in runs) - sum(r.alive for r in live)
            if live:
                kept[instance, store] = live
        return (self, 0) if kept == self.runs else (Manifest(kept), dropped)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"instance": i, "store": s, **run.to_json()} for i, s, run in self]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Manifest:
        runs: dict[Place, tuple[Run, ...]] = {}
        for item in data:
            run = {name: value for name, value in item.items() if name not in ("instance", "store")}
            place = item["instance"], item["store"]
            runs[place] = (*runs.get(place, ()), Run.from_json(run))
        return cls(runs)


def _under(run: Run, old: int, new: int) -> Run:
    """A run whose instance gets a new number: its mask still speaks of the number that the instance had."""
    if run.mask is None or old == new:
        return run
    return replace(run, masked_as=run.number_in_mask(old))
