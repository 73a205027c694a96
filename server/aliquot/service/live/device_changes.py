"""Changes of devices: what is another way, a few times a second at most, for each who follows."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from aliquot.service.live.board import Board
from aliquot_schema.live_views import DeviceUpdateView, Place

PAUSE_S: Final = 0.25
"""Between two updates at least: at most four a second."""


class DeviceChanges:
    """Followers of the board; each holds only the number that he knows."""

    def __init__(self, board: Board, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._board = board
        self._sleep = sleep

    def place(self, after: int | None) -> Place:
        """Whoever knows a number that is not of this board, or too old, knows nothing."""
        known = None if after is None or not self._board.knows(after) else after
        return Place(known=known, newest=self._board.number, is_alike=True)

    async def follow(self, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """How all devices stand, or what changed since a number; then what changes, for ever."""
        position = self.place(after).known
        while True:
            await self._board.look()
            if position is not None and self._board.number <= position:
                await self._board.news()
                continue
            update = self._board.since(position)
            position = update.number
            yield update
            await self._sleep(PAUSE_S)
