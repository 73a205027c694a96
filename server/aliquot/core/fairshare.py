"""Fair share: what each user has used within each project, forgotten by halves, in whole numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final

from aliquot.core.months import month_of, starts_us
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import DAY_MS
from aliquot_schema.quotas import Account, QuotaScope, account_id

HALF_LIFE_MS: Final = 7 * DAY_MS
"""After this time a use counts half, unless the policy says otherwise."""
_BITS: Final = 62
_FRACTION_BITS: Final = 40
"""Of the half-life: down to less than a microsecond of it."""
_DIGIT_BITS: Final = 8
_DIGIT_MAX: Final = 2**_DIGIT_BITS - 1
_LN2_E18: Final = 693_147_180_559_945_309

Place = tuple[ProjectId, UserId]
"""One user within one project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What somebody has used up to a time, and what he holds since. Amounts are milli of a device x milliseconds."""

    used: int = 0
    """Decayed up to `at_us`."""
    at_us: int = 0
    holds_milli: int = 0
    charged: int = 0
    """All of it up to `at_us`, without decay."""
    month: int = 0
    """The month of `at_us`, UTC."""
    month_charged: int = 0
    """What of `charged` falls into that month."""

    def used_at(self, now_us: int, *, half_life_ms: int = HALF_LIFE_MS) -> int:
        """What counts at a time that is not before `at_us`; what is held counts while it is held."""
        if now_us <= self.at_us or not (self.used or self.holds_milli):
            return self.used
        kept = decay(now_us - self.at_us, half_life_ms=half_life_ms)
        # The integral of a steady use that decays: rate x half-life / ln 2 x (1 - decay).
        grown = self.holds_milli * half_life_ms * ((1 << _BITS) - kept) * 10**18 // _LN2_E18
        return (self.used * kept + grown) >> _BITS

    def charged_in(self, month: int, *, now_us: int) -> int:
        """What was charged in the month of `now_us`, what is held now included."""
        before = self.month_charged if self.month == month else 0
        return before + self._grown(now_us, since_us=max(self.at_us, starts_us(month)))

    def held(self, milli: int, *, now_us: int, half_life_ms: int = HALF_LIFE_MS) -> "Balance":
        """The balance once more is held, or with a negative amount less. Time before `at_us` is reckoned with."""
        now_us = max(now_us, self.at_us)
        month = month_of(now_us)
        assert self.holds_milli + milli >= 0, "more is given back than is held"
        return Balance(
            used=self.used_at(now_us, half_life_ms=half_life_ms),
            at_us=now_us,
            holds_milli=self.holds_milli + milli,
            charged=self.charged + self._grown(now_us, since_us=self.at_us),
            month=month,
            month_charged=self.charged_in(month, now_us=now_us),
        )

    def _grown(self, now_us: int, *, since_us: int) -> int:
        # Between two clocks in whole milliseconds, so that the sum over any cuts of a time is the same.
        return self.holds_milli * max(now_us // 1000 - since_us // 1000, 0)


NOTHING: Final = Balance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """All balances. Immutable; `held` makes the next version."""

    balances: Mapping[Place, Balance] = field(default_factory=dict)
    half_life_ms: int = HALF_LIFE_MS

    @classmethod
    def of(cls, accounts: Iterable[Account], *, half_life_ms: int = HALF_LIFE_MS) -> "Usage":
        """Usage as it was recorded. What is still held is to be added by `held`, in the order of the starts."""
        return cls(
            balances={
                (account.project, account.user): Balance(
                    used=account.used,
                    at_us=account.at_us,
                    charged=account.charged,
                    month=account.month,
                    month_charged=account.month_charged,
                )
                for account in accounts
            },
            half_life_ms=half_life_ms,
        )

    def held(self, milli: int, *, user: UserId, project: ProjectId, now_us: int) -> "Usage":
        """The balances once a user holds more milli of devices for a project; less, with a negative amount.

        A time before the last change of the balance counts as the time of that change: what is recorded up to then
        is not counted twice.
        """
        place = project, user
        balance = self.balances.get(place, NOTHING).held(milli, now_us=now_us, half_life_ms=self.half_life_ms)
        return replace(self, balances={**self.balances, place: balance})

    def record(self, project: ProjectId, user: UserId) -> Account:
        """The durable record as of the last change. Its version is for the store to set."""
        balance = self.balances.get((project, user), NOTHING)
        return Account(
            id=account_id(project, user),
            project=project,
            user=user,
            used=balance.used,
            at_us=balance.at_us,
            charged=balance.charged,
            month=balance.month,
            month_charged=balance.month_charged,
        )

    def used_at(self, now_us: int) -> dict[Place, int]:
        """What counts now, for all who have anything that counts."""
        found = {
            place: balance.used_at(now_us, half_life_ms=self.half_life_ms) for place, balance in self.balances.items()
        }
        return {place: used for place, used in found.items() if used}

    def charged_in_month(self, scope: QuotaScope, name: str, now_us: int) -> int:
        """What a user, a project or everybody was charged in the month of `now_us`, what is held now included."""
        month = month_of(now_us)
        return sum(
            balance.charged_in(month, now_us=now_us)
            for (project, user), balance in self.balances.items()
            if scope is QuotaScope.CLUSTER or name == (user if scope is QuotaScope.USER else project)
        )


def decay(elapsed_us: int, *, half_life_ms: int = HALF_LIFE_MS) -> int:
    """2 ** -(elapsed / half-life), as a part of 2**62. Whole numbers alone: the same on every machine."""
    halvings, rest = divmod(elapsed_us, half_life_ms * 1000)
    fraction = (rest << _FRACTION_BITS) // (half_life_ms * 1000)
    kept = 1 << _BITS
    for table in _DECAYS:
        kept = kept * table[fraction & _DIGIT_MAX] >> _BITS
        fraction >>= _DIGIT_BITS
    return kept >> halvings


def _decays() -> tuple[tuple[int, ...], ...]:
    """For each digit of the fraction, the lowest first, and each of its values: what is kept, as parts of 2**62."""
    roots = [isqrt(1 << (2 * _BITS - 1))]
    while len(roots) < _FRACTION_BITS:
        roots.append(isqrt(roots[-1] << _BITS))
    digits: list[list[int]] = []
    for start in range(0, _FRACTION_BITS, _DIGIT_BITS):
        lowest_first = roots[::-1][start : start + _DIGIT_BITS]
        digits.append([_product(value, lowest_first) for value in range(_DIGIT_MAX + 1)])
    return tuple(tuple(digit) for digit in digits)


def _product(value: int, roots: Sequence[int]) -> int:
    kept = 1 << _BITS
    for bit, root in enumerate(roots):
        if value >> bit & 1:
            kept = kept * root >> _BITS
    return kept


_DECAYS: Final = _decays()
