"""A release that is one protocol version ahead: it sends more fields, and unknown messages."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

from aliquot.execution.remote.codec import decode, frames
from aliquot_schema.cluster.agent_protocol import KINDS, Message, Protocols
from remote_in_memory import MemoryWire

PROTOCOLS_NEXT: Final = Protocols(oldest=1, newest=2)
NEWS: Final = {"reason": "nobody knows", "numbers": [1, 2.5, None]}


class FutureWire:
    """The future release's end of a connection."""

    def __init__(self, wire: MemoryWire) -> None:
        self._wire = wire

    async def say(self, message: Message) -> None:
        """Send a message with unknown fields on every level, between two of unknown kinds."""
        await self._send("gossip", {"about": NEWS})
        (kind,) = (name for name, known in KINDS.items() if known is type(message))
        await self._send(kind, widened(message))
        await self._send("weather", NEWS)

    async def say_plainly(self, kind: str, fields: Mapping[str, object]) -> None:
        """Send a message with only these fields, as a release that knows no others."""
        await self._send(kind, fields)

    async def on_event(self) -> Message:
        """The next message of a known kind."""
        frame = await self._wire.receive()
        assert frame, "the connection has ended"
        assert frame[:1] == b"\0", "it is short"
        message = decode(frame[1:])
        assert message is not None
        return message

    async def until(self, kind: type[Any]) -> Any:
        """The next message of a kind."""
        while not isinstance(message := await self.on_event(), kind):
            pass
        return message

    async def _send(self, kind: str, fields: object) -> None:
        for frame in frames(msgspec.msgpack.encode([kind, fields])):
            await self._wire.send(frame)


def widened(value: Any) -> Any:
    """The value from a newer release: each record with an unknown field."""
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {name: widened(each) for name, each in value.items()}
        case list() | tuple():
            return [widened(each) for each in value]
        case Struct():
            own = {name: widened(getattr(value, name)) for name in value.__struct_fields__}
            return own | {"from_the_future": NEWS}
        case _:
            return value
