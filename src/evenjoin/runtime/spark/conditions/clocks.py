"""Clocks in a condition, refused by name: a batch that is replayed would see another time than before.

    l.ts < now()          a function of the clock
    l.ts < 'now UTC'      text that Spark takes for a time of the clock where it casts text to a time
    l.s = 'now'           only text: it is compared with text

Whether Spark casts a text is asked as in safety.py: by the types of what the text meets, and by the functions that take
text. Where that is not clear, the text is refused.

Not guaranteed: a function of the user's, or one of SQL, that reads the clock inside cannot be seen. A constant that is
computed (`concat('n', 'ow')`) is seen only as an operand of a comparison (values.py).
"""

from __future__ import annotations

import re

from evenjoin.errors import ConditionError
from evenjoin.runtime.spark.conditions.analyst import Analyst
from evenjoin.runtime.spark.conditions.safety import call_may_fail, meeting_may_fail
from evenjoin.runtime.spark.conditions.shapes import shape
from evenjoin.spec.skeleton import SkeletonError, Slice, Tree, skeleton, sql, tokens

_CLOCKS = {"current_timestamp", "now", "current_date", "curdate", "localtimestamp", "current_time"}
_TIME_OF_CLOCK = re.compile(r"[\s\x00-\x20]*(now|today|tomorrow|yesterday)(?![a-z])\s*[\w/+:.-]*[\s\x00-\x20]*", re.I)
_PATTERNS = ("LIKE", "ILIKE", "RLIKE", "REGEXP")
_ONLY_TEXT = {"rlike", "regexp", "regexp_like", "regexp_replace", "regexp_extract", "regexp_extract_all",
              "regexp_count", "regexp_instr", "regexp_substr", "split", "split_part", "levenshtein", "like", "ilike",
              "repeat", "overlay", "find_in_set", "substring_index", "btrim", "raise_error"}  # fmt: skip
"""More functions that take text as text; they may fail for other reasons."""


def is_time_of_clock(text: str | None) -> bool:
    """Whether Spark takes this text for a time of the clock when it casts it to a time."""
    return text is not None and _TIME_OF_CLOCK.fullmatch(text) is not None


def check_clocks(text: str, analyst: Analyst) -> None:
    """Refuse functions of the clock."""
    columns = {name.lower() for schema in analyst.schemas.values() for name in schema.names}
    found = [*tokens(text), ("", 0, 0), ("", 0, 0)]
    for k, (word, at, _) in enumerate(found[:-2]):
        name, after = word.strip("`").lower(), found[k + 1][0]
        called = name in _CLOCKS and after == "("
        bare = word.lower() in _CLOCKS - {"now"} - columns and (k == 0 or found[k - 1][0] != ".")
        empty = name == "unix_timestamp" and (after, found[k + 2][0]) == ("(", ")")
        if called or bare or empty:
            raise clock(word, text, at)


def check_clock_texts(text: str, analyst: Analyst) -> None:
    """Refuse texts that stand for a time of the clock. For a text that Spark has accepted."""
    suspects = [(word, at) for word, at, _ in tokens(text) if _is_suspect(word)]
    if suspects and _reads_clock(text, analyst):
        raise clock(suspects[0][0], text, suspects[0][1])


def clock(word: str, text: str = "", at: int | None = None) -> ConditionError:
    return ConditionError(
        f"{word} reads the clock: a batch that is replayed would see another time than before. Compare event times, or "
        "compute a column before the join",
        text,
        at,
    )


def _is_suspect(word: str) -> bool:
    return word[-1:] in ("'", '"') and is_time_of_clock(word.lstrip("rR")[1:-1])


def _reads_clock(text: str, analyst: Analyst) -> bool:
    try:
        return _tree_reads_clock(skeleton(text), analyst)
    except SkeletonError:
        return True


def _tree_reads_clock(tree: Tree, analyst: Analyst) -> bool:
    """Whether a text in it may be cast to a time: it meets something else, or a function that takes no text."""
    if isinstance(tree, Slice):
        return _slice_reads_clock(tree.text, analyst)
    if not any(_is_suspect(word) for word, _, _ in tokens(sql(tree))):
        return False
    if any(_tree_reads_clock(arg, analyst) for arg in tree.args):
        return True
    return meeting_may_fail([sql(arg) for arg in tree.args], analyst.type)


def _slice_reads_clock(text: str, analyst: Analyst) -> bool:
    words = [word for word, _, _ in tokens(text)]
    if not any(map(_is_suspect, words)):
        return False
    found = shape(text)
    if found is None:
        return any(_is_suspect(word) and words[k - 1].upper() not in _PATTERNS for k, word in enumerate(words))
    if any(_reads_clock(arg, analyst) for arg in found.args):
        return True
    if not found.name:
        return words[0][0] not in "'\"rR"  # TIMESTAMP 'now'
    if found.name in _ONLY_TEXT:
        return False
    types = [analyst.type(arg) for arg in found.args]
    return call_may_fail(found, [t for t in types if t is not None], analyst.type(text), analyst.type)
