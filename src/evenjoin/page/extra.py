"""What the page needs besides EvenJoin itself: the packages of the extra `ui`."""

from __future__ import annotations

from importlib.util import find_spec

from evenjoin.errors import EvenJoinError


def require(*packages: str) -> None:
    """Raise an EvenJoinError that says what to install, if one of these packages is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise EvenJoinError(f"this needs {package}: pip install 'evenjoin[ui]'")
