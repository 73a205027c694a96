"""Several servers of one PostgreSQL database in one process, with fake agents that dial the leader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from aliquot.clock import RandomIds, SystemClock
from aliquot.service.leadership.election import LeaderElection
from aliquot.service.leadership.leader import LeaderTerm
from aliquot.service.leadership.ports import ServerRole, TermStart
from aliquot.service.use_cases import ServiceParts, UseCases, state_of
from aliquot.store.open import ServerDatabase, share
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from service_fakes import FakeAgent, FakeExecutor
from service_stage import broken

WAIT_S = 30.0
CALLER = Caller(user=UserId("ann"), request_id="req_test", role=Role.ADMIN)


@dataclass
class OneServer:
    """One of them."""

    address: str
    cases: UseCases
    duty: LeaderElection
    database: ServerDatabase
    running: asyncio.Task[None]
    executors: list[FakeExecutor]
    """One for each term, the newest last."""
    wrong: list[str] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return self.duty.standing.role is ServerRole.LEADER

    async def submit(self, *, devices: int = 1, **more: object) -> SessionId:
        """Create a session of whole devices."""
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", str(devices))], **more)  # type: ignore[arg-type]  # by name
        return SessionId((await self.cases.sessions.create_session(CALLER, request)).session.id)

    def session(self, session_id: SessionId) -> Session:
        return self.cases.state.sessions[session_id]

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait for a condition on this server's state."""
        async with asyncio.timeout(WAIT_S):
            while not fact():
                assert not self.running.done(), self.running.exception()
                await asyncio.sleep(0.005)

    async def until_state(self, session_id: SessionId, state: SessionState) -> None:
        """Wait until this server sees a session in a state."""
        known = self.cases.state.sessions
        await self.until(lambda: session_id in known and known[session_id].state is state)

    async def stop(self) -> None:
        """Stop its background work, like a server that is shutting down; it still answers queries."""
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


class Servers:
    """Starts and stops them."""

    def __init__(
        self, url: str, agents: list[FakeAgent], stack: AsyncExitStack, *, parts: Callable[[int], ServiceParts]
    ) -> None:
        self._url = url
        self._agents = agents
        self._stack = stack
        self._parts = parts
        self.all: list[OneServer] = []

    async def start(self) -> OneServer:
        """Start one more."""
        address = f"http://server-{len(self.all) + 1}:8090"
        server = await self._stack.enter_async_context(self._server(address))
        self.all.append(server)
        return server

    async def leader(self) -> OneServer:
        """The leading server, once one leads."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = [server for server in self.all if server.leads and not server.running.done()]
                if found:
                    return found[0]
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def _server(self, address: str) -> AsyncIterator[OneServer]:
        clock = SystemClock()
        database = share(self._url, now_us=clock.now_us, address=address)
        loaded = await database.store.join()
        state = await state_of(loaded, store=database.store)
        executors: list[FakeExecutor] = []
        cases = UseCases(
            store=database.store,
            clock=clock,
            ids=RandomIds(),
            outputs=FakeExecutor(()),
            state=state,
            is_shared=True,
            parts=self._parts(len(self.all)),
        )

        @asynccontextmanager
        async def open_term(beginning: TermStart) -> AsyncIterator[LeaderTerm]:
            executor = FakeExecutor(self._agents)
            executors.append(executor)
            term = LeaderTerm(cases, executor=executor, ledger=None, beginning=beginning, grace_ms=100)
            await executor.start()
            try:
                yield term
            finally:
                await term.close()

        duty = LeaderElection(
            cases,
            store=database.store,
            seat=database.lock,
            news=database.notifications,
            open_term=open_term,
            address=address,
            relay=database.relay,
        )
        running = asyncio.create_task(duty.run())
        server = OneServer(address, cases, duty, database, running, executors)
        _watch(server)
        try:
            yield server
            assert server.wrong == []
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await database.store.close()


def _watch(server: OneServer) -> None:
    """Any inconsistency of the state after a commit fails the test."""
    loop = asyncio.get_running_loop()
    server.cases.journal.subscribe(
        settled=lambda: loop.call_soon(lambda: server.wrong.extend(broken(server.cases.state))) and None
    )


@asynccontextmanager
async def servers_on(
    url: str,
    agents: list[FakeAgent],
    *,
    count: int = 2,
    parts: Callable[[int], ServiceParts] = lambda number: ServiceParts(),
) -> AsyncIterator[Servers]:
    """Servers on a database; the first one leads.

    Args:
        parts: a server's, by its number from 0.
    """
    async with AsyncExitStack() as stack:
        servers = Servers(url, agents, stack, parts=parts)
        for _ in range(count):
            await servers.start()
            await servers.leader()
        yield servers
