"""Servers of a run: one alone with its database, as `composition.alone` builds it."""

import asyncio
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from aliquot.clock import SystemClock
from aliquot.core.model.plan import Plan
from aliquot.service.leadership.clock_keeper import check_clock
from aliquot.service.ledger.recorder import PassRecorder
from aliquot.service.ports import LoadedRows, StoreUnavailable
from aliquot.service.use_cases import UseCases
from aliquot.store.store import DatabaseStore
from aliquot_schema.ids import AgentId
from lone_service import Orchestrator, Ports, load_state
from simulation_clock import SeededIds
from simulation_disk import ProcessDatabase
from simulation_environment import Environment
from simulation_http import HttpClient
from simulation_loop import Process
from simulation_network import Network

ENDED_KEPT = 8
"""Few, so that ended sessions are also read from the database."""
GRACE_MS = 2000


class Server(ABC):
    """One life of a server process, from its start to its end."""

    def __init__(self, environment: Environment) -> None:
        life = environment.next_life()
        self.process = Process(f"server-{life}", environment.loop)
        self.cases: UseCases | None = None
        """None until it is up."""
        self.network: Network | None = None
        """Of the current term."""
        self.clock = SystemClock(
            wall_ns=lambda: environment.wall_clock.now_us() * 1000,
            monotonic_ns=lambda: round(environment.loop.time() * 1e9),
        )
        self.ids = SeededIds(environment.random_streams.stream(f"ids {life}"), first=life)
        self._environment = environment

    @cached_property
    def http(self) -> HttpClient:
        """Once it is up."""
        assert self.cases is not None
        return HttpClient(self.cases)

    @property
    def is_up(self) -> bool:
        return self.cases is not None and self.process.is_alive and not self.process.is_paused

    @abstractmethod
    async def run(self) -> None:
        """Run."""

    def check_clock(self, loaded: LoadedRows) -> None:
        """If the clock is right, the operator confirms it."""
        if self._environment.wall_clock.is_years_off:
            check_clock(loaded.last_at_us, wall_us=self.clock.wall_us())

    def store(self) -> DatabaseStore:
        database = ProcessDatabase(self._environment.disk, self.process, self._environment.loop)
        return DatabaseStore(database, now_us=self.clock.now_us, ended_limit=ENDED_KEPT)

    def watch_decisions(self, recording: PassRecorder) -> None:
        """Report each pass that places something, between its decision and its commit."""
        note = recording.watch.ends

        def tell(plan: Plan, **more: Any) -> None:
            note(plan, **more)
            if plan.placements:
                self._environment.on_decided(self.process)

        recording.watch.ends = tell

    def new_network(self, epoch: int) -> Network:
        environment = self._environment
        self.network = Network(
            environment.machines, process=self.process, network_faults=environment.network_faults, epoch=epoch
        )
        return self.network


class LoneServer(Server):
    """Leads from its start to its end."""

    async def run(self) -> None:
        """Run until killed; ends by itself if the database cannot be opened."""
        store = self.store()
        try:
            state, loaded = await load_state(store, ended_kept=ENDED_KEPT)
            self.check_clock(loaded)
        except StoreUnavailable:
            return
        self.clock.not_before(loaded.last_at_us)
        network = self.new_network(loaded.epoch)
        ports = Ports(store=store, executor=network, clock=self.clock, ids=self.ids, ledger=store.ledger)
        orchestrator = Orchestrator(ports, state=state, loaded=loaded, grace_ms=GRACE_MS)
        self.watch_decisions(orchestrator.recording)
        await orchestrator.forget_agents(frozenset(AgentId(name) for name in self._environment.machines))
        loops = asyncio.create_task(orchestrator.run())
        await network.start()
        self.cases = orchestrator
        await loops
