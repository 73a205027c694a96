"""Shown forecasts: the recorded forecasts of a session, and their outcomes.

A forecast is recorded when a session begins to wait, and again 15 minutes, 1 hour and 4 hours after its submission. The
record of each is open until the session starts, or leaves the queue without a start.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import Features, Forecast
from aliquot_schema.ids import SessionId

AGES_S: Final = (0, 900, 3600, 14_400)
"""Seconds after the submission at which a forecast is recorded; 0 = the first one that was made."""
KEPT_US: Final = 90 * 86_400 * 1_000_000
"""How long records are kept, from the time of the forecast."""
DAY_US: Final = 86_400 * 1_000_000
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder()


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


class PackedForecast(Struct, frozen=True, gc=False):
    """A shown forecast, encoded: a third of the memory. A server keeps one or two for each waiting session."""

    body: bytes
    """The values of its fields, in order, as MessagePack."""

    @classmethod
    def of(cls, shown: ShownForecast) -> "PackedForecast":
        """Encode a forecast."""
        return cls(_ENCODER.encode(_values(shown)))

    def shown(self) -> ShownForecast:
        """The forecast."""
        shown = _named(ShownForecast, _DECODER.decode(self.body))
        shown["forecast"] = _named(Forecast, shown["forecast"])
        shown["forecast"]["features"] = _named(Features, shown["forecast"]["features"])
        return msgspec.convert(shown, ShownForecast)


def _values(struct: Struct) -> list[Any]:
    return [_values(value) if isinstance(value, Struct) else value for value in astuple(struct)]


def _named(kind: type[Struct], values: list[Any]) -> dict[str, Any]:
    return dict(zip(kind.__struct_fields__, values, strict=True))


class PackedRecord(Struct, frozen=True, kw_only=True, gc=False):
    """A forecast record with its forecast encoded."""

    session_id: SessionId
    age_s: int
    packed: PackedForecast
    late_us: int | None
    """When the session is late: the forecast's P90, if it says that the session waits."""
    outcome: ForecastOutcome = ForecastOutcome.WAITING
    settled_us: int | None = None
    ended_us: int | None = None

    @classmethod
    def of(cls, record: ForecastRecord) -> "PackedRecord":
        """Encode the forecast of a record."""
        shown, start_us = record.shown, record.shown.forecast.start_us
        return cls(
            session_id=record.session_id,
            age_s=record.age_s,
            packed=PackedForecast.of(shown),
            late_us=start_us.p90 if start_us is not None and shown.says_wait else None,
            outcome=record.outcome,
            settled_us=record.settled_us,
            ended_us=record.ended_us,
        )

    def record(self) -> ForecastRecord:
        """The record."""
        return ForecastRecord(
            session_id=self.session_id,
            age_s=self.age_s,
            shown=self.packed.shown(),
            outcome=self.outcome,
            settled_us=self.settled_us,
            ended_us=self.ended_us,
        )


class SessionOutcome(Struct, frozen=True, kw_only=True):
    """What became of a session with open records."""

    session_id: SessionId
    outcome: ForecastOutcome
    settled_us: int | None = None
    """None = it still waits."""
    ended_us: int | None = None

    def of(self, record: PackedRecord) -> PackedRecord:
        """The record with this outcome."""
        return replace(record, outcome=self.outcome, settled_us=self.settled_us, ended_us=self.ended_us)
