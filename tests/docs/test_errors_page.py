"""The page of errors names every error there is, and none that is not."""

from __future__ import annotations

import inspect

from pages import DOCS, HEADING, read_page

from evenjoin import errors

PAGE = read_page(DOCS / "errors.md")
NAMES = [name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__]


def sections() -> dict[str, str]:
    """The text under each heading of the second level."""
    found: dict[str, str] = {}
    title = ""
    for line in PAGE.prose:
        match = HEADING.fullmatch(line)
        if match and match["level"] == "##":
            title = match["title"]
            found[title] = ""
        elif title:
            found[title] += f"{line}\n"
    return found


def test_every_error_has_a_section_in_the_order_of_the_tree():
    assert list(sections()) == NAMES


def test_every_section_says_what_to_do():
    """Roots, of which only the kinds are raised, excepted."""
    silent = [name for name, text in sections().items() if "*What to do:*" not in text]
    assert silent == ["EvenJoinError", "CheckpointError"]


def test_a_kind_of_another_error_says_so():
    """Where an error is also of a kind that people catch, the section names that."""
    for name, text in sections().items():
        bases = [base.__name__ for base in getattr(errors, name).__bases__ if base.__module__ == "builtins"]
        missing = [base for base in bases if base not in ("Exception", "UserWarning") and base not in text]
        assert missing == [], name
