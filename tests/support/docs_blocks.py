"""The blocks of a page: commands, files, expected results, and those not run, with the reason.

```bash                    run; `text` or `json` after it is what it prints
```bash train.sh           a file of that name
```graphql                 asked; `json variables` and `json` after it are its variables and its answer
```graphql aliquot.toml    asked of a server of two mock GPUs that was started with that file of the page
<!-- not run: why -->      before a block
<!-- server: two_gpus -->  in a page: its blocks are for a server of its own, with two mock GPUs
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_FENCE: Final = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n+)?^```(?P<language>\w+)[ \t]*(?P<label>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN: Final = frozenset({"bash", "python", "graphql"})
RESULTS: Final = frozenset({"text", "json"})
FILES: Final = frozenset({"bash", "python", "toml", "yaml", "ini"})
ELLIPSIS: Final = "..."
_TWO_GPUS: Final = "<!-- server: two_gpus -->"


@dataclass(slots=True, kw_only=True)
class Block:
    """One block of a page, with its expected results."""

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
    """All blocks except results, in order."""
    return list(_joined(page.read_text(encoding="utf-8")))


def is_for_two_gpus(page: Path) -> bool:
    """Whether the blocks of a page need a server of their own, with two mock GPUs."""
    return _TWO_GPUS in page.read_text(encoding="utf-8")


def matches_json(shown: Any, real: Any) -> bool:
    """Whether a JSON value is the one shown.

    `...` at the end of a text stands for anything; text that is a JSON object is compared as one.
    """
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(matches_json(shown[key], real[key]) for key in shown)
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(map(matches_json, shown, real))
    if isinstance(shown, str) and isinstance(real, str):
        if shown.endswith(ELLIPSIS):
            return real.startswith(shown.removesuffix(ELLIPSIS))
        if shown.startswith("{"):
            return bool(json.loads(shown) == json.loads(real))
    return bool(shown == real)


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
    """Whether the output is the one shown: `...` stands for anything within a line, alone for any lines.

    Spaces at the ends of lines, and how many there are between words, do not count.
    """
    lines = [" ".join(line.split()) for line in shown.strip().splitlines()]
    parts = ["(?:[^\n]*\n)*?" if line == "..." else _line(line) for line in lines]
    words = "".join(f"{' '.join(line.split())}\n" for line in real.strip().splitlines())
    return re.fullmatch("".join(parts), words) is not None


def _line(shown: str) -> str:
    words = re.escape(shown).replace(r"\ \.\.\.\ ", r"\ (?:[^\n]*\ )?")
    return re.sub(r"\\ \\\.\\\.\\\.$", r"(?:\\ [^\\n]*)?", words).replace(r"\.\.\.", "[^\n]*") + "\n"
