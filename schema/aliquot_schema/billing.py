"""Billing: prices of held accelerators, and the statement of each account and calendar month.

Money is in millionths of the currency, device time in thousandths of a device x milliseconds. Months are calendar
months UTC as integers: 202611 is November 2026.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import PoolId, QuotaId

MICROS: Final = 1_000_000
"""One unit of the currency."""
HOURS: Final = 24
EVERY_POOL: Final = PoolId("")
WARNED_PCT: Final = 80
"""Part of a budget, in percent, from which its holders are warned."""


class AtBudget(DescribedStr):
    """What happens to waiting sessions of an account that has spent its budget of the month."""

    HOLD = "hold", "They do not start before the next month."
    LOW = "low", "They are ordered with the priority `low`."


class Price(Struct, frozen=True, kw_only=True):
    """Price of a whole accelerator per hour. Of a list, the first that applies counts."""

    micros: int
    model: str = ""
    """Pattern of the model of the device, like `*H100*`, in any case; empty = every model."""
    pool: PoolId = EVERY_POOL
    """Pool of the agent; empty = every pool."""
    from_hour: int = 0
    """First hour of the day that it applies to, 0 to 23."""
    until_hour: int = HOURS
    """The hour after the last one, 1 to 24. Below `from_hour`: it applies until that hour of the next day."""

    def covers(self, hour: int) -> bool:
        """Whether it applies to an hour of the day."""
        if self.from_hour < self.until_hour:
            return self.from_hour <= hour < self.until_hour
        return hour >= self.from_hour or hour < self.until_hour


class Prices(Struct, frozen=True, kw_only=True):
    """Prices of accelerators. Without any, nothing is billed."""

    rates: tuple[Price, ...] = ()
    currency: str = "EUR"
    utc_offset_minutes: int = 0
    """Local time of the hours of the day, as minutes ahead of UTC; it has no daylight saving time."""
    at_budget: AtBudget = AtBudget.HOLD

    def text(self, micros: int) -> str:
        """An amount for people, like `104.20 EUR`; rounded to hundredths, half to even."""
        return f"{micros / MICROS:.2f} {self.currency}"


class TimeKind(DescribedStr):
    """What device time was held for. Each thousandth of a device-millisecond has exactly one kind."""

    USED = "used", "Held by attempts, and nothing of the kinds below."
    IDLE = "idle", "Measured without use, in spells of at least the idle detector's limit."
    LOST_FAILURE = (
        "lost_failure",
        "Work since the last acknowledged checkpoint of attempts that failed, or whose node or device did.",
    )
    LOST_PREEMPTION = "lost_preemption", "Work since the last acknowledged checkpoint of attempts that were preempted."


class Statement(Struct, frozen=True, kw_only=True):
    """Device time of one account in one month, by kind, and its price. Changes when a lease is released, and when an
    attempt ends whose work is lost."""

    id: str
    """See `statement_id`."""
    version: int = 0
    account: QuotaId
    """A user, a project or an API key; named as quotas are."""
    month: int
    used: int = 0
    idle: int = 0
    lost_failure: int = 0
    lost_preemption: int = 0
    cost: int = 0
    """Millionths of the currency."""
    credited: int = 0
    """Part of the price that is not in `cost`, because preemption or a fault of the cluster took the work."""
    sessions: int = 0
    """Sessions that ended after they had started."""
    waited_ms: int = 0
    """Their time from the submission to the last start, summed up."""
    preemptions: int = 0

    @property
    def held(self) -> int:
        """Device time of all kinds."""
        return self.used + self.idle + self.lost_failure + self.lost_preemption

    @property
    def by_kind(self) -> Mapping[TimeKind, int]:
        """Device time of each kind."""
        return {kind: getattr(self, kind.value) for kind in TimeKind}


def statement_id(account: QuotaId, month: int) -> str:
    """`project:vision/202611`."""
    return f"{account}/{month}"
