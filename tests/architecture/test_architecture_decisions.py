"""Every decision has a page with its number, and an index entry."""

import re

from architecture_sources import ROOT

FOLDER = ROOT / "server" / "decisions"


def test_the_index_names_every_page() -> None:
    pages = sorted(path.name for path in FOLDER.glob("[0-9]*.md"))
    linked = re.findall(r"\| \[\d{4}\]\(([^)]+)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert linked == pages


def test_every_page_begins_with_its_number() -> None:
    for path in FOLDER.glob("[0-9]*.md"):
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}: ")
