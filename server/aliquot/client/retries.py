"""Retries of a client: how long, and with which pauses, a request is repeated that failed for the moment."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from aliquot.client.errors import ClientFailure, ClusterUnavailable, SubscriptionClosed, is_disconnect

PATIENCE_S: Final = 60.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 2.0
OPEN_S_MIN: Final = 10.0
"""Time for which a subscription was open that counts as a success though nothing was sent."""


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


def log_retry(error: ClientFailure) -> None:
    """Log that a request is repeated."""
    import logging  # commands that succeed do not load it

    is_silent = is_disconnect(error) and not isinstance(error, ClusterUnavailable)
    words = "the server does not answer" if is_silent else "the server cannot do this now"
    logging.getLogger("aliquot.client").warning("%s, trying again for up to %d s: %s", words, PATIENCE_S, error)
