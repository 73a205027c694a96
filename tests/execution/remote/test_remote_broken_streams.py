"""Streams of sessions that break: their other side sees that, and does not take it for an end."""

import pytest

from aliquot_schema.cluster.agent_protocol import CloseStream, StreamData
from aliquot_schema.errors import Unavailable
from flow_streams import flow

pytestmark = pytest.mark.anyio


async def test_a_stream_that_is_closed_without_its_end_is_broken_and_not_over() -> None:
    """An agent that stops closes its streams without an end; the terminals in its sessions go on."""
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
