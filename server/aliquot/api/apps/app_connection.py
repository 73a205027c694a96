"""The connection to an app for one HTTP request, in HTTP/1.1 by h11, over a stream to its port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import h11

from aliquot.api.apps.headers import AppRefused
from aliquot.api.session_streams import DataRateLimit
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.errors import AliquotError

ANSWER_S: Final = 600.0
"""Longest time until an answer begins, between its pieces, and for which the app does not read what is sent to it."""
ANSWER_HEADER_BYTES_MAX: Final = 100 * 1024
NOT_VALID: Final = "The app gave no valid answer"


class AppConnection:
    """One request and its answer over the stream to the app's port; both pass at the same time."""

    def __init__(self, stream: ByteStream, pace: DataRateLimit, request: h11.Request) -> None:
        self._stream = stream
        self._pace = pace
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=ANSWER_HEADER_BYTES_MAX)
        self._unsent = self._http.send(request) or b""  # an answer that comes before it is sent belongs to it, too
        self._waiting: asyncio.Timeout | None = None
        self._is_sent = False

    async def send(self, event: h11.Data | h11.EndOfMessage | None = None) -> None:
        """Send a part of the body, or only the head. Raises AliquotError if the app has closed its connection."""
        data = self._unsent + ((self._http.send(event) if event is not None else None) or b"")
        self._unsent = b""
        try:
            async with asyncio.timeout(ANSWER_S):
                await write(self._stream, data, self._pace)
        except TimeoutError:
            raise AppRefused(502, f"{NOT_VALID}: the app does not read") from None

    def sent(self) -> None:
        """Nothing more will be sent: from now on the app has `ANSWER_S`. While it reads, it need not answer."""
        self._is_sent = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time() + ANSWER_S)

    async def answer(self) -> AsyncIterator[h11.Response | h11.Data]:
        """The parts of the answer."""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._read())
            elif isinstance(event, h11.Response | h11.Data):
                yield event
            elif not isinstance(event, h11.InformationalResponse):
                return

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_S if self._is_sent else None) as self._waiting:
                data = await self._stream.read()
        except TimeoutError:
            raise AppRefused(502, f"{NOT_VALID}: the app does not answer") from None
        except AliquotError as error:
            raise AppRefused(502, f"{NOT_VALID}: {error.message}") from None
        finally:
            self._waiting = None
        if not data and self._http.their_state is h11.SEND_RESPONSE:
            raise AppRefused(502, f"{NOT_VALID}: the app closed the connection")
        await self._pace.take(len(data))
        return data


async def end(stream: ByteStream) -> None:
    """End and close a stream to an app."""
    for work in (stream.end, stream.close):  # without its end, the app's connection would be reset
        with suppress(AliquotError):
            await work()


async def write(stream: ByteStream, data: bytes, pace: DataRateLimit) -> None:
    """Write data to an app, in frames and no faster than allowed."""
    for start in range(0, len(data), FRAME_BYTES_MAX):
        piece = data[start : start + FRAME_BYTES_MAX]
        await pace.take(len(piece))
        await stream.write(piece)
