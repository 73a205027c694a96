"""Streams of sessions that keep what they send."""

from typing import NamedTuple

from aliquot.execution.remote.flow_control import FlowStream
from aliquot_schema.cluster.agent_protocol import StreamMessage


class Sent(NamedTuple):
    """A stream, and what it sent."""

    stream: FlowStream
    messages: list[StreamMessage]


def flow() -> Sent:
    """A stream that has sent nothing."""
    messages: list[StreamMessage] = []

    async def send(message: StreamMessage) -> None:
        messages.append(message)

    return Sent(FlowStream(1, send=send), messages)
