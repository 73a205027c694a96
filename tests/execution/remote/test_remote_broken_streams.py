"""Streams of sessions that break: their other side sees that, and does not take it for an end."""

from typing import NamedTuple

import pytest

from aliquot.execution.remote.flow_control import FlowStream
from aliquot_schema.cluster.agent_protocol import CloseStream, StreamData, StreamMessage
from aliquot_schema.errors import Unavailable

pytestmark = pytest.mark.anyio


class Sent(NamedTuple):
    """A stream, and what it sent."""

    stream: FlowStream
    messages: list[StreamMessage]


def flow() -> Sent:
    messages: list[StreamMessage] = []

    async def send(message: StreamMessage) -> None:
        messages.append(message)

    return Sent(FlowStream(1, send=send), messages)


async def test_a_stream_that_is_closed_without_its_end_is_broken_and_not_over() -> None:
    """An agent that stops closes its streams so; the terminals in its sessions go on."""
    stream = flow().stream
    stream.receive(StreamData(request=1, data=b"half"))
    stream.receive(CloseStream(request=1))
    assert await stream.read() == b"half"
    with pytest.raises(Unavailable, match="broken"):
        await stream.read()


async def test_a_stream_that_is_closed_after_its_end_is_over() -> None:
    stream = flow().stream
    stream.receive(StreamData(request=1, data=b"all"))
    stream.receive(StreamData(request=1, data=b""))
    stream.receive(CloseStream(request=1))
    assert [await stream.read(), await stream.read()] == [b"all", b""]
