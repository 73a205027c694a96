"""Subscribers: each knows the number of the last frame that it was given, and nothing is kept for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from aliquot.api.sharing.beginning import begin


class Frame(NamedTuple):
    """One encoded result, and the number of the event that it tells of."""

    number: int
    text: str


class Subscriber:
    """Somebody who is sent frames, in order, each once.

    Args:
        position: the number of the last event that is known there.
        send: sends the text of a frame; waits while the way is blocked.
    """

    def __init__(self, *, position: int, send: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self.position = position
        self._send = send
        self._sending: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._behind = asyncio.Event()

    def offer(self, frame: Frame) -> bool:
        """Send a frame without waiting; False when it cannot be sent at once, and is on its way."""
        if frame.number <= self.position:
            return True
        self.position = frame.number
        try:
            self._sending = begin(self._send(frame.text))
        except Exception as error:
            self._failure = error
        return self._sending is None and self._failure is None

    async def deliver(self, frame: Frame) -> None:
        """Send a frame, however long it takes."""
        self.position = frame.number
        await self._send(frame.text)

    def leave_behind(self) -> None:
        """Say that no more is offered."""
        self._behind.set()

    async def left_behind(self) -> None:
        """Wait until no more is offered."""
        await self._behind.wait()
        self._behind.clear()

    async def finish(self) -> None:
        """Wait until what was offered is sent.

        Raises:
            What sending raised.
        """
        sending, self._sending = self._sending, None
        if sending is not None:
            await sending
        if self._failure is not None:
            raise self._failure

    def drop(self) -> None:
        """Give up what is not sent yet."""
        if self._sending is not None:
            self._sending.cancel()
