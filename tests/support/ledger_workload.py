"""A busy cluster: the real service over a real store, fake agents, and random user actions from a seed."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aliquot.clock import RandomIds, SystemClock
from aliquot.service.admin.admin import OperatorSources
from aliquot.service.retention import RetentionPlan
from aliquot.service.use_cases import ServiceParts
from aliquot.store.audit.holdings import follow_all
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.policies import PreemptScope
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, NewFallback, NewSession, Role
from aliquot_schema.views.admin import NewQuota
from lone_service import Orchestrator, Ports, load_state
from service_bench import agent
from service_fakes import FakeExecutor
from store_places import Place

WAIT_S = 800.0
PENDING_MAX = 30
USERS = ("ann", "bob", "cat", "dan")
OPERATOR = Caller(user=UserId("root"), request_id="req_root", role=Role.OPERATOR)


class LeapingClock(SystemClock):
    """Real time, plus any time that a test adds; the wall clock can be set."""

    def __init__(self) -> None:
        self._ahead_ns = self._set_ns = self._waited_ns = 0
        super().__init__(
            wall_ns=lambda: time.time_ns() + self._ahead_ns + self._set_ns,
            monotonic_ns=lambda: time.monotonic_ns() + self._ahead_ns,
        )

    def monotonic(self) -> float:
        return (time.monotonic_ns() + self._waited_ns) / 1e9

    def advance(self, seconds: float) -> None:
        self._ahead_ns += round(seconds * 1e9)

    def set_wall_clock(self, seconds: float) -> None:
        """The machine's clock is set, and stays so for longer than the keeper waits."""
        self._set_ns += round(seconds * 1e9)

    def advance_monotonic(self, seconds: float) -> None:
        """Advance the time that loops measure."""
        self._waited_ns += round(seconds * 1e9)


class RandomWorkload:
    """A random workload: submissions, ends, and operators' changes, one per step."""

    def __init__(self, service: Orchestrator, executor: FakeExecutor, clock: LeapingClock, *, seed: int) -> None:
        self.service = service
        self.executor = executor
        self.clock = clock
        self.draw = random.Random(seed)
        self.refused = 0

    async def run_until_entries(self, ledger: DatabaseLedger, count: int) -> None:
        """Continue until the ledger has a number of entries."""
        async with asyncio.timeout(WAIT_S):
            while len(await ledger.last(count)) < count:
                for _ in range(50):
                    await self.step()

    async def run_until_events(self, store: DatabaseStore, kinds: set[str]) -> None:
        """Go on until each kind has had an event."""
        after = 0
        async with asyncio.timeout(WAIT_S):
            while kinds:
                events = await store.events_after(after, limit=10_000)
                kinds = kinds - {event.kind for event in events}
                after = events[-1].number if events else after
                for _ in range(50):
                    await self.step()

    async def step(self) -> None:
        """A random action."""
        self.clock.advance(self.draw.choice((0, 1, 20, 300)))
        acts = (self.submit, self.submit, self.end, self.end, self.end, self.change_cluster, self.change_rules)
        try:
            await self.draw.choices(acts, weights=(4, 4, 4, 4, 2, 1, 3))[0]()
        except AliquotError:
            self.refused += 1
        await asyncio.sleep(0)

    async def submit(self) -> None:
        draw = self.draw
        if len(self.service.state.pending) >= PENDING_MAX:
            return
        if "project:vision" not in self.service.state.quotas:
            created = NewQuota(scope=QuotaScope.PROJECT, name="vision")
            await self.service.administration.quotas.set_quota(OPERATOR, created, None)
        slot = draw.choice((("cuda.device", "1"), ("cuda.device", "2"), ("cuda.shares", "0.3"), ("cuda.shares", "1.5")))
        known = list(self.service.state.sessions)
        await self.service.sessions.create_session(
            Caller(user=UserId(draw.choice(USERS)), request_id="req_x", role=Role.OPERATOR),
            NewSession(
                argv=("python", f"{draw.choice('abc')}.py"),
                shell=None,
                slots=[slot],
                cluster_size=(size := draw.choice((1, 1, 1, 2, 4))),
                cluster_size_min=draw.choice((None, None, 1, max(size - 1, 1))),
                priority=draw.choice(("low", "normal", "normal", "high", "critical")),
                time_limit=draw.choice((None, 60.0, 3600.0)),
                estimated_duration=draw.choice((None, None, 30.0)),
                preemptible=draw.random() < 0.5,
                array=draw.choice((None, None, None, "0-5")),
                max_parallel=None,
                held=draw.random() < 0.05,
                project=draw.choice((None, "vision")),
                labels=draw.choice(((), (), (("zone", "north"),))),
                fallbacks=_fallbacks(draw),
                environment=[("TOKEN", "hunter2")],
                depends_on=[(draw.choice(known), "after_any")] if known and draw.random() < 0.1 else (),
            ),
        )

    async def end(self) -> None:
        """Some kernel ends, with or without an error; stopped ones end first."""
        running = [kernel for one in self.executor.agents.values() for kernel in sorted(one.running)]
        stopped = [kernel for one in self.executor.agents.values() for kernel in one.stopped if kernel in one.running]
        if stopped or running:
            self.executor.end_kernel(
                KernelId(self.draw.choice(stopped or running)), code=self.draw.choice((0, 0, 0, 1))
            )

    async def change_cluster(self) -> None:
        name = self.draw.choice(list(self.executor.agents))
        admin = self.service.administration
        match self.draw.randrange(6):
            case 0:
                await admin.agents.drain_agent(OPERATOR, name, note=None, evicts=self.draw.random() < 0.5)
            case 1 | 2:
                await admin.agents.resume_agent(OPERATOR, name)
            case 3:
                await admin.agents.label_agent(OPERATOR, name, self.draw.choice(((), (("zone", "north"),))))
            case 4:
                self.executor.disconnect_agent(AgentId(name))
            case 5:
                self.executor.reconnect_agent(AgentId(name))

    async def change_rules(self) -> None:
        draw, admin = self.draw, self.service.administration
        match draw.randrange(4):
            case 0:
                order = draw.choice(("fair_share", "fair_share", "priority", "sjf", "fcfs"))
                preemption = {
                    "preempt": draw.choice((PreemptScope.ANY, PreemptScope.PREEMPTIBLE)),
                    "run_ms_min": 0,
                    "grace_ms": 50,
                }
                await admin.policy.update_policy(OPERATOR, {"order": order, "preemption": preemption}, None)
            case 1:
                quota = NewQuota(
                    scope=QuotaScope.USER,
                    name=draw.choice(USERS),
                    max_slots=[("cuda.shares", draw.choice(("2", "6")))],
                    own_slots=[("cuda.shares", "1")],
                )
                await admin.quotas.set_quota(OPERATOR, quota, None)
            case 2:
                await admin.quotas.remove_quota(OPERATOR, QuotaScope.USER, draw.choice(USERS), None)
            case 3:
                pending = [session.id for session in self.service.state.sessions.values() if not session.is_ended]
                if pending:
                    await self.service.sessions.cancel_session(OPERATOR, draw.choice(pending), None)


@asynccontextmanager
async def workload_on(
    place: Place,
    *,
    seed: int = 1,
    retention: Callable[[DatabaseStore], RetentionPlan] | None = None,
    keeps_time: bool = False,
) -> AsyncIterator[tuple[RandomWorkload, DatabaseStore]]:
    """The service over a database, with three agents of 4 GPUs; everything is saved when it ends.

    Args:
        keeps_time: its clock goes on from the newest event or pass; otherwise from now, which is a correction of the
            clock if an earlier course let time pass.
    """
    clock = LeapingClock()
    store = open_store(place.url, data_folder=place.folder, now_us=clock.now_us)
    state, loaded = await load_state(store)
    if keeps_time:
        newest = [key.number for key in await store.ledger.last(1)]
        passes = [one for number in newest for one in await store.ledger.entries(first=number, last=number, limit=1)]
        last_us = max(loaded.last_at_us, *(one.now_us for one in passes), 0)
        clock.advance(max(0, last_us + 1 - clock.now_us()) / 1e6)
    clock.not_before(loaded.last_at_us)
    executor = FakeExecutor([agent(name, devices=4) for name in ("a", "b", "c")])
    plan = None if retention is None else retention(store)
    ports = Ports(
        store=store,
        executor=executor,
        clock=clock,
        ids=RandomIds(),
        ledger=store.ledger,
        retention=plan,
        parts=ServiceParts(operators=OperatorSources(audit=store.book)),
    )
    service = Orchestrator(ports, state=state, loaded=loaded, grace_ms=100)
    running = asyncio.create_task(service.run())
    try:
        await executor.start()
        await service.wait_for_agents(frozenset(executor.agents))
        yield RandomWorkload(service, executor, clock, seed=seed), store
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await service.close()
        await store.close()


async def record_two_terms(place: Place, *, entries: int) -> None:
    """Two busy terms with a minimum number of entries, each with its checkpoint."""
    for seed in (1, 2):
        async with workload_on(place, seed=seed) as (workload, running):
            await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + entries)


@asynccontextmanager
async def two_terms(place: Place, *, entries: int) -> AsyncIterator[DatabaseStore]:
    """A store after two busy terms."""
    await record_two_terms(place, entries=entries)
    store = place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    await store.write(follow_all)
    yield store
    await store.close()


def _fallbacks(draw: random.Random) -> list[NewFallback]:
    if draw.random() < 0.9:
        return []
    return [NewFallback(slots=[("cuda.shares", "0.2")], cluster_size=1, after_s=60.0)]
