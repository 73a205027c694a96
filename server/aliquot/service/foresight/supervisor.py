"""Supervisor of the forecast process: starts it at low priority, passes messages, and restarts it whenever it ends."""

import asyncio
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from aliquot.service.foresight.process_messages import DECODER, FromProcess, ToProcess, frames_of

PROGRAM: Final = "aliquot.service.foresight.process"
END_S_MAX: Final = 2.0
SEND_S_MAX: Final = 120.0
"""A process that takes nothing for this long is stopped or hangs: it reads in a thread of its own."""
LENGTH_MAX: Final = 16 << 20
WAIT_S_MIN: Final = 0.5
WAIT_S_MAX: Final = 60.0


class ProcessEnded(Exception):
    """The forecast process has ended, or sent something that cannot be read."""


class Channel:
    """Messages to and from one forecast process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pid: int) -> None:
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()
        self.pid = pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, and everything it sent was received or is lost."""
        return self._reader.at_eof() or self._reader.exception() is not None

    async def send(self, messages: Iterable[ToProcess]) -> None:
        """Send messages in order. They are made and encoded one at a time in a thread: snapshots are large.

        Raises:
            ProcessEnded.
        """
        async with self._sending:
            coming = iter(messages)
            while (frame := await asyncio.to_thread(_next_frame, coming)) is not None:
                if self._writer.is_closing():
                    raise ProcessEnded("it has ended")
                self._writer.write(frame)
                try:
                    async with asyncio.timeout(SEND_S_MAX):
                        await self._writer.drain()
                except (ConnectionError, TimeoutError):
                    raise ProcessEnded("it does not read any more") from None

    async def receive(self) -> FromProcess:
        """The next message.

        Raises:
            ProcessEnded.
        """
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            if length > LENGTH_MAX:
                raise ProcessEnded(f"it sent a message of {length} bytes; {LENGTH_MAX} are allowed")
            return DECODER.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ProcessEnded("it has ended") from None
        except msgspec.MsgspecError as error:
            raise ProcessEnded(f"it sent a message that cannot be read: {error}") from None


@asynccontextmanager
async def forecast_process() -> AsyncIterator[Channel]:
    """One forecast process; it ends with the context, and with this process.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", PROGRAM, str(theirs.fileno())),
            env={name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TZ") if name in os.environ},
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        yield Channel(reader, writer, pid=process.pid)
    finally:
        writer.close()
        try:
            async with asyncio.timeout(END_S_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class RestartDelay:
    """Exponential back-off with jitter, `WAIT_S_MIN` to `WAIT_S_MAX`."""

    def __init__(self) -> None:
        self._attempts = 0

    def next_s(self, *, lived_s: float) -> float:
        """Seconds to wait before the next start.

        Args:
            lived_s: how long the process that ended had run.
        """
        self._attempts = 0 if lived_s > WAIT_S_MAX else self._attempts + 1
        step_s = min(WAIT_S_MAX, WAIT_S_MIN * 2.0 ** min(self._attempts, 16))
        return step_s * random.uniform(0.5, 1.0)


def _next_frame(messages: Iterable[ToProcess]) -> bytes | None:
    message = next(iter(messages), None)
    return None if message is None else frames_of(message)
