"""Calendar months, UTC, as whole numbers: 202611 is November 2026."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MONTHS: Final = 12


def month_of(at_us: int) -> int:
    """The month that a time falls in, microseconds UTC."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, tz=UTC)
    return moment.year * 100 + moment.month


@lru_cache(maxsize=64)
def starts_us(month: int) -> int:
    """The first microsecond of a month."""
    year, number = divmod(month, 100)
    return (datetime(year, number, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def month_after(month: int) -> int:
    """The next month."""
    year, number = divmod(month, 100)
    return (year + 1) * 100 + 1 if number == _MONTHS else month + 1
