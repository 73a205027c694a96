"""The service without its loops: a test makes every step by hand, in any order; each is checked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from aliquot.clock import RandomIds
from aliquot.core.invariants import violations
from aliquot.core.model.plan import Plan
from aliquot.core.scheduler.decide import decide
from aliquot.service.accounts.rate_limit import SubmissionRateLimit
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.agents.messages import AgentMessages
from aliquot.service.booking_effects import BookingEffects
from aliquot.service.booking_imports import BookingImports
from aliquot.service.bookings import Bookings
from aliquot.service.leadership.effects import EventEffects
from aliquot.service.ports import Store
from aliquot.service.queries.queries import Queries
from aliquot.service.scheduling import allocator, plan_applier
from aliquot.service.scheduling.allocator import Allocator
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.sessions.command_checks import CommandChecks
from aliquot.service.sessions.explanations import Explanations
from aliquot.service.sessions.external_allocations import ExternalAllocations
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.session_loader import kept_in_memory
from aliquot.service.sessions.sessions import Sessions
from aliquot.service.sessions.submission import Submission
from aliquot.service.sessions.submission_checks import SubmissionPolicyCheck
from aliquot.service.sessions.what_if import WhatIfs
from aliquot.service.state.forecast_board import QuestionQueue
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.subscriptions.watching import Subscriptions, SubscriptionSources
from aliquot_schema.cluster.launching import AgentMessage
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState
from leader_stage_stores import NewStore, new_memory_store
from service_fakes import FakeAgent, FakeExecutor

new_store: NewStore = new_memory_store
"""For stages without a store of their own."""
CALLER = Caller(user=UserId("ann"), request_id="req_test", role=Role.ADMIN)
EPOCH = 1
GRACE_MS = 100


class StepClock:
    """A clock that moves by a microsecond at each reading."""

    def __init__(self) -> None:
        self._now_us = 1_000_000

    def now_us(self) -> int:
        self._now_us += 1
        return self._now_us

    def wall_us(self) -> int:
        return self.now_us()

    def leap_us(self) -> int:
        return 0

    def correct(self, at_us: int) -> None:
        self._now_us = at_us

    def advance(self, seconds: float) -> None:
        """Advance time."""
        self._now_us += round(seconds * 1e6)

    def monotonic(self) -> float:
        return self._now_us / 1e6

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Stage:
    """All parts of the service, over one state."""

    def __init__(
        self,
        store: Store,
        executor: FakeExecutor,
        *,
        ended_kept: int,
        feed_kept: int,
        commands: CommandChecks | None = None,
    ) -> None:
        self.store = store
        self.executor, self._budgets = executor, dict[tuple[NodeId, DeviceId], int]()
        self.clock = clock = StepClock()
        self.state = state = State(ended_kept=ended_kept)
        self.feed = feed = Feed(store, revision=0, kept=feed_kept)
        self.journal = journal = Journal(store=store, state=state, feed=feed, clock=clock, epoch=EPOCH)
        self.dispatch = dispatch = Dispatch(executor, epoch=EPOCH, grace_ms=GRACE_MS)
        self.allocator = Allocator(
            state=state,
            journal=journal,
            clock=clock,
            last_pass=0,
            last_at_us=0,
            launch=dispatch.launch,
        )
        EventEffects(state=state, journal=journal, dispatch=dispatch).begin()
        self.messages = AgentMessages(
            state=state,
            journal=journal,
            executor=executor,
            dispatch=dispatch,
            clock=clock,
            on_reachable=self.allocator.wake,
        )
        vetting = None
        if commands is not None:
            vetting = SubmissionPolicyCheck(Secrets(clock=clock, journal=journal), commands)
        self._creation = creation = Submission(
            state=state, journal=journal, store=store, clock=clock, ids=RandomIds(), vetting=vetting
        )
        self.bookings = Bookings(state=state, journal=journal, feed=feed, clock=clock, ids=RandomIds())
        self.booking_effects = BookingEffects(state=state, bookings=self.bookings, clock=clock)
        self.booking_imports = BookingImports(state=state, bookings=self.bookings, clock=clock)
        self.questions = QuestionQueue()
        self.previews = Previews(state=state, creation=creation, clock=clock, questions=self.questions)
        self.explanations = Explanations(state=state, clock=clock, questions=self.questions)
        self.what_ifs = WhatIfs(state=state, creation=creation, previews=self.previews, clock=clock)
        self.limit(None)
        self.queries = Queries(
            state=state,
            store=store,
            feed=feed,
            previews=self.previews,
            explanations=self.explanations,
            what_ifs=self.what_ifs,
            clock=clock,
        )
        recall = partial(kept_in_memory, state=state, store=store)
        sources = SubscriptionSources(find=self.queries.session, book=None, recalled=recall, now_us=clock.now_us)
        self.watching = Subscriptions(state=state, feed=feed, outputs=executor, sources=sources)
        journal.subscribe(self.watching.on_event)

    def limit(self, rate_limit: SubmissionRateLimit | None) -> None:
        """Rebuild the use cases of sessions with this rate limit."""
        self.sessions = Sessions(
            state=self.state,
            journal=self.journal,
            creation=self._creation,
            store=self.store,
            clock=self.clock,
            feed=self.feed,
            rate_limit=rate_limit,
        )
        self.external_allocations = ExternalAllocations(
            state=self.state,
            journal=self.journal,
            store=self.store,
            feed=self.feed,
            creation=self._creation,
            previews=self.previews,
            clock=self.clock,
            rate_limit=rate_limit,
        )

    async def submit(self, *, devices: int = 1, kernels: int = 1, **more: Any) -> SessionId:
        """Create a session of whole devices."""
        request = {"argv": ("true",), "shell": None, "slots": [("cuda.device", str(devices))], "cluster_size": kernels}
        changed = await self.sessions.create_session(CALLER, NewSession(**(request | more)))
        return SessionId(changed.session.id)

    async def create_project(self, name: str) -> None:
        """Create a project without limits."""
        project = Quota(id=quota_id(QuotaScope.PROJECT, name), scope=QuotaScope.PROJECT, name=name)
        await self.journal.persist(lambda draft: draft.put(project, "changed"), actor="ann")

    async def cancel(self, session_id: SessionId) -> None:
        """Cancel a session."""
        await self.sessions.cancel_session(CALLER, session_id, None)

    async def on_event(self, *messages: AgentMessage) -> None:
        """Handle messages, and nothing else."""
        await self.messages.run_once(list(messages))
        self.check()

    async def settle(self) -> None:
        """Deliver orders and stops, and apply the agents' reports, until there are none."""
        while True:
            await self.dispatch.close()
            heard = self.executor.take_messages()
            if not heard:
                return
            await self.on_event(*heard)

    async def advance(self) -> None:
        """One pass with its launches, and agents' reports."""
        await self.allocator.run_once()
        self.check()
        await self.settle()

    def session(self, session_id: SessionId) -> Session:
        return self.state.sessions[session_id]

    async def events(self) -> tuple[Event, ...]:
        """All stored events."""
        return await self.store.events_after(0, limit=10_000)

    def held(self) -> dict[str, int]:
        """Budget units held, by device."""
        return {str(device): amount for used in self.state.used.values() for device, amount in used.items() if amount}

    def live(self) -> list[str]:
        """Kernels that have not exited."""
        return sorted(kernel.id for kernel in self.state.kernels.values() if kernel.state is not KernelState.EXITED)

    def check(self) -> None:
        """The state has no faults. A device that shrinks while it is held is none: the reaper reports it."""
        self.note_budgets()
        assert broken(self.state, budgets=self._budgets) == []

    def note_budgets(self) -> None:
        """Note the largest budget of each device so far, which grants may use from now on."""
        for agent in self.state.agents.values():
            for device in agent.devices:
                place = agent.node_id, device.id
                self._budgets[place] = max(device.budget, self._budgets.get(place, 0))


def broken(state: State, *, budgets: Mapping[tuple[NodeId, DeviceId], int] | None = None) -> list[str]:
    """The faults of a state."""
    return violations(
        state.agents.values(),
        sessions=state.sessions.values(),
        kernels=state.kernels.values(),
        leases=state.leases.values(),
        budgets=budgets,
    )


@contextmanager
def during_a_pass(change: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """A change is committed after each pass has decided, and before its plan is applied."""
    loop = asyncio.get_running_loop()

    def decided(*given: Any, **named: Any) -> Plan:
        plan = decide(*given, **named)
        asyncio.run_coroutine_threadsafe(_awaited(change), loop).result(timeout=30)
        return plan

    with mock.patch.object(allocator, "decide", decided):
        yield


async def _awaited(change: Callable[[], Awaitable[object]]) -> None:
    await change()


@contextmanager
def granting_only() -> Iterator[None]:
    """Grants are not followed by their launch, as after a crash of a version with two transactions."""
    with mock.patch.object(plan_applier, "start", return_value={}):
        yield


@asynccontextmanager
async def stage(
    agents: Sequence[FakeAgent],
    *,
    ended_kept: int = 1000,
    feed_kept: int = 1000,
    store: Store | None = None,
    wrap: Callable[[Store], Store] = lambda store: store,
    commands: CommandChecks | None = None,
) -> AsyncIterator[Stage]:
    """A stage with these agents joined.

    Args:
        store: of another stage; a new one otherwise, with `wrap` around it.
    """
    executor = FakeExecutor(agents)
    kept = store or wrap(await new_store())
    found = Stage(kept, executor, ended_kept=ended_kept, feed_kept=feed_kept, commands=commands)
    try:
        await executor.start()
        await found.settle()
        assert found.state.reachable == {AgentId(agent.id) for agent in agents}
        yield found
        await found.settle()
    finally:
        await found.dispatch.close()
        found.previews.close()
        found.explanations.close()
        found.what_ifs.close()
        found.allocator.close()
        if store is None:
            await kept.close()
