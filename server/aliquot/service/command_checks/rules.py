"""Command rules: patterns, and a program that is asked."""

from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """What an operator says. All of it holds at once."""

    allow: tuple[str, ...] = ()
    """Where there are any, one of them has to be found in a command."""
    deny: tuple[str, ...] = ()
    """None of these may be found in it."""
    program: Path | None = None
    patience_s: float = PATIENCE_S
    """How long the program may take, and the patterns."""

    @property
    def is_empty(self) -> bool:
        """Whether everything is taken."""
        return not (self.allow or self.deny or self.program)
