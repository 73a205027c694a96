"""Turns: what takes much memory is done for one at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aliquot.service.history.ports import HistoryUnavailable


class Turns:
    """Somebody has his turn, and a few wait for theirs."""

    def __init__(self, *, present_max: int) -> None:
        """
        Args:
            present_max: whoever has his turn, and those who wait.
        """
        self._present_max = present_max
        self._present = 0
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it.

        Raises:
            HistoryUnavailable: too many wait.
        """
        if self._present >= self._present_max:
            raise HistoryUnavailable("too many ask for this at once; try again in a moment")
        self._present += 1
        try:
            async with self._turn:
                yield
        finally:
            self._present -= 1
