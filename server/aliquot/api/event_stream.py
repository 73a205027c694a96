"""Streams of events over HTTP, for clients that read them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

log: Final = logging.getLogger("aliquot.api")


class EventStream(StreamingResponse):
    """A response that is broken off when its client leaves a piece unread for too long."""

    def __init__(self, pieces: AsyncGenerator[str, None], *, headers: Mapping[str, str], slow_client_s: float) -> None:
        super().__init__(pieces, headers=headers)
        self._pieces = pieces
        self._slow_client_s = slow_client_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""

        async def patiently(message: Message) -> None:
            try:
                async with asyncio.timeout(self._slow_client_s):
                    await send(message)
            except TimeoutError:
                raise _Unread from None

        try:
            # Closed here, or what it follows would be followed until somebody collects the garbage.
            async with aclosing(self._pieces):
                await super().__call__(scope, receive, patiently)
        except _Unread:
            log.info("a client that did not read its stream of events was cut off")


class _Unread(Exception):
    """A piece was not taken in time."""
