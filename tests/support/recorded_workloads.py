"""Recorded courses: people use a cluster of the real service, step by step, and every pass is in the ledger."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aliquot.service.ledger.recorder import PassRecorder, recording_of
from aliquot.service.scheduling.allocator import Allocator
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import KernelId, UserId
from aliquot_schema.requests import Caller, NewSession, Role
from service_bench import agent
from service_stage import EPOCH, Stage, stage
from store_places import Place

USERS = ("ann", "bob", "cat", "dan")
ROOT = Caller(user=UserId("root"), request_id="req_root", role=Role.OPERATOR)


@dataclass(kw_only=True)
class RecordedCluster:
    """The service with a ledger; time passes only between two steps."""

    on: Stage
    recorder: PassRecorder
    draw: random.Random
    wake_us: int | None = None
    given: dict[str, object] = field(default_factory=dict)
    """What every session asks for."""

    async def settle(self) -> None:
        """Passes and what agents say, until there is nothing more to do."""
        while True:
            before = self.on.state.revision
            _, self.wake_us = await self.on.allocator.run_once()
            await self.on.settle()
            if self.on.state.revision == before:
                break
        await self.recorder.flush()

    async def advance(self, seconds: float) -> None:
        """Time passes, with the passes that are due in it."""
        until_us = self.on.clock.now_us() + round(seconds * 1e6)
        while self.wake_us is not None and self.wake_us <= until_us:
            self.on.clock.advance(max(self.wake_us - self.on.clock.now_us(), 0) / 1e6)
            await self.settle()
            if self.wake_us is not None and self.wake_us <= self.on.clock.now_us():
                break
        self.on.clock.advance(max(until_us - self.on.clock.now_us(), 0) / 1e6)

    async def submit(self, user: str | None = None, **more: object) -> str:
        """Somebody submits a session."""
        draw = self.draw
        given = {
            "argv": ("python", f"{draw.choice('abc')}.py"),
            "shell": None,
            "slots": [draw.choice((("cuda.device", "1"), ("cuda.device", "2"), ("cuda.shares", "0.3")))],
            "cluster_size": draw.choice((1, 1, 1, 2)),
            "priority": draw.choice(("low", "normal", "normal", "high")),
            "time_limit": draw.choice((None, 3600.0)),
        }
        caller = Caller(user=UserId(user or draw.choice(USERS)), request_id="req_x", role=Role.OPERATOR)
        changed = await self.on.sessions.create_session(caller, NewSession(**(given | self.given | more)))  # type: ignore[arg-type]
        return changed.session.id

    async def end(self) -> None:
        """Some kernel ends, well or badly."""
        running = [name for one in self.on.executor.agents.values() for name in sorted(one.running)]
        if running:
            self.on.executor.end_kernel(KernelId(self.draw.choice(running)), code=self.draw.choice((0, 0, 0, 1)))
            await self.on.settle()

    async def cancel(self) -> None:
        """Somebody cancels a session."""
        alive = [session.id for session in self.on.state.sessions.values() if not session.is_ended]
        if alive:
            await self.on.cancel(self.draw.choice(alive))

    async def run(self, steps: int) -> None:
        """People use the cluster."""
        acts = (self.submit, self.end, self.cancel)
        for _ in range(steps):
            await self.advance(self.draw.choice((1, 20, 300)))
            try:
                await self.draw.choices(acts, weights=(8, 9, 1))[0]()
            except AliquotError:
                continue
            await self.settle()


@asynccontextmanager
async def recorded_cluster(place: Place, *, seed: int = 1) -> AsyncIterator[tuple[RecordedCluster, DatabaseStore]]:
    """Three agents of 4 GPUs."""
    store = place.store()
    assert isinstance(store, DatabaseStore)
    await store.open()
    async with stage([agent(name, devices=4) for name in ("a", "b", "c")], store=store) as on:
        recorder = recording_of(on.state, EPOCH, store.ledger, on.clock)
        on.journal.subscribe(recorder.watch.on_event)
        on.allocator.close()
        on.allocator = Allocator(
            state=on.state,
            journal=on.journal,
            clock=on.clock,
            last_pass=0,
            last_at_us=0,
            launch=on.dispatch.launch,
            watcher=recorder.watch,
        )
        yield RecordedCluster(on=on, recorder=recorder, draw=random.Random(seed)), store
        await recorder.close()
    await store.close()
