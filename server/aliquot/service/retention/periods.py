"""How long each kind of history is kept."""

import re
from dataclasses import dataclass
from typing import Final

DAY_US: Final = 86_400 * 1_000_000
FOREVER: Final = "forever"
_UNITS_US: Final = {"h": DAY_US // 24, "d": DAY_US, "w": 7 * DAY_US, "y": 365 * DAY_US}


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Microseconds; None = for ever."""

    sessions_us: int | None = 365 * DAY_US
    """From a session's end; of leases that no session has, from their release."""
    events_us: int | None = 90 * DAY_US
    ledger_us: int | None = 30 * DAY_US
    findings_us: int | None = 90 * DAY_US
    """From the end of what the reaper found, of alerts, and of notices that were sent."""


def before(now_us: int, kept_us: int) -> int:
    """What is older goes: whole days (UTC) go at once, so an archive has a file a day, or more if it is large."""
    return (now_us - kept_us) // DAY_US * DAY_US


def parse_period(text: str) -> int | None:
    """`36h`, `90d`, `12w` or `2y` in microseconds; None for `forever`.

    Raises:
        ValueError: it is none of these.
    """
    if text == FOREVER:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([hdwy])", text)
    if found is None:
        raise ValueError("write a number with h, d, w or y, like 90d, or forever")
    return int(found[1]) * _UNITS_US[found[2]]
