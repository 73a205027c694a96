"""Clients that submit continuously, at any server that answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import ClientFailure
from failover_cluster import FailoverCluster

ANSWERED_S_MAX: Final = 120
LOOK_S: Final = 0.05
LISTED: Final = (
    "query ($after: String) { sessions(first: 100, after: $after) { edges { cursor node { id name state } } } }"
)


class SubmittingClients:
    """Each client submits its sessions with its own keys, until they are acknowledged."""

    def __init__(self, on: FailoverCluster, *, then: str, ahead: int | None) -> None:
        """See `submitting_clients`."""
        self._on = on
        self._then = then
        self._ahead = ahead
        self.acknowledged: dict[str, str] = {}
        """Session ids by key."""
        self._news = asyncio.Event()

    async def submit_until_cancelled(self, client: int) -> None:
        for count in range(10**6):
            await self._until_not_ahead()
            key = f"{client}-{count}"
            shell = f"echo run >> {self._on.mark(key)}; {self._then}"
            self.acknowledged[key] = await self._on.submit(shell, key=key, first=client)
            self._news.set()

    async def wait_for_more(self, count: int) -> None:
        """Wait until this many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(ANSWERED_S_MAX):
            while len(self.acknowledged) < wanted:
                self._news.clear()
                await self._news.wait()

    async def check(self) -> None:
        """Everything acknowledged exists once, and runs to its end once."""
        assert len(set(self.acknowledged.values())) == len(self.acknowledged)
        for key, session_id in self.acknowledged.items():
            ended = await self._on.ended(session_id)
            assert (ended["exit_code"], self._on.runs(key)) == (0, 1), (key, ended)
        for server in self._on.servers:
            assert set(self.acknowledged.values()) <= set(await self._sessions(server))

    async def _sessions(self, server: OwnServer) -> list[str]:
        """The ids of all sessions at a server."""
        found: list[str] = []
        after = None
        while True:
            with suppress(ClientFailure):
                edges = (await self._on.client(server).execute(LISTED, {"after": after}))["sessions"]["edges"]
                found += [edge["node"]["id"] for edge in edges]
                if len(edges) < 100:
                    return found
                after = edges[-1]["cursor"]

    async def _until_not_ahead(self) -> None:
        if self._ahead is not None:
            while len(self.acknowledged) - self._on.started() >= self._ahead:  # noqa: ASYNC110  # jobs write files
                await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def submitting_clients(
    on: FailoverCluster, *, clients: int, then: str = "true", ahead: int | None = None
) -> AsyncIterator[SubmittingClients]:
    """Clients that submit until the end of the block; none may stop earlier.

    Args:
        then: the job's action after recording its start.
        ahead: maximum of acknowledged sessions that have not started; None = no limit.
    """
    submitters = SubmittingClients(on, then=then, ahead=ahead)
    tasks = [asyncio.create_task(submitters.submit_until_cancelled(client)) for client in range(clients)]
    try:
        yield submitters
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [end for end in ends if not isinstance(end, asyncio.CancelledError)] == []
