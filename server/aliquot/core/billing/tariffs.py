"""Tariffs: the price of a device over a stretch of time, exact in integers.

Prices are in millionths of the currency per whole device and hour, times in milliseconds since the epoch, UTC.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Final

from msgspec import Struct

from aliquot.core.allocation.options import is_of_model
from aliquot_schema.billing import HOURS, Prices
from aliquot_schema.ids import PoolId
from aliquot_schema.resources.slots import MILLI

HOUR_MS: Final = 3_600_000
DAY_MS: Final = HOURS * HOUR_MS
SCALE: Final = MILLI * HOUR_MS
"""Thousandths of a device x milliseconds in a whole device and hour."""


class PricedDevice(Struct, frozen=True):
    """A part of a device, as it is priced."""

    milli: int
    model: str
    pool: PoolId


@lru_cache(maxsize=1024)
def hourly(prices: Prices, model: str, pool: PoolId) -> tuple[int, ...]:
    """[24] the price of a whole device in each hour of the local day; 0 where none applies."""
    own = [
        rate
        for rate in prices.rates
        if rate.pool in ("", pool) and (not rate.model or is_of_model(model, (rate.model,)))
    ]
    return tuple(next((rate.micros for rate in own if rate.covers(hour)), 0) for hour in range(HOURS))


def cost(devices: Iterable[PricedDevice], prices: Prices, *, since_ms: int, until_ms: int) -> int:
    """Price of devices held from `since_ms` to `until_ms`, rounded down to a millionth of the currency."""
    if until_ms <= since_ms or not prices.rates:
        return 0
    offset_ms = prices.utc_offset_minutes * 60_000
    total = 0
    for device in devices:
        rates = hourly(prices, device.model, device.pool)
        until, since = _summed(rates, until_ms + offset_ms), _summed(rates, since_ms + offset_ms)
        total += device.milli * (until - since)
    return total // SCALE


def _summed(rates: tuple[int, ...], at_ms: int) -> int:
    """Sum of price x milliseconds from the epoch until a local time."""
    days, rest_ms = divmod(at_ms, DAY_MS)
    hour, part_ms = divmod(rest_ms, HOUR_MS)
    sums = _running_sums(rates)
    return (days * sums[HOURS] + sums[hour]) * HOUR_MS + rates[hour] * part_ms


@lru_cache(maxsize=1024)
def _running_sums(rates: tuple[int, ...]) -> tuple[int, ...]:
    """[25] sums of the hourly prices before each hour."""
    return (0, *accumulate(rates))
