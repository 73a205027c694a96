"""A page of results: each row is kept until it is measured again on the same machine."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from registry import Key, written

FIGURES: Final = "figures"
SLURM: Final = "slurm"
HEAD: Final = ("key", "what", "value", "to reach", "reached", "measured")
_ROW: Final = re.compile(r"^\| `(?P<key>\w+)` \|.*\|$", re.MULTILINE)


def with_figures(
    page: str, measured: Mapping[str, float], *, keys: Sequence[Key], machine: str, circumstances: str
) -> str:
    """The page with these rows in the place of those of the same keys; rows of removed keys are dropped.

    Args:
        keys: all existing keys, in their order.
        machine: figures of another one are not kept beside the new ones.
        circumstances: date and load, for the last column of the new rows.
    """
    before = _section(page, FIGURES)
    rows = {found["key"]: found[0] for found in _ROW.finditer(before)} if f"\n{machine}\n" in before else {}
    for key in keys:
        if key.name in measured:
            rows[key.name] = _row(key, measured[key.name], circumstances)
    table = [*_head(HEAD), *(rows[key.name] for key in keys if key.name in rows)]
    return with_section(page, FIGURES, "\n".join(["", machine, "", *table, ""]))


def with_comparison(page: str, *, told: str, table: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """The page with this comparison in place of the old one; the table's first row is its header."""
    rows = [*_head(table[0]), *(f"| {' | '.join(row)} |" for row in table[1:])]
    text = ["", told, "", *rows, "", *(f"* {note}" for note in notes), ""]
    return with_section(page, SLURM, "\n".join(text))


def kept(path: Path) -> str:
    """A page's text.

    Raises:
        ValueError: it has no place for figures.
    """
    page = path.read_text(encoding="utf-8")
    for name in (FIGURES, SLURM):
        _section(page, name)
    return page


def _row(key: Key, value: float, circumstances: str) -> str:
    reached = "yes" if key.is_reached(value) else "**no**"
    return f"| `{key.name}` | {key.what} | {written(value)} | {key.reach} | {reached} | {circumstances} |"


def _head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _section(page: str, name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end of {name} -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page needs two lines: <!-- {name} --> and <!-- end of {name} -->")
    return found[1]


def with_section(page: str, name: str, text: str) -> str:
    """The page with this text between the two marker lines of a section.

    Raises:
        ValueError: the page has no such lines.
    """
    _section(page, name)
    head, _, rest = page.partition(f"<!-- {name} -->\n")
    return f"{head}<!-- {name} -->\n{text}\n<!-- end of {name} -->{rest.partition(f'<!-- end of {name} -->')[2]}"
