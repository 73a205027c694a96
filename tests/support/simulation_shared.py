"""Servers of a run that share a database, as `composition.shared` builds them: a leader and followers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aliquot.service.leadership.election import LeaderElection
from aliquot.service.leadership.leader import LeaderTerm
from aliquot.service.leadership.ports import LeadershipLost, TermStart
from aliquot.service.ports import StoreUnavailable
from aliquot.service.use_cases import UseCases, state_of
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.ids import AgentId, KernelId
from simulation_environment import Environment, LeaderLock
from simulation_server import ENDED_KEPT, GRACE_MS, Server

PING_S: Final = 2.0
LOOKS_MAX: Final = 5
IDLE_S_MAX: Final = 8.0
"""The lock is released after this time without a ping."""


class SimulatedElection:
    """A session lock of the database, on its own connection that ends without pings."""

    def __init__(self, server: Server, environment: Environment) -> None:
        self._me = server.process.name
        self._server = server
        self._environment = environment

    async def take(self) -> bool:
        lock = self._lock()
        if lock.holder is not None and self._environment.loop.time() - lock.pinged_s <= IDLE_S_MAX:
            return False
        lock.holder, lock.pinged_s = self._me, self._environment.loop.time()
        return True

    async def holder(self) -> str | None:
        return self._lock().holder

    async def hold(self) -> None:
        while True:
            await self._server.clock.sleep(PING_S)
            if self._environment.leader_lock.holder != self._me or self._environment.disk.is_away:
                raise LeadershipLost("the connection ended")
            self._environment.leader_lock.pinged_s = self._environment.loop.time()

    async def leave(self) -> None:
        if self._server.process.is_alive and self._environment.leader_lock.holder == self._me:
            self._environment.leader_lock.holder = None

    def _lock(self) -> LeaderLock:
        if self._environment.disk.is_away or not self._server.process.is_alive:
            raise StoreUnavailable("the database is away")
        return self._environment.leader_lock


class SlowNotifications:
    """Without notifications: polls the log, mostly when it has grown."""

    def __init__(self, server: Server, environment: Environment) -> None:
        self._server = server
        self._environment = environment
        self._random = environment.random_streams.stream(f"news of {server.process.name}")

    async def wait(self, *, seconds: float) -> None:
        for _ in range(LOOKS_MAX):
            await self._server.clock.sleep(seconds * (0.25 + 1.5 * self._random.random()))
            cases = self._server.cases
            if cases is None or self._environment.model.revision > cases.state.revision:
                return

    async def close(self) -> None:
        return None


class NoOutputs:
    """Outputs are discarded."""

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        yield LogChunk(offset=offset, data=b"", at_end=True)


class SharedServer(Server):
    """One of several."""

    async def run(self) -> None:
        """Run until killed; ends by itself if the database cannot be opened."""
        store = self.store()
        self._ledger = store.ledger
        try:
            loaded = await store.join()
            self.check_clock(loaded)
            state = await state_of(loaded, store=store, ended_kept=ENDED_KEPT)
        except StoreUnavailable:
            return
        self.clock.not_before(loaded.last_at_us)
        cases = UseCases(store=store, clock=self.clock, ids=self.ids, outputs=NoOutputs(), state=state, is_shared=True)
        cases.journal.subscribe(lambda event: self.clock.not_before(event.at_us))
        duty = LeaderElection(
            cases,
            store=store,
            seat=SimulatedElection(self, self._environment),
            news=SlowNotifications(self, self._environment),
            open_term=self._open_term,
            address=self.process.name,
        )
        self.cases = cases
        await duty.run()

    @asynccontextmanager
    async def _open_term(self, beginning: TermStart) -> AsyncIterator[LeaderTerm]:
        assert self.cases is not None
        self.clock.not_before(beginning.last_at_us)
        network = self.new_network(beginning.epoch)
        term = LeaderTerm(self.cases, executor=network, ledger=self._ledger, beginning=beginning, grace_ms=GRACE_MS)
        self.watch_decisions(term.recording)
        try:
            await network.start()
            await term.forget_agents(frozenset(AgentId(name) for name in self._environment.machines))
            yield term
        finally:
            await network.close()
            await term.close()
