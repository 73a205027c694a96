"""Terminal client: carries this terminal, or pipes, to a terminal of a session, over lost connections.

Frames as in `execution/agent/spawner/terminals.py`.
"""

import asyncio
import fcntl
import json
import os
import secrets
import signal
import struct
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, GRACE_S, frame, take_frames
from aliquot_schema.resources.units import format_duration

if TYPE_CHECKING:
    from aliquot.client.config import Place
    from aliquot.client.streams import SessionStream

PIPE_GRACE_S: Final = 60.0
"""Time to come back to a command without a terminal, whose output is kept up to a limit."""
AGAIN_S: Final = 0.2
AGAIN_S_MAX: Final = 5.0
INPUT_BYTES_MAX: Final = 4 << 20
"""Input that was sent and not confirmed; above it, no more is read."""
SIZE_UNKNOWN: Final = (24, 80)
"""Rows and columns."""
LEFT: Final = 0
"""Exit code after leaving with `~.`."""
_NEW_LINE: Final = (13, 10)


class _TerminalEnded(Exception):
    """The terminal has ended, or was left."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class TerminalClient:
    """One terminal of a session, from its first connection to its end."""

    def __init__(
        self, place: "Place", session_id: str, *, rank: int, name: str | None, command: tuple[str, ...], is_tty: bool
    ) -> None:
        """
        Args:
            name: of a terminal to share; None = a new one.
        """
        self._place = place
        self._session_id = session_id
        self._rank = rank
        self._name = name or secrets.token_hex(6)
        self._viewer = secrets.token_hex(8)
        self._command = command
        self._is_tty = is_tty
        self._offset: int | None = None
        """Output bytes received; None before the first connection."""
        self._input = bytearray()
        """Read and not confirmed by the terminal."""
        self._confirmed = 0
        self._sent = 0
        self._sending = asyncio.Lock()
        self._has_ended_input = False
        self._room = asyncio.Event()
        self._stream: SessionStream | None = None
        self._opened_size = SIZE_UNKNOWN
        """Rows and columns that were sent with the opening of the connection."""
        self._escape = _Escape()
        self._tasks: asyncio.TaskGroup
        self._carrying: asyncio.Task[int]

    async def run(self) -> int:
        """Carry the terminal to its end and return its exit code.

        Raises:
            Refused, Unauthenticated, ServerUnreachable: it cannot be opened, or not again within its grace time.
            OSError: its output cannot be written.
        """
        stream = await self._open()
        with _raw(self._is_tty):
            try:
                async with asyncio.TaskGroup() as self._tasks:
                    self._carrying = self._tasks.create_task(self._carry(stream))
                    reading = self._tasks.create_task(self._read_input())
                    forget = self._watch_size()
                    try:
                        await asyncio.wait((self._carrying,))
                    finally:
                        reading.cancel()
                        forget()
                    return LEFT if self._carrying.cancelled() else self._carrying.result()
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None

    @property
    def was_attached(self) -> bool:
        """Whether the terminal was opened."""
        return self._offset is not None

    @property
    def _way_back(self) -> str:
        """The command that comes back to it, for people."""
        rank = f" --rank {self._rank}" if self._rank else ""
        return f"`aliquot session shell {self._session_id}{rank} --name {self._name}`"

    async def _carry(self, stream: "SessionStream") -> int:
        from aliquot.client.errors import ServerUnreachable

        while True:
            try:
                await self._receive(stream)
            except _TerminalEnded as over:
                return over.code
            except ServerUnreachable:
                self._stream = None
                again = f", as {self._way_back} does in another window" if self._is_tty else ""
                self._say(f"the connection was lost; connecting again{again}")
            finally:
                await stream.close()
            stream = await self._open_again()

    async def _open(self) -> "SessionStream":
        from aliquot.client.streams import SessionStream

        rows, columns = self._opened_size = _size() if self._is_tty else SIZE_UNKNOWN
        terminal: dict[str, Any] = {
            "name": self._name,
            "viewer": self._viewer,
            "tty": self._is_tty,
            "rows": rows,
            "columns": columns,
            "term": os.environ.get("TERM") or "xterm-256color",
            "command": self._command,
            "offset": self._offset,
            "grace_s": GRACE_S if self._is_tty else PIPE_GRACE_S,
        }
        return await SessionStream.open(self._place, self._session_id, {"rank": self._rank, "terminal": terminal})

    async def _open_again(self) -> "SessionStream":
        from aliquot.client.errors import ServerUnreachable

        loop, wait_s, grace_s = asyncio.get_running_loop(), AGAIN_S, GRACE_S if self._is_tty else PIPE_GRACE_S
        give_up = loop.time() + grace_s
        while True:
            try:
                return await self._open()
            except ServerUnreachable as error:
                if loop.time() > give_up:
                    raise ServerUnreachable(f"{error}; after {format_duration(grace_s)} away it has ended") from None
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_S_MAX)

    async def _receive(self, stream: "SessionStream") -> None:
        received = bytearray()
        while data := await stream.read():
            received += data
            for kind, content in take_frames(received):
                await self._take(stream, kind, content)
        self._say("the session has ended")
        raise _TerminalEnded(1)

    async def _take(self, stream: "SessionStream", kind: bytes, content: bytes) -> None:
        match kind:
            case b"o" | b"s":
                self._offset = (self._offset or 0) + len(content)
                await asyncio.to_thread(_write, 2 if kind == b"s" else 1, content)
            case b"k":
                self._confirm(int.from_bytes(content, "big"))
            case b"a":
                await self._attached(stream, json.loads(content))
            case b"x":
                raise _TerminalEnded(int(json.loads(content)["code"]))
            case b"f":
                self._say(str(json.loads(content)["message"]))
                raise _TerminalEnded(1)

    async def _attached(self, stream: "SessionStream", facts: dict[str, Any]) -> None:
        if self._offset is None:
            if facts["recorded"]:
                self._say("the output of this terminal is recorded on its node")
            self._confirmed = int(facts["input"])
        elif facts["offset"] > self._offset:
            self._say("some output was lost")
        self._offset = int(facts["offset"])
        self._confirm(int(facts["input"]))
        self._sent = self._confirmed
        self._stream = stream
        if self._is_tty and _size() != self._opened_size:  # the window changed while the connection was made
            self._tasks.create_task(self._send_size())
        self._tasks.create_task(self._send_input())

    def _confirm(self, count: int) -> None:
        del self._input[: max(0, count - self._confirmed)]
        self._confirmed = max(count, self._confirmed)
        # Agents of earlier versions count the input of all viewers together.
        self._sent = max(self._sent, self._confirmed)
        self._room.set()

    async def _read_input(self) -> None:
        pieces: asyncio.Queue[bytes] = asyncio.Queue(16)
        loop = asyncio.get_running_loop()
        # A daemon: a thread that waits for input would keep the program from ending.
        threading.Thread(target=_read_forever, args=(pieces, loop), daemon=True).start()
        while data := await pieces.get():
            if self._is_tty and self._escape.leaves(data):
                self._say(f"left; {self._way_back} comes back")
                self._carrying.cancel()
                return
            while len(self._input) > INPUT_BYTES_MAX:
                self._room.clear()
                await self._room.wait()
            self._input += data
            await self._send_input()
        if self._is_tty:  # its window was closed
            self._carrying.cancel()
            return
        self._has_ended_input = True
        await self._send_input()

    async def _send_input(self) -> None:
        """Send what was not sent on this connection."""
        async with self._sending:
            while self._stream is not None and self._sent < self._confirmed + len(self._input):
                first = self._sent - self._confirmed
                piece = bytes(self._input[first : first + FRAME_BYTES_MAX])
                self._sent += len(piece)
                await self._send(frame(b"i", piece))
            if self._has_ended_input:
                await self._send(frame(b"e"))

    def _watch_size(self) -> Any:
        loop = asyncio.get_running_loop()
        if not self._is_tty:
            return lambda: None

        loop.add_signal_handler(signal.SIGWINCH, lambda: self._tasks.create_task(self._send_size()))
        return lambda: loop.remove_signal_handler(signal.SIGWINCH)

    async def _send_size(self) -> None:
        await self._send(frame(b"r", struct.pack(">HH", *_size())))

    async def _send(self, frame: bytes) -> None:
        """Send a frame; without a connection, input is sent after the next one is made."""
        from aliquot.client.errors import ClientFailure

        if self._stream is not None:
            with suppress(ClientFailure):
                await self._stream.write(frame)

    def _say(self, words: str) -> None:
        print(f"\raliquot: {words}\r" if self._is_tty else f"aliquot: {words}", file=sys.stderr, flush=True)


class _Escape:
    """Finds `~.` at the beginning of a line, as in ssh(1)."""

    def __init__(self) -> None:
        self._is_new_line = True
        self._has_tilde = False

    def leaves(self, data: bytes) -> bool:
        """Whether the input has it now."""
        for byte in data:
            if self._has_tilde and byte == ord("."):
                return True
            self._has_tilde = self._is_new_line and byte == ord("~")
            self._is_new_line = byte in _NEW_LINE
        return False


@contextmanager
def _raw(is_tty: bool) -> Iterator[None]:
    if not is_tty:
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed before is input too
    try:
        yield
    finally:
        with suppress(termios.error):  # its window was closed
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _size() -> tuple[int, int]:
    try:
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))[:2]
    except OSError:
        return SIZE_UNKNOWN
    # A terminal that does not know its size has 0 rows and columns.
    return (min(rows, 1000), min(columns, 1000)) if rows and columns else SIZE_UNKNOWN


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _read_forever(pieces: "asyncio.Queue[bytes]", loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            data = os.read(0, FRAME_BYTES_MAX)
        except OSError:
            data = b""
        try:
            asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()
        except RuntimeError:
            return
        if not data:
            return
