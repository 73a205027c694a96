"""The blocks of a page: what is run, what is a file, what is shown as a result, and what is not run and why.

```bash                 run; `text` after it is what it prints
```bash train.sh        a file of that name
```graphql              asked; `json variables` and `json` after it are its variables and its answer
<!-- not run: why -->   before a block
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n+)?^```(?P<language>\w+)[ \t]*(?P<label>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN: Final = frozenset({"bash", "python", "graphql"})
RESULTS: Final = frozenset({"text", "json"})
FILES: Final = frozenset({"bash", "python", "toml", "yaml", "ini"})


@dataclass(slots=True, kw_only=True)
class Block:
    """One block of a page, with the results that are shown for it."""

    language: str
    label: str
    text: str
    why_not: str | None
    """Why it is not run; None = it is."""
    results: dict[str, str] = field(default_factory=dict)
    """By `text`, `json` or `json variables`."""

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        return self.label if self.language in FILES and "." in self.label else None


def blocks(page: Path) -> list[Block]:
    """All blocks that are not results, in order."""
    return list(_joined(page.read_text(encoding="utf-8")))


def _joined(text: str) -> Iterator[Block]:
    current: Block | None = None
    for found in _FENCE.finditer(text):
        language, label = found["language"], found["label"].strip()
        if language in RESULTS and current is not None:
            current.results[f"{language} {label}".strip()] = found["text"]
            continue
        if current is not None:
            yield current
        current = Block(language=language, label=label, text=found["text"], why_not=found["why"])
    if current is not None:
        yield current


def matches(shown: str, real: str) -> bool:
    """Whether what was printed is what is shown: `...` stands for anything within a line, alone for any lines.

    Spaces at the ends of lines, and how many there are between words, do not count.
    """
    lines = [" ".join(line.split()) for line in shown.strip().splitlines()]
    parts = ["(?:[^\n]*\n)*?" if line == "..." else _line(line) for line in lines]
    words = "".join(f"{' '.join(line.split())}\n" for line in real.strip().splitlines())
    return re.fullmatch("".join(parts), words) is not None


def _line(shown: str) -> str:
    words = re.escape(shown).replace(r"\ \.\.\.\ ", r"\ (?:[^\n]*\ )?")
    return re.sub(r"\\ \\\.\\\.\\\.$", r"(?:\\ [^\\n]*)?", words).replace(r"\.\.\.", "[^\n]*") + "\n"
