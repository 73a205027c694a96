"""Clock correction: an event at which the server's times continue from another point, because the wall clock was set.

Times of open records move with it, so that what has passed since a grant, and what is left until an end, is the same
before and after.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot_schema.orchestration import CLOCK_ACTION, Action

R = TypeVar("R", bound=Struct)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US: Final = 1_000_000

_FUTURE: Final = frozenset({"until_us", "not_before_us", "next_us", "muted_until_us", "expires_us"})
"""Fields with times that may rightly lie in the future."""


class ClockCorrection(Struct, frozen=True, kw_only=True):
    """From one time to another, microseconds UTC, with no time in between."""

    from_us: int
    """The time before. When not measured: of the newest event."""
    to_us: int
    is_measured: bool
    """Whether the clock was seen to leap, by CLOCK_BOOTTIME: every time before the correction is then off by the same
    amount. Otherwise only times later than `to_us` are known to be wrong."""
    version: int = 0
    """Counts the corrections of a cluster, from 1."""

    @classmethod
    def of(cls, action: Action) -> Self:
        """From its record."""
        facts = action.facts
        return cls(
            from_us=int(facts["from_us"]),
            to_us=int(facts["to_us"]),
            is_measured=facts["measured"] == "yes",
            version=action.version,
        )

    def action(self) -> Action:
        """The record of it."""
        facts: Mapping[str, str] = {
            "from_us": str(self.from_us),
            "to_us": str(self.to_us),
            "measured": "yes" if self.is_measured else "no",
        }
        return Action(id=CLOCK_ACTION, facts=facts)

    def words(self) -> str:
        """One sentence for the log and for alerts."""
        if self.is_measured:
            what = f"the clock of the server's machine was set {offset_text(self.to_us - self.from_us)}"
        else:
            what = f"the newest event was {offset_text(self.from_us - self.to_us)} of the clock of the server's machine"
        return f"{what}; times follow the clock from {moment_text(self.to_us)} on"

    def moved_us(self, at_us: int, *, may_be_ahead: bool = False) -> int:
        """A time before the correction, by the corrected clock.

        Args:
            may_be_ahead: whether the time may rightly lie in the future. Without a measurement it is then moved only
                if it is nearer to the old time than to the new one.
        """
        if not self.is_measured:
            is_right = at_us <= self.to_us
            if may_be_ahead:
                is_right = is_right or abs(self.from_us - at_us) > at_us - self.to_us
            if is_right:
                return at_us
        return at_us + self.to_us - self.from_us


def corrected(record: R, correction: ClockCorrection) -> R:
    """The record with every time in it moved; the same object when none is. A time of 0 is none."""
    changes: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value: Any = getattr(record, name)
        if name.endswith("_us") and isinstance(value, int) and value:
            moved: Any = correction.moved_us(value, may_be_ahead=name in _FUTURE)
        elif isinstance(value, Struct) and name in ("preemption", "work"):
            moved = corrected(value, correction)
        else:
            continue
        if moved != value:
            changes[name] = moved
    return replace(record, **changes) if changes else record


def offset_text(offset_us: int) -> str:
    """`20,000 days ahead`, `3 hours back`."""
    seconds = round(abs(offset_us) / _SECOND_US)
    units = ("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1)
    unit, length = next(found for found in units if seconds >= 2 * found[1] or found[1] == 1)
    return f"{round(seconds / length):,} {unit} {'ahead' if offset_us > 0 else 'back'}"


def moment_text(at_us: int) -> str:
    """`2026-11-23 03:16:34 UTC`."""
    try:
        return f"{_EPOCH + timedelta(seconds=at_us // _SECOND_US):%Y-%m-%d %H:%M:%S UTC}"
    except OverflowError:
        return f"second {at_us // _SECOND_US:,} since 1970"
