"""Markdown: tables and texts, so that what the code says is shown as it is."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`]*`)")
_SPECIAL: Final = re.compile(r"([<>*_\[\]{}$#])")


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines) + "\n"


def text(words: str) -> str:
    """Words of the code as Markdown: what stands in backticks stays code, all else means itself."""
    return "".join(
        part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in _CODE.split(" ".join(words.split()))
    )


def code(words: object) -> str:
    """Something as code; nothing for nothing."""
    shown = str(words)
    fence = "``" if "`" in shown else "`"
    return f"{fence}{shown}{fence}" if shown else ""


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
