"""Messages as bytes: `[kind, fields]` in MessagePack, cut into frames that any WebSocket takes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from aliquot_schema.agent_protocol import KINDS, Message

FRAME_BYTES_MAX: Final = 256 * 1024
"""Short enough that a long message does not keep others from showing that the other side lives."""
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
"""An inventory of several hundred thousand kernels."""

_LAST: Final = b"\0"
_MORE: Final = b"\1"


class ProtocolError(Exception):
    """The other side sent what no version of the protocol means; the connection cannot go on."""


def encode(message: Message) -> bytes:
    """A message as bytes. Text that is no Unicode (paths, command lines) loses what cannot be written."""
    body = [_NAMES[type(message)], message]
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError:
        return _ENCODER.encode(_writable(msgspec.to_builtins(body, enc_hook=_to_builtins, builtin_types=(bytes,))))


def decode(data: bytes | bytearray) -> Message | None:
    """The message; None when its kind is not known here.

    Raises:
        ProtocolError: it is no message.
    """
    try:
        kind, fields = _HEAD.decode(data)
        decoder = _DECODERS.get(kind)
        return None if decoder is None else decoder.decode(fields)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"a message cannot be read: {error}") from None


def frames(data: bytes) -> Iterator[bytes]:
    """Cut a message into frames; the first byte of each says whether more follow."""
    for start in range(0, len(data), FRAME_BYTES_MAX):
        end = start + FRAME_BYTES_MAX
        yield (_MORE if end < len(data) else _LAST) + data[start:end]


class Assembly:
    """Puts frames together again."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def take(self, frame: bytes) -> bytes | bytearray | None:
        """A whole message, once its last frame is there.

        Raises:
            ProtocolError: it is too long, or no frame.
        """
        mark, part = frame[:1], frame[1:]
        if mark not in (_LAST, _MORE) or len(self._parts) + len(part) > MESSAGE_BYTES_MAX:
            raise ProtocolError("a frame is of an unknown kind, or a message is too long")
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
    raise NotImplementedError(f"{type(value).__name__} has no form on the wire")


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
