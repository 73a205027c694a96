"""A server without agents of its own, remote agents, and jobs that end on request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until, until_state

QUICK: Final = {"ALIQUOT_AGENT_BEAT_S": "0.4", "ALIQUOT_AGENT_LOST_S": "4"}
"""Suspect after 1.2 s, lost after 4 s."""
AGENTS: Final = """
query { agents(first: 100, filter: { states: [alive, suspect, lost, left] }) { edges { node { id state } } } }
"""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The parts of one test."""

    server: OwnServer
    client: Client
    agents: list[OwnAgent] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    """States of the agent during `until_agent`, each once."""

    async def agent(self, agent_id: str = "demo-1", *, url: str | None = None) -> OwnAgent:
        """Start an agent with eight mock GPUs."""
        agent = OwnAgent(self.server, agent_id, "--demo-node", "1", url=url)
        self.agents.append(agent)
        await agent.start()
        return agent

    async def agent_states(self) -> dict[str, str]:
        edges = (await self.client.execute(AGENTS))["agents"]["edges"]
        return {edge["node"]["id"]: edge["node"]["state"] for edge in edges}

    async def until_agent(self, state: str, agent_id: str = "demo-1") -> None:
        """Wait until the server sees this state."""

        async def look() -> bool:
            now = (await self.agent_states()).get(agent_id, "unknown")
            if self.states[-1:] != [now]:
                self.states.append(now)
            return now == state

        await until(look)

    async def job(self, name: str, *, code: int = 7) -> str:
        """Start a job that logs its start, and exits with the code on request."""
        script = f"echo run >> {self._marks}/{name}; while [ ! -e {self._go(name)} ]; do sleep 0.05; done; exit {code}"
        session_id = await submit(self.client, script, {"cuda.device": "1"})
        await until_state(self.client, session_id, "running")
        return session_id

    def end_job(self, name: str) -> None:
        self._go(name).touch()

    def runs(self, name: str) -> int:
        """How often the job was started."""
        return len((self._marks / name).read_text().splitlines())

    async def ended(self, session_id: str) -> dict[str, Any]:
        return await until_state(self.client, session_id, "completed", "failed", "canceled")

    async def until_log(self, agent: OwnAgent, text: str, *, after: int = 0) -> str:
        """Wait until an agent printed a text, and return its output.

        Args:
            after: characters that it had printed before, which do not count.
        """

        async def look() -> str | None:
            said = agent.log()[after:]
            return said if text in said else None

        try:
            return await until(look)
        except TimeoutError:
            raise AssertionError(f"it never said {text!r}:\n{agent.log()}") from None

    @property
    def _marks(self) -> Path:
        return self.server.folder / "marks"

    def _go(self, name: str) -> Path:
        return self._marks / f"{name}.go"


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    async with OwnServer("--no-local-agents", environment=QUICK) as server, server.client() as client:
        on = Cluster(server=server, client=client)
        on._marks.mkdir()
        on._marks.chmod(0o777)
        try:
            yield on
        finally:
            await asyncio.gather(*(agent.stop() for agent in on.agents))
