"""Retries of a client: how long, and with which pauses, a request is repeated that failed for the moment, or that a
rate limit refused."""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aliquot.client.errors import (
    ClientFailure,
    ClusterUnavailable,
    GraphQLFault,
    Refused,
    SubscriptionClosed,
    is_disconnect,
)

if TYPE_CHECKING:
    from logging import Logger

PATIENCE_S: Final = 60.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 2.0
OPEN_S_MIN: Final = 10.0
"""Time for which a subscription was open that counts as a success though nothing was sent."""
RATE_LIMIT_S_MAX: Final = 120.0
"""A rate limit allows the burst of a minute again after a minute."""
RATE_LIMIT_S_LOGGED: Final = 2.0


class RetryPolicy:
    """Exponential pauses between attempts, until nothing has succeeded for `patience_s` since the first failure."""

    def __init__(
        self, sleep: Callable[[float], Awaitable[None]], *, patience_s: float = PATIENCE_S, logs: bool = False
    ) -> None:
        """Args: logs: whether to log the first failure that is repeated."""
        self._sleep = sleep
        self._logs = logs
        self._patience_s = patience_s
        self._began = 0.0
        self.renew()

    def renew(self) -> None:
        """Start over after a success."""
        self._until: float | None = None
        self._pause_s = PAUSE_S_MIN

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt. A subscription that was open for some time is a success.

        Raises:
            Exception: `error`, when the time is over.
        """
        now = time.monotonic()
        if isinstance(error, SubscriptionClosed) and now - self._began > OPEN_S_MIN:
            self.renew()
        if self._until is None:
            self._until = now + self._patience_s
        elif now > self._until:
            raise error
        if self._logs and isinstance(error, ClientFailure):
            log_retry(error)
            self._logs = False
        await self._sleep(self._pause_s)
        self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)
        self._began = time.monotonic()


class RateLimitWait:
    """Waits for one request that a rate limit refused before it had any effect: each as long as the server says, at
    most `RATE_LIMIT_S_MAX` in all."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._sleep = sleep
        self._left_s = RATE_LIMIT_S_MAX
        self._is_logged = False

    async def pause(self, error: GraphQLFault | Refused) -> None:
        """Wait until the request may be repeated.

        Raises:
            GraphQLFault, Refused: `error`, if it is another one, or the time would be over.
        """
        if error.retry_after is None:
            raise error
        wait_s = max(error.retry_after, PAUSE_S_MIN)
        self._left_s -= wait_s
        if self._left_s < 0:
            raise error
        if wait_s >= RATE_LIMIT_S_LOGGED and not self._is_logged:
            self._is_logged = True
            _log().warning("the server's rate limit is reached, waiting for %.0f s: %s", wait_s, error)
        await self._sleep(wait_s)


def log_retry(error: ClientFailure) -> None:
    """Log that a request is repeated."""
    is_silent = is_disconnect(error) and not isinstance(error, ClusterUnavailable)
    words = "the server does not answer" if is_silent else "the server cannot do this now"
    _log().warning("%s, trying again for up to %d s: %s", words, PATIENCE_S, error)


def _log() -> "Logger":
    import logging  # commands that succeed do not load it

    return logging.getLogger("aliquot.client")
