"""`aliquot session forward`: the local program sees whether the session's side has ended or is broken."""

import asyncio
from typing import Any

import pytest

from aliquot.cli.session import forward
from aliquot.client.config import Place
from aliquot.client.errors import ServerUnreachable
from aliquot.client.streams import SessionStream

pytestmark = pytest.mark.anyio


class Stream:
    """A scripted stream: the pieces that the session sends; the last is b"" (the end) or an error."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = list(pieces)
        self.ended = False
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        if not self._pieces:
            await asyncio.Event().wait()
        piece = self._pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def write(self, data: bytes) -> None:
        pass

    async def end(self) -> None:
        self.ended = True

    async def close(self) -> None:
        self.closed.set()


async def received(stream: Stream, monkeypatch: pytest.MonkeyPatch, *, break_off: bool = False) -> bytes:
    """The bytes that a local program reads; with `break_off`, it resets its connection and reads none."""

    async def opened(*_: Any) -> Stream:
        return stream

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward._carry(Place(url="http://server", token="t"), "ses_1", {"port": 1}, reader, writer)

    monkeypatch.setattr(SessionStream, "open", opened)
    async with asyncio.timeout(30), await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        if break_off:
            forward._reset(writer)
            await stream.closed.wait()
            return b""
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_a_download_is_reset_when_the_session_s_side_breaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectionResetError):
        await received(Stream(b"half", ServerUnreachable("the connection was lost")), monkeypatch)
    assert capsys.readouterr().err == "aliquot: the connection was lost\n"


async def test_a_download_that_is_complete_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await received(Stream(b"all", b""), monkeypatch) == b"all"


async def test_an_upload_that_the_local_program_breaks_off_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    await received(stream, monkeypatch, break_off=True)
    assert not stream.ended
