"""Codec: agent protocol messages as `[kind, fields]` in MessagePack, split into WebSocket frames.

`Channel` sends and receives whole messages over any WebSocket library. Expected errors of an agent travel as `Failure`.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from aliquot_schema.cluster.agent_protocol import KINDS, Failure, Message
from aliquot_schema.errors import AliquotError, Forbidden, InvalidRequest, NotFound, StateConflict, Unavailable

FRAME_BYTES_MAX: Final = 256 * 1024
"""Small enough that a long message does not delay heartbeats."""
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Enough for the orders and reports of several hundred thousand kernels."""
HELLO_BYTES_MAX: Final = 64 * 1024
"""Of the first message of an agent."""
INVENTORY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Until the inventory of an agent is known. It has the agent's devices and the kernels that run or whose end no server
has acknowledged, so at most as many as ran at one time: 8 MiB are enough for 8,192 devices and 10,000 kernels."""
ERROR_CHARS_MAX: Final = 300

_LAST: Final = b"\0"
_MORE: Final = b"\1"


class ProtocolError(Exception):
    """The peer violated the protocol; the connection must be closed."""


def encode(message: Message) -> bytes:
    """Encode a message. In text that is not valid Unicode (paths, command lines), invalid characters are replaced."""
    body = [_NAMES[type(message)], message]
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError:
        return _ENCODER.encode(_writable(msgspec.to_builtins(body, enc_hook=_to_builtins, builtin_types=(bytes,))))


def decode(data: bytes | bytearray) -> Message | None:
    """Decode a message; None if its kind is unknown to this version.

    Raises:
        ProtocolError: the bytes are not a message.
    """
    try:
        kind, fields = _HEAD.decode(data)
        decoder = _DECODERS.get(kind)
        return None if decoder is None else decoder.decode(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = ascii(str(error))[1:-1]  # may quote the message, whose control characters must not reach a terminal
        raise ProtocolError(f"a message cannot be read: {text[:ERROR_CHARS_MAX]}") from None


def frames(data: bytes) -> Iterator[bytes]:
    """Split a message into frames; the first byte of each says whether more follow."""
    for start in range(0, len(data), FRAME_BYTES_MAX):
        end = start + FRAME_BYTES_MAX
        yield (_MORE if end < len(data) else _LAST) + data[start:end]


class MessageAssembler:
    """Joins frames into messages."""

    def __init__(self, *, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._parts = bytearray()

    def add(self, frame: bytes) -> bytes | bytearray | None:
        """Add a frame; returns the message after its last frame, else None.

        Raises:
            ProtocolError: the message is too long, or the frame is malformed.
        """
        mark, part = frame[:1], frame[1:]
        if mark not in (_LAST, _MORE) or len(self._parts) + len(part) > self.bytes_max:
            raise ProtocolError(f"a frame has an unknown kind, or a message exceeds {self.bytes_max} bytes")
        if mark == _LAST and not self._parts:
            return part
        self._parts += part
        if mark == _MORE:
            return None
        whole, self._parts = self._parts, bytearray()
        return whole


def _to_builtins(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")


def _writable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_writable(name): _writable(each) for name, each in value.items()}
        case list() | tuple():
            return [_writable(each) for each in value]
        case _:
            return value


_NAMES: Final = {message: name for name, message in KINDS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_to_builtins)
_HEAD: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_DECODERS: Final = {name: msgspec.msgpack.Decoder(message) for name, message in KINDS.items()}


class Wire(Protocol):
    """A WebSocket. Sending on a closed one has no effect; the receiver notices the end."""

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while the peer does not read."""

    async def receive(self) -> bytes | None:
        """The next frame; None at and after the end of the connection."""

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""


class ChannelClosed(Exception):
    """The connection has ended."""


class Channel:
    """Sends and receives whole messages over a wire. Supports one reader."""

    def __init__(self, wire: Wire, *, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        """
        Args:
            bytes_max: size of the first messages; see `expect`.
        """
        self._wire = wire
        self._assembly = MessageAssembler(bytes_max=bytes_max)
        self._sending = asyncio.Lock()
        self._is_broken = False
        self.heard_at = time.monotonic()
        """Time of the last frame from the peer, seconds of the monotonic clock."""

    async def send(self, message: Message) -> None:
        """Send a message; waits while the peer does not read.

        Raises:
            ChannelClosed: an earlier message was cancelled between its frames.
        """
        pieces = list(frames(encode(message)))
        async with self._sending:
            if self._is_broken:
                raise ChannelClosed
            self._is_broken = True
            for number, frame in enumerate(pieces):
                try:
                    await self._wire.send(frame)
                except asyncio.CancelledError:
                    self._is_broken = number > 0
                    raise
            self._is_broken = False

    async def receive(self) -> Message:
        """The next message of a known kind.

        Raises:
            ChannelClosed: the connection has ended.
            ProtocolError: the peer sent a malformed message.
        """
        while True:
            frame = await self._wire.receive()
            if frame is None:
                raise ChannelClosed
            self.heard_at = time.monotonic()
            whole = self._assembly.add(frame)
            message = None if whole is None else decode(whole)
            if message is not None:
                return message

    def expect(self, bytes_max: int) -> None:
        """Set how large the next messages may be."""
        self._assembly.bytes_max = bytes_max

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""
        await self._wire.close(code=code, reason=reason)


def to_failure(error: AliquotError) -> Failure:
    """Convert an error for sending."""
    fields = {name: str(value) for name, value in vars(error).items() if name != "message" and value is not None}
    return Failure(code=error.code, message=error.message, fields=fields)


def from_failure(failure: Failure) -> AliquotError:
    """Restore a sent error; unknown codes become `Unavailable`."""
    make = _KINDS.get(failure.code)
    return Unavailable(failure.message) if make is None else make(failure.message, failure.fields)


_KINDS: Final[Mapping[str, Callable[[str, Mapping[str, str]], AliquotError]]] = {
    NotFound.code: lambda text, has: NotFound(text, kind=has.get("kind", ""), id=has.get("id", "")),
    StateConflict.code: lambda text, has: StateConflict(text, id=has.get("id", ""), state=has.get("state", "")),
    InvalidRequest.code: lambda text, has: InvalidRequest(text, field=has.get("field")),
    Forbidden.code: lambda text, _: Forbidden(text),
}
