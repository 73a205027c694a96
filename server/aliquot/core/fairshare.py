"""Fair share: usage of each user within each project, with exponential decay, in integers.

Usage is milli of a device x milliseconds. Charges price held devices, cores and memory in milli of a device. Months are
calendar months UTC as integers: 202611 is November 2026.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isqrt
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.clock_correction import ClockCorrection
from aliquot_schema.ids import DeviceId, ProjectId, SlotName, UserId
from aliquot_schema.policies import DAY_MS, Charges
from aliquot_schema.quotas import Account, QuotaScope, account_id
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import MILLI, is_accelerator
from aliquot_schema.sessions import SavedWork, Session

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MONTHS: Final = 12
HALF_LIFE_MS: Final = 7 * DAY_MS
"""Default of the policy's half-life of usage."""
_BITS: Final = 62
_FRACTION_BITS: Final = 40
"""Resolution of a part of the half-life: finer than a microsecond."""
_DIGIT_BITS: Final = 8
_DIGIT_MAX: Final = 2**_DIGIT_BITS - 1
_LN2_E18: Final = 693_147_180_559_945_309
ProjectUser = tuple[ProjectId, UserId]
"""Key of a balance: one user within one project."""
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GIB: Final = 2**30


def month_of(at_us: int) -> int:
    """The month of a time, microseconds UTC."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, tz=UTC)
    return moment.year * 100 + moment.month


@lru_cache(maxsize=64)
def starts_us(month: int) -> int:
    """The first microsecond of a month, UTC."""
    year, number = divmod(month, 100)
    return (datetime(year, number, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def month_after(month: int) -> int:
    """The next month."""
    year, number = divmod(month, 100)
    return (year + 1) * 100 + 1 if number == _MONTHS else month + 1


class UsageBalance(Struct, frozen=True, kw_only=True):
    """Usage of a user in a project up to a time, and what they hold since, in milli of a device x milliseconds."""

    used: int = 0
    """Decayed up to `at_us`."""
    at_us: int = 0
    holds_milli: int = 0
    charged: int = 0
    """Total usage up to `at_us`, without decay."""
    month: int = 0
    """The month of `at_us`, UTC."""
    month_charged: int = 0
    """Part of `charged` in that month."""

    def used_at(self, now_us: int, *, half_life_ms: int = HALF_LIFE_MS) -> int:
        """Decayed usage at a time >= `at_us`, including what is held since."""
        return used_after(self.used, self.holds_milli, now_us - self.at_us, half_life_ms=half_life_ms)

    def charged_in(self, month: int, *, now_us: int) -> int:
        """Charged in `month`, the month of `now_us`, including what is held since."""
        before = self.month_charged if self.month == month else 0
        return before + self._grown(now_us, since_us=max(self.at_us, starts_us(month)))

    def held(self, milli: int, *, now_us: int, half_life_ms: int = HALF_LIFE_MS) -> "UsageBalance":
        """The balance with `milli` more held from now on; negative = less. A time before `at_us` counts as `at_us`."""
        now_us = max(now_us, self.at_us)
        month = month_of(now_us)
        assert self.holds_milli + milli >= 0, "more is released than is held"
        return UsageBalance(
            used=self.used_at(now_us, half_life_ms=half_life_ms),
            at_us=now_us,
            holds_milli=self.holds_milli + milli,
            charged=self.charged + self._grown(now_us, since_us=self.at_us),
            month=month,
            month_charged=self.charged_in(month, now_us=now_us),
        )

    def charged_once(self, amount: int, *, now_us: int, half_life_ms: int = HALF_LIFE_MS) -> "UsageBalance":
        """The balance with an amount charged at a time, in milli of a device x milliseconds."""
        settled = self.held(0, now_us=now_us, half_life_ms=half_life_ms)
        return replace(
            settled,
            used=settled.used + amount,
            charged=settled.charged + amount,
            month_charged=settled.month_charged + amount,
        )

    def credited(self, amount: int, *, run_ms: int, half_life_ms: int = HALF_LIFE_MS) -> "UsageBalance":
        """The balance without usage that was charged, evenly, in the `run_ms` before `at_us`; never below 0."""
        # As in `used_at`: what is left of a constant usage after its decay.
        gone = (1 << _BITS) - decay(run_ms * 1000, half_life_ms=half_life_ms)
        left = amount * half_life_ms * gone * 10**18 // (_LN2_E18 * run_ms) >> _BITS
        in_month_ms = min(run_ms, max(self.at_us - starts_us(self.month), 0) // 1000)
        return replace(
            self,
            used=max(self.used - left, 0),
            charged=max(self.charged - amount, 0),
            month_charged=max(self.month_charged - amount * in_month_ms // run_ms, 0),
        )

    def corrected(self, correction: ClockCorrection, *, half_life_ms: int = HALF_LIFE_MS) -> "UsageBalance":
        """The balance by the corrected clock; what was held until then is charged by the old one. The month's charge is
        carried over."""
        settled = self
        if correction.is_measured:
            settled = self.held(0, now_us=correction.from_us, half_life_ms=half_life_ms)
        elif self.at_us <= correction.to_us:
            return self
        return replace(settled, at_us=correction.to_us, month=month_of(correction.to_us))

    def _grown(self, now_us: int, *, since_us: int) -> int:
        # Whole milliseconds since the epoch, so that the sum does not depend on how a time span is divided.
        return self.holds_milli * max(now_us // 1000 - since_us // 1000, 0)


NOTHING: Final = UsageBalance()
NO_WORK: Final = SavedWork()


class Usage(Struct, frozen=True, kw_only=True):
    """All balances. Immutable; `held` makes the next version."""

    balances: Mapping[ProjectUser, UsageBalance] = field(default_factory=dict)
    half_life_ms: int = HALF_LIFE_MS

    @classmethod
    def of(cls, accounts: Iterable[Account], *, half_life_ms: int = HALF_LIFE_MS) -> "Usage":
        """Usage from its records. Add what is still held by `held`, in the order of starts."""
        return cls(
            balances={
                (account.project, account.user): UsageBalance(
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
        """Usage with `milli` more held by a user for a project from now on; negative = less.

        A time before the last change of the balance counts as the time of that change, so nothing is counted twice.
        """
        place = project, user
        balance = self.balances.get(place, NOTHING).held(milli, now_us=now_us, half_life_ms=self.half_life_ms)
        return replace(self, balances={**self.balances, place: balance})

    def charged_once(self, amount: int, *, user: UserId, project: ProjectId, now_us: int) -> "Usage":
        """Usage with an amount charged to a user for a project, in milli of a device x milliseconds."""
        place = project, user
        balance = self.balances.get(place, NOTHING)
        balance = balance.charged_once(amount, now_us=now_us, half_life_ms=self.half_life_ms)
        return replace(self, balances={**self.balances, place: balance})

    def credited(self, before: Session | None, after: Session) -> "Usage":
        """Usage after a change of a session: the owner is credited for the work that it says was lost meanwhile.

        Args:
            before: None = the session was not in memory. It had ended then, and no work is lost by an ended session.
        """
        if before is None or after.work is None:
            return self
        known = before.work or NO_WORK
        amount = after.work.credited_ms - known.credited_ms
        run_ms = after.work.credited_run_ms - known.credited_run_ms
        if amount <= 0 or run_ms <= 0:
            return self
        place = after.project, after.owner
        balance = self.balances.get(place, NOTHING)
        balance = balance.credited(amount, run_ms=run_ms, half_life_ms=self.half_life_ms)
        return replace(self, balances={**self.balances, place: balance})

    def corrected(self, correction: ClockCorrection) -> "Usage":
        """Usage by the corrected clock."""
        balances = {
            place: balance.corrected(correction, half_life_ms=self.half_life_ms)
            for place, balance in self.balances.items()
        }
        return replace(self, balances=balances)

    def record(self, project: ProjectId, user: UserId) -> Account:
        """The durable record as of the last change; the store sets its version."""
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

    def used_at(self, now_us: int) -> dict[ProjectUser, int]:
        """Decayed usage now, of all users with any."""
        found = {
            place: balance.used_at(now_us, half_life_ms=self.half_life_ms) for place, balance in self.balances.items()
        }
        return {place: used for place, used in found.items() if used}

    def charged_in_month(self, scope: QuotaScope, name: str, now_us: int) -> int:
        """Charged to a user, a project or the whole cluster in the month of `now_us`, including what is held now."""
        month = month_of(now_us)
        return sum(
            balance.charged_in(month, now_us=now_us)
            for (project, user), balance in self.balances.items()
            if scope is QuotaScope.CLUSTER or name == (user if scope is QuotaScope.USER else project)
        )


def used_after(used: int, holds_milli: int, elapsed_us: int, *, half_life_ms: int) -> int:
    """Decayed usage after a time in which an amount was held; see `UsageBalance.used_at`."""
    if elapsed_us <= 0 or not (used or holds_milli):
        return used
    kept = decay(elapsed_us, half_life_ms=half_life_ms)
    # The integral of a constant usage with decay: rate x half-life / ln 2 x (1 - decay).
    grown = holds_milli * half_life_ms * ((1 << _BITS) - kept) * 10**18 // _LN2_E18
    return (used * kept + grown) >> _BITS


def decay(elapsed_us: int, *, half_life_ms: int = HALF_LIFE_MS) -> int:
    """2 ** -(elapsed / half-life), in units of 2 ** -62. Integers alone, so it is the same on every machine."""
    halvings, rest = divmod(elapsed_us, half_life_ms * 1000)
    fraction = (rest << _FRACTION_BITS) // (half_life_ms * 1000)
    kept = 1 << _BITS
    for table in _DECAYS:
        kept = kept * table[fraction & _DIGIT_MAX] >> _BITS
        fraction >>= _DIGIT_BITS
    return kept >> halvings


def _decays() -> tuple[tuple[int, ...], ...]:
    """Decay for each value of each digit of the fraction, the lowest digit first, in units of 2 ** -62."""
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


def rate_milli(spec: ResourceSpec, *, devices: Mapping[DeviceId, Device], charges: Charges) -> int:
    """Price of what a kernel holds, in milli of a device, rounded up.

    The held part of each accelerator x the price of its model, plus cores and GiB at their prices.

    Args:
        devices: devices of the kernel's agent; a missing one has the price of an unknown model.
    """
    held = occupancy_on([{slot: spec[slot] for slot in spec if is_accelerator(slot)}], devices)
    accelerators = sum(amount * _price(devices.get(device_id), charges) for device_id, amount in held.items())
    host = sum(spec.get(CPU, {}).values()) * charges.cpu_milli * GIB
    host += sum(spec.get(MEM, {}).values()) * charges.mem_gib_milli
    return -(-(accelerators * GIB + host * MILLI) // (MILLI * GIB))


def _price(device: Device | None, charges: Charges) -> int:
    """Price of a whole device, milli."""
    return MILLI if device is None else charges.accelerator_milli.get(device.model, MILLI)
