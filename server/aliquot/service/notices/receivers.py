"""Receivers: where notices go."""

from dataclasses import dataclass, field

from aliquot.service.notices.quiet import QuietHours
from aliquot_schema.notices import NoticeKind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Somewhere that notices go, without how."""

    name: str
    kind: str
    """`webhook`, `slack` or `email`."""
    tells_alerts: bool = True
    tells_owners: bool = False
    least: Severity = Severity.INFO
    kinds: frozenset[NoticeKind] = field(default=frozenset())
    """Empty = all."""
    quiet: QuietHours | None = None
    gather_s: int = 0
    """What is not critical is told together every so many seconds; 0 = at once."""
    output_lines: int = 0
    """So much of a session's output is told with its failure."""

    @property
    def needs_address(self) -> bool:
        """Whether an owner hears only if he said where."""
        return self.kind == "email"
