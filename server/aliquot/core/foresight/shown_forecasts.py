"""Shown forecasts: the recorded forecasts of a session, and their outcomes.

A forecast is recorded when a session begins to wait, and again 15 minutes, 1 hour and 4 hours after its submission. The
record of each is open until the session starts, or leaves the queue without a start.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import Forecast
from aliquot_schema.ids import SessionId

AGES_S: Final = (0, 900, 3600, 14_400)
"""Seconds after the submission at which a forecast is recorded; 0 = the first one that was made."""
KEPT_US: Final = 90 * 86_400 * 1_000_000
"""How long records are kept, from the time of the forecast."""
DAY_US: Final = 86_400 * 1_000_000


class ForecastOutcome(StrEnum):
    """What became of a session since a forecast."""

    WAITING = "waiting"
    LATE = "late"
    """It still waits, and the forecast P90 has passed."""
    STARTED = "started"
    CANCELED = "canceled"
    """It left the queue without a start, or its owner held it back: the forecast cannot be judged."""
    UNKNOWN = "unknown"
    """It started while no server recorded it, and the event is no longer kept."""


class ShownForecast(Struct, frozen=True, kw_only=True):
    """A forecast as it is shown for a session, with what is needed to score it later."""

    forecast: Forecast
    simulated_us: Band | None = None
    """The simulation's band of the start, corrected; it differs from the forecast's where recent waits are shown."""
    recent_us: Band | None = None
    """What recent waits of its size class say: a wait since the forecast, microseconds; None = there were none."""
    average_us: int | None = None
    """Moving average of these waits, which forecasts are compared with."""
    alike: int = 0
    """Judged forecasts that said as much for a session of its size."""
    alike_inside: float = 0.0
    """Part of these that started inside the band."""

    @property
    def says_wait(self) -> bool:
        """Whether it says that the session waits, and for how long: only these are judged."""
        return self.forecast.start_us is not None and not self.forecast.starts_now


class ForecastRecord(Struct, frozen=True, kw_only=True):
    """One recorded forecast of a session."""

    session_id: SessionId
    age_s: int
    """One of `AGES_S`."""
    shown: ShownForecast = field(name="told")
    outcome: ForecastOutcome = ForecastOutcome.WAITING
    settled_us: int | None = None
    """When it started, or left the queue; None = it waits. Microseconds UTC."""
    ended_us: int | None = None
    """When its first attempt ended by itself; None = it has not, or was interrupted."""

    @property
    def made_us(self) -> int:
        """When the forecast was made."""
        return self.shown.forecast.made_us


class SessionOutcome(Struct, frozen=True, kw_only=True):
    """What became of a session with open records."""

    session_id: SessionId
    outcome: ForecastOutcome
    settled_us: int | None = None
    """None = it still waits."""
    ended_us: int | None = None

    def of(self, record: ForecastRecord) -> ForecastRecord:
        """The record with this outcome."""
        return replace(record, outcome=self.outcome, settled_us=self.settled_us, ended_us=self.ended_us)
