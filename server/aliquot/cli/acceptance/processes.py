"""Server and agent processes in temporary folders, on free ports; stopped and removed afterwards."""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.client import Client
from aliquot.clock import SystemClock
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
from aliquot_schema.ids import AgentId


async def wait_or_kill(process: asyncio.subprocess.Process) -> int:
    """Wait for the end of a process, kill it after `STOP_S_MAX`, and return its exit code (negative: the signal)."""
    try:
        async with asyncio.timeout(STOP_S_MAX):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


PROGRAM: Final = (sys.executable, "-m", "aliquot")
"""The command line of this version."""
POLL_S: Final = 0.01
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
LOG_TAIL_BYTES: Final = 4000


class ServerFailed(Exception):
    """The server did not start, or ended by itself; the message has the end of its output."""


class OwnServer:
    """A server that starts on entry; on exit it is stopped, its processes are killed and its folder is removed."""

    def __init__(
        self, *options: str, environment: Mapping[str, str] | None = None, program: Sequence[str] = PROGRAM
    ) -> None:
        """
        Args:
            options: further options of `aliquot serve`.
            environment: settings without an option.
            program: the command line; that of another version for tests of upgrades.
        """
        self.program = program
        """Used by the next start."""
        self._options = options
        self._environment = dict(environment or {})
        self.folder = Path(tempfile.mkdtemp(prefix="aliquot-"))
        # Jobs may run as another account, which needs access to its folders inside.
        self.folder.chmod(0o711)
        self.data_folder = self.folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            ServerFailed: it ended, or was not ready in time.
        """
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self.program, "serve", "--port", str(self.port)),
                *("--data-folder", str(self.data_folder), *self._options),
                env={name: value for name, value in os.environ.items() if not name.startswith("ALIQUOT_")}
                | self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Signals to the terminal's process group must not reach this server.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(READY_S_MAX):
                await self._until_ready()
        except TimeoutError:
            raise ServerFailed(f"the server was not ready within {READY_S_MAX:g} s:\n{self.log_tail()}") from None

    async def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code (negative: the signal that ended it)."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL, as a crash would."""
        await self._end(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait until it ends by itself; its exit code.

        Raises:
            TimeoutError: it still runs.
        """
        assert self._process is not None
        async with asyncio.timeout(READY_S_MAX):
            return await self._process.wait()

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
        """The end of the server's output."""
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

    async def _until_ready(self) -> None:
        assert self._process is not None
        # Without TLS, no certificates need be loaded.
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, verify=False) as probe:
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
        return await wait_or_kill(self._process)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class OwnAgent:
    """A process `aliquot agent`, with a key, a folder and a log below the server's temporary folder."""

    def __init__(
        self,
        server: OwnServer,
        agent_id: str,
        *options: str,
        url: str | None = None,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """
        Args:
            options: further options of `aliquot agent`.
            url: where to dial instead of the server itself.
            environment: settings without an option.
            program: the command line; that of another version for tests of upgrades.
        """
        self.program = program
        """Used by the next start."""
        self._environment = dict(environment or {})
        self.id = AgentId(agent_id)
        self._server = server
        self._options = options
        self._url = url or server.url
        self.data_folder = server.folder / f"data-{agent_id}"
        self.key_file = server.folder / f"{agent_id}.key"
        self._log = server.folder / f"{agent_id}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def folder(self) -> Path:
        """The folder of the agent's files."""
        return self.data_folder / "agents" / self.id

    @property
    def pid(self) -> int:
        """The id of the process, which has been started."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """All of its output."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def write_key(self) -> None:
        """Create a key, replacing an older one, and store it in a file that only this account can read."""
        keys = KeyFile(self._server.data_folder / "server" / KEY_FILE)
        key = keys.create(self.id, now_us=SystemClock().now_us(), replace=True)
        with os.fdopen(os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key + "\n")

    async def start(self) -> None:
        """Start the process; it connects by itself."""
        if not self.key_file.exists():
            self.write_key()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self.program, "agent", "--server", self._url, "--id", self.id),
                *("--key-file", str(self.key_file), "--data-folder", str(self.data_folder), *self._options),
                env={name: value for name, value in os.environ.items() if not name.startswith("ALIQUOT_")}
                | self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it, and return its exit code (negative: the signal that ended it)."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        """Wait for its end, kill it after `STOP_S_MAX`, and return its exit code."""
        assert self._process is not None
        return await wait_or_kill(self._process)


@asynccontextmanager
async def demo_agents(server: OwnServer, *, count: int) -> AsyncIterator[list[OwnAgent]]:
    """The nodes of the demo cluster as agent processes that dial in; stopped at the end."""
    agents = [OwnAgent(server, f"demo-{number}", "--demo-node", str(number)) for number in range(1, count + 1)]
    async with AsyncExitStack() as running:
        for agent in agents:
            await agent.start()
            running.push_async_callback(agent.stop)
        yield agents
