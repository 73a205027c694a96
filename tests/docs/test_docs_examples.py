"""Each GraphiQL example links to a page about it, at a heading that exists."""

import re
from pathlib import Path

import pytest

from browser_examples import EXAMPLES, Example

PAGES = Path(__file__).parents[2] / "server" / "docs"


def anchor_of(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_a_graphiql_example_links_to_an_existing_heading(example: Example) -> None:
    name, _, anchor = example.page.partition("#")
    text = (PAGES / name).with_suffix(".md").read_text(encoding="utf-8")
    headings = {anchor_of(found) for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert not anchor or anchor in headings
