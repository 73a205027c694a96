"""Command rules: patterns, and a program that is asked."""

import re
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """What an operator says. All of it holds at once."""

    allow: tuple[re.Pattern[str], ...] = ()
    """Where there are any, one of them has to be found in a command."""
    deny: tuple[re.Pattern[str], ...] = ()
    """None of these may be found in it."""
    program: Path | None = None
    patience_s: float = PATIENCE_S
    """How long the program may take."""

    def refusal(self, text: str) -> str | None:
        """Why the patterns refuse a command; None when they do not."""
        for pattern in self.deny:
            if pattern.search(text):
                return f"it is not taken here: commands must not match {pattern.pattern}"
        if self.allow and not any(pattern.search(text) for pattern in self.allow):
            return "it is not taken here: it matches none of the patterns of commands that are allowed"
        return None

    @property
    def is_empty(self) -> bool:
        """Whether everything is taken."""
        return not (self.allow or self.deny or self.program)
