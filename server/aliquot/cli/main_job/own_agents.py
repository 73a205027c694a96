"""Agent processes of one's own, that dial in to an `OwnServer`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from aliquot.cli.main_job.ending import ended
from aliquot.cli.main_job.own_server import OwnServer
from aliquot.clock import SystemClock
from aliquot.execution.remote.keys import KEY_FILE, KeyFile
from aliquot_schema.ids import AgentId

STOP_S_MAX: Final = 30.0


class OwnAgent:
    """A process `aliquot agent`, with a key, a folder and a log below the server's temporary folder."""

    def __init__(
        self,
        server: OwnServer,
        agent_id: str,
        *options: str,
        url: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            options: further options of `aliquot agent`.
            url: where to dial instead of the server itself.
            environment: settings that no option has.
        """
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
        """The agent's own."""
        return self.data_folder / "agents" / self.id

    @property
    def pid(self) -> int:
        """The process, which has been started."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """Everything that it printed."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def write_key(self) -> None:
        """Have a key made, in the place of an older one, and keep it where nobody else can read it."""
        keys = KeyFile(self._server.data_folder / "server" / KEY_FILE)
        key = keys.create(self.id, now_us=SystemClock().now_us(), replace=True)
        with os.fdopen(os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key + "\n")

    async def start(self) -> None:
        """Start the process; it dials by itself."""
        if not self.key_file.exists():
            self.write_key()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aliquot", "agent", "--server", self._url, "--id", self.id),
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
        """End it, and return its exit code (negative: the signal that ended it)."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        """Wait for its end, with an end to patience, and return its exit code."""
        assert self._process is not None
        return await ended(self._process, patience_s=STOP_S_MAX)


@asynccontextmanager
async def demo_agents(server: OwnServer, *, count: int) -> AsyncIterator[list[OwnAgent]]:
    """The nodes of the demo cluster as agents that dial in; stopped at the end."""
    agents = [OwnAgent(server, f"demo-{number}", "--demo-node", str(number)) for number in range(1, count + 1)]
    async with AsyncExitStack() as running:
        for agent in agents:
            await agent.start()
            running.push_async_callback(agent.stop)
        yield agents
