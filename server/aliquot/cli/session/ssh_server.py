"""SSH server of one session, on the user's machine: ssh starts it as its ProxyCommand and speaks with it over a pipe.

Shells, commands and the SFTP server are terminals of the session, forwarded ports are its ports. So the node needs no
SSH server, open port or account of this name. asyncssh speaks the protocol.
"""

import asyncio
import json
import os
import secrets
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncssh

from aliquot.cli.connection.server import failure_text
from aliquot.client.config import Place
from aliquot.client.errors import ClientFailure
from aliquot.client.streams import SessionStream
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, FRAME_HEAD, SIZE_MAX, frame, take_frames
from aliquot_schema.errors import AliquotError

SHELL: Final = """case "$SHELL" in "" | */nologin | */false) SHELL=/bin/sh ;; esac
[ $# -gt 0 ] && exec "$SHELL" -c "$1"
exec "$SHELL" -l"""
SFTP: Final = """for folder in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec; do
[ -x "$folder/sftp-server" ] && exec "$folder/sftp-server"; done
echo "aliquot: the node has no sftp-server; copy with rsync, or with scp -O" >&2; exit 127"""
GRACE_S: Final = 5.0
"""A command whose connection was lost is ended after this: ssh does not continue it."""
WAITING_BYTES_MAX: Final = 1 << 20
"""Input of a channel that was not sent yet; above it, no more is read."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


async def serve(place: Place, id: str) -> None:
    """Serve the connection on standard input and output to its end."""

    class Server(asyncssh.SSHServer):
        """Lets the user of the pipe in, who is the one that started this program."""

        def begin_auth(self, _username: str) -> bool:
            return False

        def session_requested(self) -> "_Channel":
            return _Channel(place, id)

        def connection_requested(self, dest_host: str, dest_port: int, _from: str, _from_port: int) -> Any:
            if dest_host not in LOOPBACK:
                words = "only ports of the session itself are forwarded; write localhost"
                raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, words)
            return _to_port(place, id, dest_port)

    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=far)
    pipes = [asyncio.create_task(_from_ssh(writer)), asyncio.create_task(_to_ssh(reader))]
    served = await asyncssh.run_server(
        near,
        server_factory=Server,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        encoding=None,
        line_editor=False,
        x11_forwarding=False,
        agent_forwarding=False,
    )
    await served.wait_closed()
    await asyncio.wait(pipes[1:], timeout=GRACE_S)


async def _from_ssh(writer: asyncio.StreamWriter) -> None:
    while data := await asyncio.to_thread(os.read, 0, FRAME_BYTES_MAX):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _to_ssh(reader: asyncio.StreamReader) -> None:
    while data := await reader.read(FRAME_BYTES_MAX):
        while data:
            data = data[await asyncio.to_thread(os.write, 1, data) :]


Carry = Callable[["asyncssh.SSHReader[bytes]", "asyncssh.SSHWriter[bytes]"], Awaitable[None]]


def _to_port(place: Place, id: str, port: int) -> Carry:
    """Carries forwarded connections to a port of the session."""

    async def up(reader: "asyncssh.SSHReader[bytes]", stream: SessionStream) -> None:
        while data := await reader.read(FRAME_BYTES_MAX):
            await stream.write(data)
        await stream.end()

    async def carry(reader: "asyncssh.SSHReader[bytes]", writer: "asyncssh.SSHWriter[bytes]") -> None:
        try:
            stream = await SessionStream.open(place, id, {"rank": 0, "port": port})
            sending = asyncio.create_task(up(reader, stream))
            try:
                while data := await stream.read():
                    writer.write(data)
                    await writer.drain()
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                await stream.close()
        except (ClientFailure, AliquotError, OSError) as error:
            print(f"aliquot: port {port}: {failure_text(error)}", file=sys.stderr, flush=True)
        finally:
            writer.close()

    return carry


class _Channel(asyncssh.SSHServerSession[bytes]):
    """One shell, command or SFTP server: a terminal of the session."""

    def __init__(self, place: Place, id: str) -> None:
        self._place = place
        self._id = id
        self._channel: asyncssh.SSHServerChannel[bytes]
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        """Frames for the terminal."""
        self._waiting = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._command: tuple[str, ...] = ("/bin/sh", "-c", SHELL, "ssh")
        self._size = (24, 80)
        self._term: str | None = None
        self._carrying: asyncio.Task[None] | None = None

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], _modes: object) -> bool:
        self._term = term_type or "dumb"
        self._size = _size(*term_size[:2])
        return True

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._command += (command,)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._command = ("/bin/sh", "-c", SFTP)
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._carrying = asyncio.create_task(self._run())

    def data_received(self, data: bytes, _datatype: int | None) -> None:
        self._waiting += len(data)
        if self._waiting > WAITING_BYTES_MAX:
            self._channel.pause_reading()
        for start in range(0, len(data), FRAME_BYTES_MAX):
            self._frames.put_nowait(frame(b"i", data[start : start + FRAME_BYTES_MAX]))

    def eof_received(self) -> bool:
        self._frames.put_nowait(frame(b"e"))
        return True

    def terminal_size_changed(self, width: int, height: int, _pixwidth: int, _pixheight: int) -> None:
        self._frames.put_nowait(frame(b"r", struct.pack(">HH", *_size(width, height))))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._carrying is not None:
            self._carrying.cancel()

    async def _run(self) -> None:
        try:
            stream = await SessionStream.open(self._place, self._id, {"rank": 0, "terminal": self._asked()})
            sending = asyncio.create_task(self._send(stream))
            try:
                code = await self._receive(stream)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                await stream.close()
        except (ClientFailure, AliquotError) as error:
            self._channel.write_stderr(f"aliquot: {error}\n".encode())
            code = 255
        self._channel.exit(code)

    def _asked(self) -> dict[str, Any]:
        rows, columns = self._size
        return {
            "name": secrets.token_hex(6),
            "tty": self._term is not None,
            "rows": rows,
            "columns": columns,
            "term": self._term or "dumb",
            "command": self._command,
            "grace_s": GRACE_S,
        }

    async def _send(self, stream: SessionStream) -> None:
        while True:
            sent = await self._frames.get()
            await stream.write(sent[: FRAME_HEAD.size])
            await stream.write(sent[FRAME_HEAD.size :])
            if sent[:1] == b"i":
                self._waiting -= len(sent) - FRAME_HEAD.size
                if self._waiting <= WAITING_BYTES_MAX:
                    self._channel.resume_reading()

    async def _receive(self, stream: SessionStream) -> int:
        """Output, up to the exit code."""
        received = bytearray()
        while data := await stream.read():
            received += data
            for kind, content in take_frames(received):
                if kind == b"x":
                    return int(json.loads(content)["code"])
                await self._print(kind, content)
        return 255

    async def _print(self, kind: bytes, content: bytes) -> None:
        if kind == b"f":
            kind, content = b"s", f"aliquot: {json.loads(content)['message']}\n".encode()
        if kind not in (b"o", b"s"):
            return
        await self._may_write.wait()
        if kind == b"o":
            self._channel.write(content)
        else:
            self._channel.write_stderr(content)


def _size(width: int, height: int) -> tuple[int, int]:
    """Rows and columns within the limits; ssh sends 0 for unknown ones."""
    return min(height, SIZE_MAX) or 24, min(width, SIZE_MAX) or 80
