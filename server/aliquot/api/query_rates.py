"""The rate of queries: how much of them, weighed by their cost, somebody may ask for in a minute."""

from collections.abc import Callable
from typing import Final

from graphql import GraphQLError

from aliquot.service.accounts.buckets import Buckets, Rate
from aliquot_schema.errors import RateLimited
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role

RETRY_AFTER: Final = "retry_after"


class QueryRates:
    """One bucket for each user. Operators and admins ask as much as they like.

    Args:
        rate: cost in a minute; None = no limit.
        monotonic: seconds from some start.
    """

    def __init__(self, rate: Rate | None, *, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._buckets = None if rate is None else Buckets(rate, monotonic=monotonic)

    def check(self, caller: Caller, *, cost: int) -> None:
        """Let an operation pass.

        Raises:
            RateLimited: it may be asked again later.
        """
        if self._buckets is None or self._rate is None or caller.role >= Role.OPERATOR:
            return
        wait_s = self._buckets.take(caller.user, cost)
        if wait_s > 0:
            raise RateLimited(
                f"{caller.user} asks for more than a cost of {self._rate.per_minute} a minute; try again in "
                f"{wait_s:.1f} seconds, ask for less, or subscribe to what changes",
                retry_after=wait_s,
            )

    def refusal(self, caller: Caller, *, cost: int) -> GraphQLError | None:
        """As `check`, but the refusal is returned, as GraphQL tells of it."""
        try:
            self.check(caller, cost=cost)
        except RateLimited as error:
            extensions = {"code": error.code, RETRY_AFTER: error.retry_after}
            return GraphQLError(error.message, extensions=extensions)
        return None


def retry_after(errors: object) -> float | None:
    """The seconds to wait, where a rate stood against an operation as a whole."""
    for error in errors if isinstance(errors, list) else ():
        extensions = error.extensions if isinstance(error, GraphQLError) else None
        if extensions and extensions.get("code") == RateLimited.code and not error.path:
            return float(extensions[RETRY_AFTER])
    return None
