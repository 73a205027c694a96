"""Streams of a session: its terminals and ports, as bytes in both directions over a WebSocket of their own."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from aliquot.client.config import Place
from aliquot.client.errors import ClusterUnavailable, Refused, ServerUnreachable, UnexpectedAnswer, error_type
from aliquot.client.requests import check_address, is_loopback, tls_context
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.errors import Unauthenticated

OPEN_S_MAX: Final = 10.0
REFUSED: Final = frozenset({1009, 4400, 4430})
"""Close codes after which the same request is refused again."""
KEY_ENDED: Final = 4401
END: Final = "end"


class SessionStream:
    """An open stream. `open` makes one; close it after use."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    @classmethod
    async def open(cls, place: Place, session_id: str, asked: Mapping[str, Any]) -> Self:
        """Open a stream.

        Args:
            asked: `rank`, and `terminal` or `port`; see `aliquot_schema.cluster.streams`.
        Raises:
            Refused: by the server; the answer has `message`.
            Unauthenticated: the token is not accepted, or no longer.
            ServerUnreachable: there is no connection; it may be tried again.
        """
        check_address(place.url)
        url = f"ws{place.url.rstrip('/').removeprefix('http')}/sessions/{session_id}/stream"
        try:
            socket = await connect(
                url,
                additional_headers={"authorization": f"Bearer {place.token}"},
                compression=None,
                proxy=None if is_loopback(place.url) else True,
                open_timeout=OPEN_S_MAX,
                close_timeout=1,
                max_size=4 * FRAME_BYTES_MAX,
                ssl=tls_context(place.ca_file) if url.startswith("wss:") else None,
            )
        except InvalidStatus as error:
            if error.response.status_code == 401:
                raise Unauthenticated("the server does not accept this token") from None
            if error.response.status_code >= 500:
                raise ServerUnreachable(f"{place.url}: it answers {error.response.status_code}") from None
            raise UnexpectedAnswer(error.response.status_code, "the stream was refused") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            raise ServerUnreachable(f"{place.url}: {str(error) or type(error).__name__}") from None
        stream = cls(socket)
        try:
            await socket.send(json.dumps(asked))
            answer = json.loads(await socket.recv())
        except ConnectionClosed as error:
            raise _lost(error) from None
        except BaseException:
            await stream.close()
            raise
        if "error" in answer:
            await stream.close()
            if answer["error"] == "unavailable":
                raise ClusterUnavailable(str(answer.get("message")))
            raise Refused({"__typename": error_type(str(answer["error"])), **answer})
        return stream

    @classmethod
    async def check(cls, place: Place, session_id: str, *, rank: int) -> None:
        """Ask whether streams of a session may be opened now. Raises as `open`."""
        try:
            stream = await cls.open(place, session_id, {"rank": rank})
        except Refused as error:
            if error.kind == "InvalidRequest":
                return  # a server of an earlier version, which cannot say
            raise
        await stream.close()

    async def read(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            ServerUnreachable: the connection was lost.
            Refused: the server ended it.
            Unauthenticated: the key was revoked, or its user disabled.
        """
        try:
            data = await self._socket.recv()
        except ConnectionClosed as error:
            raise _lost(error) from None
        return data if isinstance(data, bytes) else b""

    async def write(self, data: bytes) -> None:
        """Send data; waits while the server does not read. Raises as `read`."""
        try:
            for start in range(0, len(data), FRAME_BYTES_MAX):
                await self._socket.send(data[start : start + FRAME_BYTES_MAX])
        except ConnectionClosed as error:
            raise _lost(error) from None

    async def end(self) -> None:
        """Nothing more will be sent."""
        with suppress(ConnectionClosed):
            await self._socket.send(END)

    async def close(self) -> None:
        """Close both directions."""
        await self._socket.close()


def _lost(error: ConnectionClosed) -> Refused | ServerUnreachable | Unauthenticated:
    code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd else (None, "")
    if code == KEY_ENDED:
        why = "the key was revoked or has expired, or its user is disabled"
        return Unauthenticated(f"the server closed the stream: {why}")
    if code in REFUSED:
        return Refused({"__typename": "Forbidden", "message": f"the server closed the stream: {reason or code}"})
    return ServerUnreachable(reason or "the connection was lost")
