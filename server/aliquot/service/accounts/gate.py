"""The gate of submissions: who may run jobs here, and how fast somebody may submit."""

from collections.abc import Callable

from aliquot.service.accounts.buckets import Buckets, Rate
from aliquot.service.accounts.trust import Trust, check_may_run
from aliquot.service.people import People
from aliquot_schema.errors import RateLimited
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role


class Gate:
    """Passed before anything is looked at.

    Args:
        people: whose Unix accounts count.
        rate: sessions in a minute; None = as many as somebody likes.
        monotonic: seconds from some start.
    """

    def __init__(self, people: People, *, trust: Trust, rate: Rate | None, monotonic: Callable[[], float]) -> None:
        self._people = people
        self._trust = trust
        self._buckets = None if rate is None else Buckets(rate, monotonic=monotonic)
        self._rate = rate

    def check(self, caller: Caller, *, sessions: int) -> None:
        """Let a submission pass. A job array is one session. Operators and admins go as fast as they like.

        Raises:
            Forbidden: the caller's jobs would run as an account that others have, too.
            RateLimited: the caller goes too fast.
        """
        check_may_run(self._trust, caller, self._people.users.get(caller.user))
        self.check_rate(caller, sessions=sessions)

    def check_rate(self, caller: Caller, *, sessions: int) -> None:
        """Let something pass that runs nothing here.

        Raises:
            RateLimited: as of `check`.
        """
        if self._buckets is None or self._rate is None or caller.role >= Role.OPERATOR:
            return
        wait_s = self._buckets.take(caller.user, sessions)
        if wait_s > 0:
            raise RateLimited(
                f"{caller.user} submits more than {self._rate.per_minute} sessions a minute; try again in "
                f"{wait_s:.1f} s, or submit what is alike as one job array",
                retry_after=wait_s,
            )
