"""Accepted survivors, each with its reason: no decision differs."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """Mutants of one module whose changed line matches."""

    module: str
    was: re.Pattern[str]
    becomes: re.Pattern[str]
    reason: str

    def holds(self, module: str, was: str, becomes: str) -> bool:
        """Whether a mutant matches."""
        return module == self.module and bool(self.was.search(was)) and bool(self.becomes.search(becomes))


def accepted_by(file: Path) -> Sequence[Accepted]:
    """The list in a file: tables `[[accepted]]` of module, was, becomes (patterns; default: any line) and reason."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["accepted"]
    return [
        Accepted(
            module=entry["module"],
            was=re.compile(entry.get("was", "")),
            becomes=re.compile(entry.get("becomes", "")),
            reason=entry["reason"],
        )
        for entry in entries
    ]
