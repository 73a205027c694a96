"""Real servers on one PostgreSQL database, remote agents that dial all of them, and jobs that record each start."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client, GraphQLFault, Refused, ServerUnreachable
from e2e_sessions import session, submit, until

QUICK: Final = {"ALIQUOT_AGENT_BEAT_S": "0.4"}
"""A lost connection is noticed in two seconds."""
ACKNOWLEDGE_S_MAX: Final = 60.0
PAUSE_S: Final = 0.1
STANDING: Final = (
    "{ orchestrator { role address leader_address epoch } agents(first: 9) { edges { node { id state } } } }"
)

MEASURED: Final = "{ agents(first: 9) { edges { node { devices { kind utilization_pct } } } } }"


@dataclass(slots=True, kw_only=True)
class FailoverCluster:
    """The cluster of a test. Its servers share token and keys through the data folder."""

    servers: list[OwnServer]
    agents: list[OwnAgent] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    """By the server's address."""

    def client(self, server: OwnServer) -> Client:
        return self.clients[server.url]

    async def standing(self, server: OwnServer) -> dict[str, Any] | None:
        """A server's view of the leader; None if it is unreachable."""
        with suppress(ServerUnreachable, GraphQLFault):
            answer = await self.client(server).execute(STANDING)
            agents = {edge["node"]["id"]: edge["node"]["state"] for edge in answer["agents"]["edges"]}
            return {**answer["orchestrator"], "agents": agents}
        return None

    async def leader(self, *, among: list[OwnServer] | None = None) -> OwnServer:
        """The leading server, once one of these leads."""

        async def look() -> OwnServer | None:
            for server in among or self.servers:
                standing = await self.standing(server)
                if standing is not None and standing["role"] == "leader":
                    return server
            return None

        return await until(look)

    async def wait_for_standing(self, server: OwnServer, **expected: object) -> None:
        """Wait for a server's own standing."""

        async def look() -> bool:
            standing = await self.standing(server)
            return standing is not None and {name: standing[name] for name in expected} == expected

        await until(look)

    async def wait_for_agents(self, server: OwnServer) -> None:
        """Wait until a server sees all agents alive."""
        await self.wait_for_standing(server, agents={agent.id: "alive" for agent in self.agents})

    async def wait_for_measurements(self, server: OwnServer) -> None:
        """Wait until a server shows the load of each GPU of each agent."""

        async def look() -> bool:
            edges = (await self.client(server).execute(MEASURED))["agents"]["edges"]
            gpus = [device for edge in edges for device in edge["node"]["devices"] if device["kind"] == "cuda"]
            return bool(gpus) and all(gpu["utilization_pct"] is not None for gpu in gpus)

        await until(look)

    async def submit(self, shell: str, *, key: str, first: int = 0) -> str:
        """Submit a session of one GPU as a persistent client does: the same key, at one server after another,
        until it is acknowledged. Returns its id."""

        async def ask(client: Client) -> str:
            return await submit(client, shell, {"cuda.device": "1"}, idempotency_key=key)

        return await self.retried(ask, first=first)

    async def retried(self, ask: Callable[[Client], Awaitable[Any]], *, first: int = 0) -> Any:
        """Ask one server after another until one answers."""
        async with asyncio.timeout(ACKNOWLEDGE_S_MAX):
            turn = first
            while True:
                try:
                    return await ask(self.client(self.servers[turn % len(self.servers)]))
                except (ServerUnreachable, GraphQLFault, Refused) as error:
                    if isinstance(error, Refused) and error.code != "unavailable":
                        raise
                turn += 1
                await asyncio.sleep(PAUSE_S)

    async def job(self, name: str, *, code: int) -> str:
        """Start a job that records its start, and ends with the code once allowed."""
        script = f"echo run >> {self.mark(name)}; while [ ! -e {self.mark(name)}.go ]; do sleep 0.1; done; exit {code}"
        session_id = await self.submit(script, key=name)
        await self.wait_for_state(session_id, "running")
        return session_id

    def end_job(self, name: str) -> None:
        Path(f"{self.mark(name)}.go").touch()

    def runs(self, name: str) -> int:
        """How often a job was started."""
        mark = self.mark(name)
        return len(mark.read_text().splitlines()) if mark.exists() else 0

    def started(self) -> int:
        """How many jobs were started, each counted once."""
        return sum(mark.suffix != ".go" for mark in self.mark("x").parent.iterdir())

    def mark(self, name: str) -> Path:
        return self.servers[0].folder / "marks" / name

    async def wait_for_state(self, session_id: str, *states: str, at: OwnServer | None = None) -> Mapping[str, Any]:
        """Wait for a session's state, at one server or at any; a failure shows each server's last answer."""
        said: dict[str, object] = {}

        async def look() -> dict[str, Any] | None:
            for server in [at] if at is not None else self.servers:
                with suppress(ServerUnreachable, GraphQLFault, TypeError):
                    found = said[server.url] = await session(self.client(server), session_id)
                    if found["state"] in states:
                        return found
            return None

        try:
            return await until(look)
        except TimeoutError:
            standings = {server.url: await self.standing(server) for server in self.servers}
            raise AssertionError(f"not {states}: {said}; the servers: {standings}") from None

    async def ended(self, session_id: str) -> Mapping[str, Any]:
        return await self.wait_for_state(session_id, "completed", "failed", "canceled")


def pause_server(server: OwnServer) -> None:
    """Stop a server at an arbitrary point."""
    os.kill(server.pid, signal.SIGSTOP)


def resume_server(server: OwnServer) -> None:
    """Continue."""
    os.kill(server.pid, signal.SIGCONT)


@asynccontextmanager
async def failover_cluster(
    *urls: str, agents: int = 1, environment: Mapping[str, str] = QUICK, own: Sequence[Mapping[str, str]] = ()
) -> AsyncIterator[FailoverCluster]:
    """A server for each URL of the database, the first one leading, and agents of eight mock GPUs each.

    Args:
        own: variables of each server besides the environment; none = no further ones.
    """
    async with AsyncExitStack() as stack:
        servers: list[OwnServer] = []
        for url, variables in zip(urls, own or [{}] * len(urls), strict=True):
            server = OwnServer("--no-local-agents", "--database", url, environment={**environment, **variables})
            if servers:
                server.data_folder = servers[0].data_folder
            servers.append(await stack.enter_async_context(server))
        on = FailoverCluster(servers=servers)
        on.mark("x").parent.mkdir(mode=0o777)
        on.mark("x").parent.chmod(0o777)
        for server in servers:
            client = Client(server.url, servers[0].token, timeout_s=10.0)
            on.clients[server.url] = await stack.enter_async_context(client)
        others = [option for server in servers[1:] for option in ("--server", server.url)]
        for number in range(1, agents + 1):
            agent = OwnAgent(servers[0], f"demo-{number}", "--demo-node", str(number), *others)
            await agent.start()
            stack.push_async_callback(agent.stop)
            on.agents.append(agent)
        await on.wait_for_agents(servers[0])
        stack.callback(_resume_all, servers)
        yield on


def _resume_all(servers: list[OwnServer]) -> None:
    """A paused process would not react to a stop."""
    for server in servers:
        with suppress(ProcessLookupError):
            resume_server(server)
