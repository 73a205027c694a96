"""The whole service over a real SQLite store and a fake executor, for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aliquot.clock import RandomIds, SystemClock
from aliquot.service.state.state import ENDED_KEPT, State
from aliquot.service.use_cases import ServiceParts
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId, SessionId, SlotName, UserId
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.resources.devices import Device
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from lone_service import Orchestrator, Ports, load_state
from service_fakes import FakeAgent, FakeExecutor
from service_stage import broken

WAIT_S = 20.0
CALLER = Caller(user=UserId("ann"), request_id="req_test", role=Role.ADMIN)


@dataclass
class Bench:
    """A running service."""

    service: Orchestrator
    executor: FakeExecutor
    running: asyncio.Task[None]

    @property
    def state(self) -> State:
        return self.service.state

    async def submit(self, *, shares: str | None = None, devices: int | None = None, **more: object) -> SessionId:
        """Create a session of `shares` or `devices` per kernel."""
        slot = ("cuda.shares", shares) if shares is not None else ("cuda.device", str(devices))
        request = NewSession(argv=("true",), shell=None, slots=[slot], **more)  # type: ignore[arg-type]  # by name
        return SessionId((await self.service.sessions.create_session(CALLER, request)).session.id)

    def session(self, session_id: SessionId) -> Session:
        return self.state.sessions[session_id]

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait for a condition on the state."""
        async with asyncio.timeout(WAIT_S):
            while not fact():
                assert not self.running.done(), self.running.exception()
                await asyncio.sleep(0.005)

    async def until_state(self, session_id: SessionId, state: SessionState) -> Session:
        await self.until(lambda: self.session(session_id).state is state)
        return self.session(session_id)


database_url = ""
"""A bench's database; empty = SQLite in its folder."""


@asynccontextmanager
async def service_on(
    folder: Path,
    executor: FakeExecutor,
    *,
    ended_kept: int = ENDED_KEPT,
    parts: Callable[[DatabaseStore], ServiceParts] = lambda store: ServiceParts(),
) -> AsyncIterator[Bench]:
    """Run the service over the database in a folder. Any inconsistency of its state fails the test."""
    clock = SystemClock()
    store = open_store(database_url, data_folder=folder, now_us=clock.now_us)
    state, loaded = await load_state(store, ended_kept=ended_kept)
    ports = Ports(store=store, executor=executor, clock=clock, ids=RandomIds(), parts=parts(store))
    service = Orchestrator(ports, state=state, loaded=loaded, grace_ms=1000)
    wrong = _watched(service)
    running = asyncio.create_task(service.run())
    try:
        await executor.start()
        yield Bench(service=service, executor=executor, running=running)
        assert not running.done(), running.exception()
        assert wrong == []
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await service.close()
        await store.close()


def _watched(service: Orchestrator) -> list[str]:
    """Faults found after any commit; a commit's events are all in the state before the loop runs on."""
    wrong: list[str] = []
    loop = asyncio.get_running_loop()

    def look(event: Event) -> None:
        loop.call_soon(lambda: wrong.extend(broken(service.state)))

    service.journal.subscribe(look)
    return wrong


def gpus(count: int, *, agent: str = "a") -> tuple[Device, ...]:
    """Whole GPUs of capacity 1."""
    return tuple(
        Device(
            id=DeviceId(f"{agent}-gpu-{index}"),
            name=f"cuda{index}",
            kind="cuda",
            model="H100",
            budget=1000,
            costs={SlotName("cuda.device"): 1000, SlotName("cuda.shares"): 1},
            quanta={SlotName("cuda.shares"): 10},
            memory_bytes=80 * 10**9,
        )
        for index in range(count)
    )


def agent(name: str, *, devices: int, node: str = "") -> FakeAgent:
    """A fake agent with a number of GPUs; agents of one node see the same ones."""
    return FakeAgent(id=AgentId(name), devices=gpus(devices, agent=node or name), node=node)
