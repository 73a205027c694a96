"""Streams of events over HTTP, for clients that read them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

log: Final = logging.getLogger("aliquot.api")


_END: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


class EventStream(StreamingResponse):
    """A response that is broken off when its client leaves a piece unread for too long, and ends with its key.

    Args:
        holding: holds it open; what it is given is called when the rights end with which it was asked for.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[str, None],
        *,
        holding: Callable[[Callable[[], None]], AbstractContextManager[None]],
        headers: Mapping[str, str],
        slow_client_s: float,
    ) -> None:
        super().__init__(pieces, headers=headers)
        self._pieces = pieces
        self._holding = holding
        self._slow_client_s = slow_client_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        rights, has_begun = asyncio.timeout(None), False

        async def patiently(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            try:
                async with asyncio.timeout(self._slow_client_s):
                    await send(message)
            except TimeoutError:
                raise _Unread from None

        try:
            # Closed here, or what it follows would be followed until somebody collects the garbage.
            async with rights, aclosing(self._pieces):
                with self._holding(lambda: rights.reschedule(0)):
                    await super().__call__(scope, receive, patiently)
        except TimeoutError:
            if not rights.expired():
                raise
            with suppress(_Unread):  # nobody may be there to read the end
                await (patiently(_END) if has_begun else Response(status_code=401)(scope, receive, send))
        except _Unread:
            log.info("a client that did not read its stream of events was cut off")


class _Unread(Exception):
    """A piece was not taken in time."""
