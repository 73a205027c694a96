"""Markdown output: tables, code and escaped text."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`]*`)")
_SPECIAL: Final = re.compile(r"([<>*_\[\]{}$#])")


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with Markdown cells."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines) + "\n"


def text(words: str) -> str:
    """Text as Markdown: parts in backticks remain code, everything else is escaped."""
    return "".join(
        part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in _CODE.split(" ".join(words.split()))
    )


def code(words: object) -> str:
    """A value as inline code; empty for an empty value."""
    content = str(words)
    fence = "``" if "`" in content else "`"
    return f"{fence}{content}{fence}" if content else ""


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
