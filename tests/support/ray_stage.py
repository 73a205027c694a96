"""A Ray cluster with two nodes of eight mock GPUs each, a server on it, and jobs that end on request."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aliquot.cli.acceptance.cluster import OwnNode, OwnRay
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until, until_state
from ray_processes import actor_pid, gateway_pid, raylet_pid

QUICK_SERVER: Final = {"ALIQUOT_AGENT_BEAT_S": "0.7", "ALIQUOT_AGENT_LOST_S": "7"}
"""Suspect after 2.1 s, lost after 7 s."""
QUICK_RAY: Final = {"RAY_gcs_rpc_server_reconnect_timeout_s": "8"}
RAY: Final = "query { cluster { ray { head_node connected version workers nodes reason } } }"
AGENTS: Final = """
query { agents(first: 100, filter: { states: [alive, suspect, lost, left] }) { edges { node { id state } } } }
"""


@dataclass(slots=True, kw_only=True)
class Stage:
    """The parts of one module's tests; a test repairs its damage."""

    ray: OwnRay
    server: OwnServer
    client: Client
    states: dict[str, list[str]] = field(default_factory=dict)
    """By agent, the states seen, each once."""

    def node(self, number: int) -> OwnNode:
        """A Ray node, counted from 1; its agent is demo-N."""
        return self.ray.nodes[number - 1]

    def agent_folder(self, number: int) -> Path:
        return self.ray.folder / f"data-{number}" / "agents" / f"demo-{number}"

    async def actor(self, number: int) -> int:
        """The process id of a node's actor."""

        async def look() -> int | None:
            return actor_pid(self.agent_folder(number))

        return await until(look)

    async def raylet(self, number: int) -> int:
        """The process id of a node's raylet."""

        async def look() -> int | None:
            return raylet_pid(self.node(number).address)

        return await until(look)

    async def gateway(self) -> int:
        """The process id of the server's gateway."""

        async def look() -> int | None:
            return gateway_pid(self.server.pid)

        return await until(look)

    async def cluster_ray(self) -> dict[str, Any]:
        """The server's status of Ray."""
        return dict((await self.client.execute(RAY))["cluster"]["ray"])

    async def until_connected(self, *, workers: int = 2) -> None:
        """Wait until this number of nodes has agents, and all of them are alive."""

        async def look() -> bool:
            told = await self.cluster_ray()
            return told["workers"] == workers and list((await self.agent_states()).values()).count("alive") == workers

        try:
            await until(look)
        except TimeoutError:
            raise AssertionError(
                f"Ray stayed {await self.cluster_ray()}, the agents {await self.agent_states()}\n"
                + "\n".join(f"{node.name}: {node.log()}" for node in (self.ray.head_node, *self.ray.nodes))
            ) from None

    async def agent_states(self) -> dict[str, str]:
        edges = (await self.client.execute(AGENTS))["agents"]["edges"]
        found = {edge["node"]["id"]: edge["node"]["state"] for edge in edges}
        for agent_id, state in found.items():
            seen = self.states.setdefault(agent_id, [])
            if seen[-1:] != [state]:
                seen.append(state)
        return found

    async def until_agent(self, number: int, state: str) -> None:
        """Wait until the server sees this state."""

        async def look() -> bool:
            return (await self.agent_states()).get(f"demo-{number}") == state

        try:
            await until(look)
        except TimeoutError:
            raise AssertionError(f"the agents went through {self.states}") from None

    async def job(self, name: str, *, code: int = 7) -> tuple[str, int]:
        """Start a job that logs its start, and exits with the code on request; its id, and its node's number."""
        mark, go = self._marks / name, self._marks / f"{name}.go"
        script = f"echo run >> {mark}; while [ ! -e {go} ]; do sleep 0.05; done; exit {code}"
        session_id = await submit(self.client, script, {"cuda.device": "1"})
        found = await until_state(self.client, session_id, "running")
        return session_id, int(found["kernels"][0]["agent_id"].removeprefix("demo-"))

    def end_job(self, name: str) -> None:
        (self._marks / f"{name}.go").touch()

    def runs(self, name: str) -> int:
        """How often the job was started."""
        return len((self._marks / name).read_text().splitlines())

    async def ended(self, session_id: str) -> dict[str, Any]:
        return await until_state(self.client, session_id, "completed", "failed", "canceled")

    @property
    def _marks(self) -> Path:
        return self.ray.folder / "marks"


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    async with OwnRay(environment=QUICK_RAY) as ray:
        for number in (1, 2):
            data = ray.folder / f"data-{number}"
            await ray.add_node(f"node-{number}", "--demo-node", str(number), "--data-folder", str(data))
        async with OwnServer(*ray.server_options, environment=QUICK_SERVER) as server, server.client() as client:
            (ray.folder / "marks").mkdir()
            (ray.folder / "marks").chmod(0o777)
            on = Stage(ray=ray, server=server, client=client)
            await on.until_connected()
            yield on


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process."""
    os.kill(pid, number)
