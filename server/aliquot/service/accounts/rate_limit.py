"""Rate limit of submissions: one token bucket per user, in memory, so that each server counts separately.

Source: Turner, New directions in communications (or which way to the information age?), 1986: the leaky bucket as a
meter.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from aliquot.service.access import Trust, check_may_run
from aliquot.service.state.identities import Identities
from aliquot_schema.errors import RateLimited
from aliquot_schema.identity.accounts import Role
from aliquot_schema.requests import Caller

KEPT: Final = 10_000
"""Buckets in memory; beyond this number, full ones are dropped, which has no effect."""


class Rate(Struct, frozen=True, kw_only=True):
    """Rate per minute; the burst is the amount of one minute."""

    per_minute: int
    """At least 1. A single larger amount is allowed, and paid for by a longer wait afterwards."""


class TokenBuckets:
    """One token bucket per name.

    Args:
        monotonic: a monotonic clock, in seconds.
    """

    def __init__(self, rate: Rate, *, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._levels: dict[str, tuple[float, float]] = {}
        """(level, time of that level) by name; a missing bucket is full."""

    def take(self, name: str, amount: int) -> float:
        """Take an amount from a bucket.

        Returns:
            0 if it was taken; else nothing was taken, and the seconds until it can be.
        """
        now, most = self._monotonic(), self._rate.per_minute
        level = self._level(name, now)
        # An amount above the bucket's size needs a full bucket, and makes its level negative.
        missing = min(amount, most) - level
        if missing > 0:
            return missing * 60 / most
        self._levels[name] = level - amount, now
        if len(self._levels) > KEPT:
            self._levels = {known: at for known, at in self._levels.items() if self._level(known, now) < most}
        return 0.0

    def give_back(self, name: str, amount: int) -> None:
        """Return an amount that was taken."""
        now = self._monotonic()
        self._levels[name] = min(self._rate.per_minute, self._level(name, now) + amount), now

    def _level(self, name: str, now: float) -> float:
        level, at = self._levels.get(name, (float(self._rate.per_minute), now))
        return min(self._rate.per_minute, level + (now - at) * self._rate.per_minute / 60)


class SubmissionRateLimit:
    """Checked before a submission is validated.

    Args:
        people: users, with their Unix accounts.
        rate: sessions per minute and user; None = unlimited.
        monotonic: a monotonic clock, in seconds.
    """

    def __init__(self, people: Identities, *, trust: Trust, rate: Rate | None, monotonic: Callable[[], float]) -> None:
        self._people = people
        self._trust = trust
        self._buckets = None if rate is None else TokenBuckets(rate, monotonic=monotonic)
        self._rate = rate

    def check(self, caller: Caller, *, sessions: int) -> None:
        """Check a submission; a job array counts as one session. Operators and admins are not limited.

        Raises:
            Forbidden: the caller may not run jobs, see `check_may_run`.
            RateLimited: the caller exceeds the rate.
        """
        check_may_run(self._trust, caller, self._people.users.get(caller.user))
        self.check_rate(caller, sessions=sessions)

    def check_rate(self, caller: Caller, *, sessions: int) -> None:
        """Check the rate alone, for requests that run no job.

        Raises:
            RateLimited: as for `check`.
        """
        if self._buckets is None or self._rate is None or caller.role >= Role.OPERATOR:
            return
        wait_s = self._buckets.take(caller.user, sessions)
        if wait_s > 0:
            raise RateLimited(
                f"{caller.user} may submit {self._rate.per_minute} sessions per minute; try again in "
                f"{wait_s:.1f} s, or submit similar sessions as one job array",
                retry_after=wait_s,
            )

    def refund(self, caller: Caller, *, sessions: int) -> None:
        """Return what `check_rate` charged for sessions that were not accepted."""
        if self._buckets is not None and caller.role < Role.OPERATOR:
            self._buckets.give_back(caller.user, sessions)
