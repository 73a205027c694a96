"""One followed output, as the server receives it: no more than the agent was given credit for."""

import asyncio
from collections.abc import AsyncIterator

from aliquot.execution.remote.codec import ProtocolError
from aliquot_schema.agent_protocol import LOG_WINDOW_BYTES
from aliquot_schema.errors import AliquotError
from aliquot_schema.launching import LogChunk


class LogStream:
    """Pieces that came and were not taken yet."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[LogChunk | AliquotError] = asyncio.Queue()
        self._bytes = 0

    def put(self, chunk: LogChunk) -> None:
        """A piece came.

        Raises:
            ProtocolError: the agent sends more than it may.
        """
        self._bytes += len(chunk.data)
        if self._bytes > LOG_WINDOW_BYTES:
            raise ProtocolError("the agent sends more of an output than it was given credit for")
        self._pieces.put_nowait(chunk)

    def fail(self, error: AliquotError) -> None:
        """Nothing more will come."""
        self._pieces.put_nowait(error)

    async def pieces(self) -> AsyncIterator[LogChunk]:
        """What comes, in order, until a piece is `at_end`.

        Raises:
            AliquotError: what the stream failed with.
        """
        while True:
            piece = await self._pieces.get()
            if isinstance(piece, AliquotError):
                raise piece
            self._bytes -= len(piece.data)
            yield piece
            if piece.at_end:
                return
