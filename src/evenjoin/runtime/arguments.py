"""The names of arguments: a wrong one is refused with the one that was meant.

    evenjoin.local(..., instnaces=3)   unknown argument 'instnaces': did you mean 'instances'?
    evenjoin.local(..., colldown=3)    unknown argument 'colldown': did you mean 'guards=evenjoin.Guards(cooldown=...)'?

The function itself lists all of its arguments, so `help`, `inspect.signature`, editors and mypy show them; only the
message for a name it does not have is made here, where Python would raise a bare TypeError.

Invariant: a call whose names are all known is passed on unchanged.
Not here: the values of the arguments (settings.py), and missing arguments, which stay Python's TypeError.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

from evenjoin.errors import SpecError
from evenjoin.runtime.settings import Guards, Hooks
from evenjoin.strategies.elastic import Scaling

P = ParamSpec("P")
R = TypeVar("R")
GROUPS = {"guards": ("evenjoin", Guards), "scaling": ("evenjoin", Scaling), "hooks": ("evenjoin.testing", Hooks)}
"""Settings that are grouped as one value, by the argument that takes it: where the value is, and its type."""


def named_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, except that an unknown argument raises a SpecError which suggests a known one."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise SpecError(f"unknown argument {name!r}{_suggestion(name, known)}")
        return function(*args, **kwargs)

    return checked


def _suggestion(name: str, known: Sequence[str]) -> str:
    """What to say after "unknown argument": how to write the nearest known name, or all names if none is near."""
    written = {argument: argument for argument in known}
    for argument, (package, group) in GROUPS.items():
        call = f"{argument}={package}.{group.__name__}"
        written |= {field.name: f"{call}({field.name}=...)" for field in fields(group)}
    near = get_close_matches(name, written, n=1)
    return f": did you mean {written[near[0]]!r}?" if near else f"; known: {', '.join(known)}"
