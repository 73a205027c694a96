"""How long silence may last."""

from dataclasses import dataclass
from typing import Final

MISSED_BEATS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. Both sides send a beat every `beat_s`."""

    beat_s: float = 2.0
    lost_s: float = 30.0
    """Silence after which an agent is lost; its devices stay held."""
    greet_s: float = 10.0
    """Until a connection must have said who it is."""
    answer_s: float = 30.0
    """Until a request must be answered, or the connection is given up."""

    @property
    def suspect_s(self) -> float:
        """Silence after which an agent gets nothing new, and its connection is given up."""
        return MISSED_BEATS * self.beat_s
