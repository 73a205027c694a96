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
from simulation_http import HttpDoor
from simulation_loop import Process
from simulation_network import Network
from simulation_place import Place

ENDED_KEPT = 8
"""Few, so that ended sessions are also read from the database."""
GRACE_MS = 2000


class Server(ABC):
    """One life of a server process, from its start to its end."""

    def __init__(self, place: Place) -> None:
        life = place.next_life()
        self.process = Process(f"server-{life}", place.loop)
        self.cases: UseCases | None = None
        """None until it is up."""
        self.network: Network | None = None
        """Of the current term."""
        self.clock = SystemClock(
            wall_ns=lambda: place.wall.now_us() * 1000, monotonic_ns=lambda: round(place.loop.time() * 1e9)
        )
        self.ids = SeededIds(place.chance.stream(f"ids {life}"), first=life)
        self._place = place

    @cached_property
    def http(self) -> HttpDoor:
        """Once it is up."""
        assert self.cases is not None
        return HttpDoor(self.cases)

    @property
    def is_up(self) -> bool:
        return self.cases is not None and self.process.is_alive and not self.process.is_frozen

    @abstractmethod
    async def run(self) -> None:
        """Run."""

    def check_clock(self, loaded: LoadedRows) -> None:
        """If the clock is right, the operator confirms it."""
        if self._place.wall.is_years_off:
            check_clock(loaded.last_at_us, wall_us=self.clock.wall_us())

    def store(self) -> DatabaseStore:
        database = ProcessDatabase(self._place.disk, self.process, self._place.loop)
        return DatabaseStore(database, now_us=self.clock.now_us, ended_limit=ENDED_KEPT)

    def watch_decisions(self, recording: PassRecorder) -> None:
        """Report each pass that places something, between its decision and its commit."""
        note = recording.watch.ends

        def tell(plan: Plan, **more: Any) -> None:
            note(plan, **more)
            if plan.placements:
                self._place.on_decided(self.process)

        recording.watch.ends = tell

    def new_network(self, epoch: int) -> Network:
        place = self._place
        self.network = Network(place.machines, process=self.process, weather=place.weather, epoch=epoch)
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
        await orchestrator.forget_agents(frozenset(AgentId(name) for name in self._place.machines))
        loops = asyncio.create_task(orchestrator.run())
        await network.start()
        self.cases = orchestrator
        await loops
