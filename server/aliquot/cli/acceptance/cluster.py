"""Demo cluster of the acceptance run, with local, remote or Ray agents; all of it is removed afterwards.

A Ray cluster runs on this machine: a head, and nodes with agents.
"""

import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer, ServerFailed, demo_agents, free_port, wait_or_kill
from aliquot.execution.ray.node.token_file import made_token

UP_S_MAX: Final = 180.0
"""A head and two nodes take ten seconds on a quiet machine."""
LOG_TAIL_BYTES: Final = 4000


class OwnNode:
    """A process `aliquot node start` on its own loopback address."""

    def __init__(self, ray: "OwnRay", name: str, *options: str, address: str) -> None:
        self.name = name
        self.address = address
        self._ray = ray
        self._options = options
        self._log = ray.folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The id of the process, which has been started."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """The end of the output of the node and Ray."""
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self._log.exists() else ""

    async def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the process, with further variables; Ray needs some seconds more until it is up."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aliquot", "node", "start", "--ray-head", self._ray.head),
                *("--address", self.address, "--ray-token-file", str(self._ray.token_file)),
                # Nodes that start at the same time in one folder take each other's sockets.
                *("--temp-folder", str(self._ray.folder / self.name)),
                *self._options,
                env=self._ray.environment | dict(environment or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it, and return its exit code (negative: the signal that ended it)."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await wait_or_kill(self._process)


class OwnRay:
    """A Ray cluster on this machine: nodes with addresses in 127.0.0.0/8, so that several clusters can be up."""

    def __init__(self, *, environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            environment: further variables for Ray.
        """
        # Short: the paths of Ray's sockets in it may have 107 characters at most.
        self.folder = Path(tempfile.mkdtemp(prefix="alq-"))
        self.folder.chmod(0o711)
        self.token_file = made_token(self.folder / "ray-token")
        self._network = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250)}"
        self.head = f"{self._network}.1:{free_port()}"
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("ALIQUOT_", "RAY_"))}
        self.environment = kept | dict(environment or {})
        self.head_node = self._head()
        self.nodes: list[OwnNode] = []

    @property
    def server_options(self) -> tuple[str, ...]:
        """Options of `aliquot serve` for this cluster."""
        return ("--executor", "ray", "--ray-head", self.head, "--ray-token-file", str(self.token_file))

    async def add_node(self, name: str, *options: str) -> OwnNode:
        """Start a node with an agent.

        Args:
            options: further options of `aliquot node start`.
        """
        node = OwnNode(self, name, *options, address=f"{self._network}.{len(self.nodes) + 2}")
        self.nodes.append(node)
        await node.start()
        return node

    async def stop(self) -> None:
        """Stop all nodes, the head last."""
        await asyncio.gather(*(node.stop() for node in self.nodes))
        await self.head_node.stop()

    async def __aenter__(self) -> Self:
        try:
            await self.head_node.start()
        except BaseException:
            await self._clear()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clear()

    def _head(self) -> OwnNode:
        client_port = f"--ray-client-server-port={free_port()}"
        options = ("--head", "--no-agent", "--", client_port)
        return OwnNode(self, "head", *options, address=self.head.rpartition(":")[0])

    async def _clear(self) -> None:
        """Kill everything: no state is needed any more."""
        try:
            kill_mentioning(str(self.folder))
            await self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


async def join_demo_nodes(ray: OwnRay, server: OwnServer) -> None:
    """Start the nodes of the demo cluster, and wait until the server has their agents.

    Raises:
        ServerFailed: they did not join in time.
    """
    for number in ("1", "2"):
        folder = server.folder / f"data-demo-{number}"
        await ray.add_node(f"demo-{number}", "--demo-node", number, "--data-folder", str(folder))
    try:
        async with server.client() as client:
            await until_joined(client, agents=2, timeout_s=UP_S_MAX)
    except TimeoutError:
        logs = "\n".join(node.log() for node in (ray.head_node, *ray.nodes))
        raise ServerFailed(f"the nodes did not join in {UP_S_MAX:g} s:\n{logs}") from None


@asynccontextmanager
async def own_cluster(*, agents: int, ray: bool) -> AsyncIterator[OwnServer]:
    """A server with two nodes of eight mock H100 each.

    Args:
        agents: how many nodes are agents that dial in; 0 = the server runs them itself, or Ray does.
    """
    if ray:
        async with OwnRay() as cluster, OwnServer(*cluster.server_options) as server:
            await join_demo_nodes(cluster, server)
            yield server
    else:
        async with OwnServer("--no-local-agents" if agents else "--demo") as server, demo_agents(server, count=agents):
            yield server
