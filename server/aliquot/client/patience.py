"""How long a server that is away is waited for."""

import asyncio
import time
from typing import Final

PATIENCE_S: Final = 60.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 2.0


class Patience:
    """Pauses between tries, longer from try to try, until there was nothing for too long."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self.renew()

    def renew(self) -> None:
        """Something came: from here on it is waited anew."""
        self._until = time.monotonic() + self._patience_s
        self._pause_s = PAUSE_S_MIN

    async def pause(self, error: Exception) -> None:
        """Wait before the next try.

        Raises:
            Exception: `error`, when it lasted too long.
        """
        if time.monotonic() > self._until:
            raise error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)
