"""A command of the command line in its own pseudo-terminal, as for a user."""

import asyncio
import fcntl
import os
import pty
import select
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WAIT_S_MAX: Final = 60.0


class OwnTerminal:
    """Types input, and waits for output."""

    def __init__(self, pid: int, master: int) -> None:
        self._pid = pid
        self._master = master
        self._printed = b""

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def until(self, text: str) -> str:
        """Wait until this is printed, and discard all output up to it."""
        async with asyncio.timeout(WAIT_S_MAX):
            while text.encode() not in self._printed:
                if not await asyncio.to_thread(self._read):
                    raise EOFError(f"{text!r} did not come: {self._printed.decode(errors='replace')}")
        before, _, self._printed = self._printed.partition(text.encode())
        return before.decode(errors="replace")

    async def exit_code(self) -> int:
        """Wait for the end."""
        async with asyncio.timeout(WAIT_S_MAX):
            while await asyncio.to_thread(self._read):
                pass
            _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def hang_up(self) -> None:
        """Close the window, and wait for the end."""
        os.close(self._master)
        os.waitpid(self._pid, 0)
        self._pid, self._master = 0, -1

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        if self._master >= 0:
            os.close(self._master)

    def _read(self) -> bool:
        """Read the output of up to a second; False at the end."""
        if not select.select([self._master], [], [], 1.0)[0]:
            return True
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self._printed += data
        return bool(data)


@contextmanager
def own_terminal(*words: str, environment: dict[str, str]) -> Iterator[OwnTerminal]:
    """`aliquot` with these words."""
    argv = [sys.executable, "-m", "aliquot", *words]
    variables = {**_environment(), **environment, "TERM": "xterm"}
    pid, master = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, variables)
    terminal = OwnTerminal(pid, master)
    terminal.size(30, 100)
    try:
        yield terminal
    finally:
        terminal.close()


async def piped(*words: str, given: bytes, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run `aliquot` with input from a pipe; its exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**_environment(), **environment},
    )
    async with asyncio.timeout(2 * WAIT_S_MAX):
        printed, errors = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, printed, errors


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ALIQUOT_")}
