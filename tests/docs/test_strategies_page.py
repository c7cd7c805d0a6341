"""The page of strategies has a section for every strategy that users can name."""

from __future__ import annotations

from pages import DOCS, HEADING, read_page

from evenjoin.strategies import strategies

UNTOLD = {"ideal"}
"""Square without a limit, for one figure of a paper."""


def test_every_strategy_has_a_section():
    titles = [match["title"] for line in read_page(DOCS / "strategies.md").prose if (match := HEADING.fullmatch(line))]
    told = {name.strip() for title in titles[1:] for name in title.split(",")}
    assert told == set(strategies()) - UNTOLD
