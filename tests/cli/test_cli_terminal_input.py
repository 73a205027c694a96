"""Input sent by a terminal client to an agent that counts the input of all viewers together."""

import asyncio
import struct
from contextlib import nullcontext
from typing import Any

import pytest

from aliquot.cli.session import terminal
from aliquot.cli.session.terminal import TerminalClient
from aliquot.client.config import Place
from aliquot.client.errors import Refused, ServerUnreachable
from aliquot.client.streams import SessionStream
from aliquot_schema.cluster.streams import FRAME_HEAD

pytestmark = pytest.mark.anyio
ATTACHED = {"offset": 0, "input": 0, "recorded": False, "viewers": 1}


class Sent:
    """A stream that records its input."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def write(self, data: bytes) -> None:
        kind, _ = FRAME_HEAD.unpack_from(data)
        assert kind == b"i"
        self.frames.append(data[FRAME_HEAD.size :])


async def test_terminal_input_is_sent_once_when_more_bytes_are_confirmed_than_sent() -> None:
    client: Any = TerminalClient(
        Place(url="http://127.0.0.1:1", token="-"), "ses_1", rank=0, name="one", command=(), is_tty=False
    )
    stream = Sent()
    async with asyncio.TaskGroup() as client._tasks:
        await client._attached(stream, ATTACHED)
    for text, count in ((b"one", 3), (b"two", 60), (b"three", 90)):
        client._input += text
        async with asyncio.timeout(5):
            await client._send_input()
        client._confirm(count)
    assert stream.frames == [b"one", b"two", b"three"]


class Refusing:
    """A stream that the server ends."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def read(self) -> bytes:
        raise self._failure

    async def close(self) -> None: ...


@pytest.mark.parametrize("failure", [Refused({"__typename": "Forbidden", "message": "Key ended"}), BrokenPipeError(32)])
async def test_a_failure_of_an_open_terminal_is_raised_as_it_is(failure: Exception) -> None:
    client: Any = TerminalClient(
        Place(url="http://127.0.0.1:1", token="-"), "ses_1", rank=0, name="one", command=(), is_tty=False
    )

    async def opened() -> Refusing:
        return Refusing(failure)

    async def no_input() -> None: ...

    client._open, client._read_input = opened, no_input
    with pytest.raises(type(failure)):
        await client.run()


async def test_a_window_that_changes_while_the_connection_is_made_gets_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client: Any = TerminalClient(
        Place(url="http://127.0.0.1:1", token="-"), "ses_1", rank=0, name="one", command=(), is_tty=True
    )
    frames: list[bytes] = []

    class Sized(Sent):
        async def write(self, data: bytes) -> None:
            frames.append(data)

    async def opened(_place: Place, _id: str, _asked: object) -> Sized:
        monkeypatch.setattr(terminal, "_size", lambda: (41, 111))
        return Sized()

    monkeypatch.setattr(terminal, "_size", lambda: (30, 100))
    monkeypatch.setattr(SessionStream, "open", opened)
    async with asyncio.TaskGroup() as client._tasks:
        await client._attached(await client._open(), ATTACHED)
    assert frames == [FRAME_HEAD.pack(b"r", 4) + struct.pack(">HH", 41, 111)]


@pytest.mark.parametrize("typed", [b"\r~.", b""], ids=["left", "its window was closed"])
async def test_a_terminal_that_is_left_while_its_connection_is_lost_ends(
    monkeypatch: pytest.MonkeyPatch, typed: bytes
) -> None:
    client: Any = TerminalClient(
        Place(url="http://127.0.0.1:1", token="-"), "ses_1", rank=0, name="one", command=(), is_tty=True
    )
    is_lost = asyncio.Event()

    async def opened() -> Refusing:
        if client._offset is None:
            client._offset = 0
            return Refusing(ServerUnreachable("gone"))
        is_lost.set()
        raise ServerUnreachable("gone")

    async def typed_when_lost(pieces: asyncio.Queue[bytes]) -> None:
        await is_lost.wait()
        await pieces.put(typed)

    def read_forever(pieces: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
        asyncio.run_coroutine_threadsafe(typed_when_lost(pieces), loop).result()

    client._open = opened
    monkeypatch.setattr(terminal, "_raw", nullcontext)
    monkeypatch.setattr(terminal, "_read_forever", read_forever)
    async with asyncio.timeout(30):
        assert await client.run() == 0


@pytest.mark.parametrize(("window", "size"), [((0, 0), (24, 80)), ((30, 0), (24, 80)), ((30, 9000), (30, 1000))])
def test_a_window_without_a_size_is_taken_to_have_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], size: tuple[int, int]
) -> None:
    monkeypatch.setattr(terminal.fcntl, "ioctl", lambda *_: struct.pack("HHHH", *window, 0, 0))
    assert terminal._size() == size


@pytest.mark.parametrize("rank", [0, 2])
async def test_a_terminal_whose_connection_is_lost_names_the_command_that_comes_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: int
) -> None:
    monkeypatch.setattr(terminal, "GRACE_S", -1.0)
    client: Any = TerminalClient(
        Place(url="http://127.0.0.1:1", token="-"), "ses_1", rank=rank, name="one", command=(), is_tty=True
    )
    streams: list[Any] = [Refusing(ServerUnreachable("the connection was lost"))]

    async def opened() -> Refusing:
        if streams:
            return streams.pop()
        raise ServerUnreachable("http://127.0.0.1:1: refused")

    client._open = opened
    with pytest.raises(ServerUnreachable, match=r"1: refused; after .* away it has ended"):
        await client._carry(await opened())
    way_back = f"`aliquot session shell ses_1{' --rank 2' if rank else ''} --name one`"
    assert f"connecting again, as {way_back} does in another window" in capsys.readouterr().err
