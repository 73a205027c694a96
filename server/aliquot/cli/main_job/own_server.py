"""A server process of one's own: on a free port, with a folder of its own, and gone afterwards."""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from aliquot.cli.main_job.ending import ended
from aliquot.cli.main_job.live_processes import kill_mentioning
from aliquot.client import Client

POLL_S: Final = 0.01
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
LOG_TAIL_BYTES: Final = 4000


class ServerFailed(Exception):
    """The server did not come up, or went down by itself; the message has the end of what it printed."""


class OwnServer:
    """Starts on entry; on exit it is stopped, what it left running is killed, and its folder is removed."""

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            options: further options of `aliquot serve`.
            environment: settings that no option has.
        """
        self._options = options
        self._environment = dict(environment or {})
        self.folder = Path(tempfile.mkdtemp(prefix="aliquot-"))
        # Jobs may run as another account, which has to get at its own folders inside.
        self.folder.chmod(0o711)
        self.data_folder = self.folder / "data"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            ServerFailed: it ended, or did not answer in time.
        """
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aliquot", "serve", "--port", str(self.port)),
                *("--data-folder", str(self.data_folder), *self._options),
                env={name: value for name, value in os.environ.items() if not name.startswith("ALIQUOT_")}
                | self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A signal for the terminal's group is not for this server: it is stopped by name.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(READY_S_MAX):
                await self._until_it_answers()
        except TimeoutError:
            raise ServerFailed(f"the server did not answer in {READY_S_MAX:g} s:\n{self.log_tail()}") from None

    async def stop(self) -> int:
        """Ask it to end, wait, and return its exit code (negative: the signal that ended it)."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        await self._end(signal.SIGKILL)

    def client(self) -> Client:
        """A client with this server's token."""
        return Client(self.url, self.token)

    @property
    def token(self) -> str:
        """The token that the server wrote for this machine's users."""
        return (self.data_folder / "token").read_text(encoding="utf-8").strip()

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def log_tail(self) -> str:
        """The end of what the server printed."""
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._clear()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clear()

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    async def _clear(self) -> None:
        try:
            await self.stop()
        finally:
            kill_mentioning(str(self.folder))
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _until_it_answers(self) -> None:
        assert self._process is not None
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as probe:
            while self._process.returncode is None:
                with suppress(httpx.TransportError):
                    if (await probe.get("/readyz")).status_code == httpx.codes.OK:
                        return
                await asyncio.sleep(POLL_S)
        raise ServerFailed(f"the server ended with {self._process.returncode}:\n{self.log_tail()}")

    async def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.returncode is None:
            os.kill(self._process.pid, number)
        return await ended(self._process, patience_s=STOP_S_MAX)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
