"""Week of history of the living demo: the real service and the real `decide`, run over generated submissions.

Sessions, decisions, ledger entries and the audit log are those that a server would have written; only the clock, the
agents' processes and the readings are simulated. The service runs in memory, and the batches that it committed are
written in one transaction at the end, which takes a fraction of the time.
"""

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Final

from msgspec import Struct

from aliquot.demo.scenario import PEOPLE, PROJECTS, JobKind, Submission, submissions
from aliquot.service.access import Trust
from aliquot.service.agents.messages import AgentMessages
from aliquot.service.leadership.effects import EventEffects
from aliquot.service.ledger.changes import EntryBuilder
from aliquot.service.ledger.entries import PassEntry, code_version
from aliquot.service.ledger.recorder import PassObserver
from aliquot.service.ports import Batch, ByteStream, LoadedRows
from aliquot.service.scheduling.allocator import Allocator
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.state import State
from aliquot.service.use_cases import ServiceParts, SubmissionLimits, UseCases
from aliquot.store.commit import commit_group
from aliquot.store.store import DatabaseStore, MainDatabase
from aliquot_schema.billing import MICROS, Price
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
    LogChunk,
)
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import NotFound
from aliquot_schema.events import KIND_OF, Entity, Event, Record
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, UserId, kernel_parts, task_parts
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.leases import EndEvidence, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.views.accounts import NewUser
from aliquot_schema.views.admin import NewQuota

SEED: Final = 7
WEEK_US: Final = 7 * 24 * 3_600_000_000
GRACE_MS: Final = 10_000
GPU_HOUR_MICROS: Final = 2 * MICROS
"""Price of a whole GPU per hour."""
LAST_ENDS_US: Final = 240_000_000
"""What still runs when the week is over ends within this time before."""
OPERATOR: Final = Caller(user=UserId("demo"), request_id="req_demo", role=Role.ADMIN)


class _Clock:
    """Implements `aliquot.service.ports.Clock`: time passes only when the course says so."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def wall_us(self) -> int:
        return self._now_us

    def leap_us(self) -> int:
        return 0

    def correct(self, at_us: int) -> None:
        self._now_us = at_us

    def monotonic(self) -> float:
        return self._now_us / 1e6

    async def sleep(self, seconds: float) -> None:
        self._now_us += round(seconds * 1e6)


class _Ids:
    """UUIDv7 of the course's time behind a prefix, with random parts from a seed."""

    def __init__(self, clock: _Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._count = count()

    def new(self, prefix: str) -> str:
        ms, low = self._clock.now_us() // 1000, self._random.getrandbits(48)
        text = f"{ms:012x}7{next(self._count) % 4096:03x}8{self._random.getrandbits(12):03x}{low:012x}"
        return f"{prefix}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class _Buffer(DatabaseStore):
    """A new cluster's store that answers commits at once, and writes all of them together with `flush`."""

    def __init__(self, database: MainDatabase, *, now_us: Callable[[], int]) -> None:
        super().__init__(database, now_us=now_us)
        self._batches: list[Batch] = []
        self._number = 0

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        self._batches.append(batch)
        return tuple(self._event(write.record, write.kind, batch) for write in batch.writes)

    async def flush(self) -> None:
        """Write all batches in one transaction.

        Raises:
            StoreUnavailable, or the error of a batch.
        """
        for outcome in await self.write(partial(commit_group, batches=self._batches)):
            if isinstance(outcome, Exception):
                raise outcome
        self._batches.clear()

    def _event(self, record: Record, kind: str, batch: Batch) -> Event:
        """The event of a write, as the database will number it."""
        self._number += 1
        return Event(
            number=self._number,
            at_us=batch.at_us,
            kind=kind,
            entity=KIND_OF[type(record)].entity,
            entity_id=record.id,
            entity_version=record.version,
            actor=batch.actor,
            request_id=batch.request_id,
            epoch=batch.epoch or 0,
            pass_number=batch.pass_number,
            record=record,
        )


class _Processes:
    """Implements `aliquot.service.ports.Executor`: kernels that start immediately and end when the course says so."""

    def __init__(self, agents: Sequence[Agent], *, now_us: Callable[[], int]) -> None:
        self._agents = {agent.id: agent for agent in agents}
        self._now_us = now_us
        self._messages: list[AgentMessage] = []
        self.running: dict[KernelId, tuple[AgentId, int]] = {}
        """The agent of each kernel, and its start in microseconds UTC."""
        self._fresh: list[KernelId] = []

    async def start(self) -> None:
        self._messages += [AgentJoined(inventory=Inventory(agent=agent)) for agent in self._agents.values()]

    async def close(self) -> None:
        self._messages.clear()

    async def messages(self) -> AsyncIterator[AgentMessage]:
        for message in self.take():
            yield message

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        for order in orders:
            self.running[order.kernel_id] = agent_id, self._now_us()
            self._fresh.append(order.kernel_id)
            started = KernelReport(kernel_id=order.kernel_id, phase=KernelPhase.STARTED, at_us=self._now_us())
            self._messages.append(KernelChanged(agent_id=agent_id, report=started))

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        self.end(kernel_id, signal=15)

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        if kernel_id not in self.running:
            raise NotFound("it does not run", kind="kernel", id=kernel_id)

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        if kernel_id not in self.running:
            raise NotFound("it does not run", kind="kernel", id=kernel_id)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        return Inventory(agent=self._agents[agent_id])

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        return None

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        assert not any(kernel_id in self.running for kernel_id in kernel_ids)

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        yield LogChunk(offset=offset, data=b"", at_end=True)

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        raise NotFound(f"{kernel_id} has no processes: it is simulated", kind="kernel", id=kernel_id)

    def take(self) -> list[AgentMessage]:
        """What the agents reported since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def take_fresh(self) -> list[KernelId]:
        """The kernels that started since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def end(self, kernel_id: KernelId, *, code: int | None = None, signal: int | None = None) -> None:
        """The kernel's processes are gone; nothing happens if they were before."""
        agent_id, since_us = self.running.pop(kernel_id, (None, 0))
        if agent_id is None:
            return
        now_us = self._now_us()
        report = KernelReport(
            kernel_id=kernel_id,
            phase=KernelPhase.EXITED,
            at_us=now_us,
            exit_code=code,
            signal=signal,
            ran_ms=(now_us - since_us) // 1000,
            evidence=EndEvidence.EXIT_FILE,
        )
        self._messages.append(KernelChanged(agent_id=agent_id, report=report))


class _Service:
    """The service of one term, stepped by hand: passes, orders and reports, without its loops."""

    def __init__(
        self, store: DatabaseStore, loaded: LoadedRows, *, agents: Sequence[Agent], clock: _Clock, random: Random
    ) -> None:
        self._epoch = loaded.epoch
        self._clock = clock
        self.state = State()
        self.processes = _Processes(agents, now_us=clock.now_us)
        ids, state = _Ids(clock, random), self.state
        parts = ServiceParts(admission=SubmissionLimits(trust=Trust.SHARED, per_minute=None))
        self.cases = UseCases(store=store, clock=clock, ids=ids, outputs=self.processes, state=state, parts=parts)
        journal = self.cases.journal
        journal.lead(loaded.epoch)
        self._dispatch = Dispatch(self.processes, epoch=loaded.epoch, grace_ms=GRACE_MS)
        self._passes = PassObserver(state)
        self._allocator = Allocator(
            state=state,
            journal=journal,
            clock=clock,
            last_pass=loaded.last_pass,
            last_at_us=clock.now_us(),
            launch=self._dispatch.launch,
            watcher=self._passes,
        )
        journal.subscribe(self._passes.on_event, to=(Entity.SESSION,))
        EventEffects(state=state, journal=journal, dispatch=self._dispatch).begin()
        self._messages = AgentMessages(
            state=state,
            journal=journal,
            executor=self.processes,
            dispatch=self._dispatch,
            clock=clock,
            on_reachable=self._allocator.wake,
        )

    async def settle(self) -> int | None:
        """Deliver orders and reports, and decide, until nothing changes; returns when the next pass is due, in
        microseconds UTC."""
        await self._deliver()
        while True:
            counts, wake_at_us = await self._allocator.run_once()
            self._clock.correct(self._clock.now_us() + 1)  # no two passes of a server are at the same time
            if not await self._deliver() and not counts.outdated:
                return wake_at_us

    def entries(self) -> list[PassEntry]:
        """The ledger entries of all passes."""
        passes, lost = self._passes.take()
        return EntryBuilder(epoch=self._epoch, code_version=code_version).entries(passes, lost)

    async def close(self) -> None:
        """Stop the worker threads."""
        await self._dispatch.close()
        self._allocator.close()
        self.cases.previews.close()
        self.cases.explanations.close()
        self.cases.what_ifs.close()

    async def _deliver(self) -> bool:
        """Returns whether a kernel ended, which may let another session start."""
        has_ended = False
        while True:
            await self._dispatch.close()
            messages = self.processes.take()
            if not messages:
                return has_ended
            reports = [message.report.phase for message in messages if isinstance(message, KernelChanged)]
            has_ended = has_ended or KernelPhase.EXITED in reports
            await self._messages.run_once(messages)


class GeneratedWeek(Struct, frozen=True, kw_only=True):
    """What happened in the generated week."""

    since_us: int
    until_us: int
    agents: tuple[Agent, ...]
    leases: tuple[Lease, ...]
    """All of them; every one was released."""
    sessions: tuple[Session, ...]
    """Job arrays and their tasks included."""
    work: Mapping[SessionId, JobKind]
    """By session, or by job array."""


class WeekGenerator:
    """A week in the life of a new cluster."""

    def __init__(self, database: MainDatabase, agents: Sequence[Agent], *, until_us: int, seed: int = SEED) -> None:
        """
        Args:
            database: the new cluster's, not opened yet.
            until_us: the end of the week, microseconds UTC.
        """
        self._since_us, self._until_us = until_us - WEEK_US, until_us
        self._random = Random(seed)
        self._clock = _Clock(self._since_us)
        self._store = _Buffer(database, now_us=self._clock.now_us)
        self._agents = tuple(agents)
        self._planned: dict[SessionId, Submission] = {}
        self._due: list[tuple[int, int, Step]] = []
        self._count = count()
        self._leases: dict[LeaseId, Lease] = {}
        self._sessions: dict[SessionId, Session] = {}

    async def run(self) -> GeneratedWeek | None:
        """Live through the week, and store it; None if the database holds a cluster already.

        Raises:
            StoreUnavailable: the database cannot be opened or written.
        """
        loaded = await self._store.open()
        if loaded.revision:
            await self._store.close()
            return None
        service = _Service(self._store, loaded, agents=self._agents, clock=self._clock, random=self._random)
        service.cases.journal.subscribe(self._note, to=(Entity.LEASE, Entity.SESSION))
        try:
            await self._begin(service)
            await self._live(service)
            await self._end(service)
            await self._store.flush()
            await self._store.ledger.append(service.entries())
            while await self._store.ledger.follow():
                pass
        finally:
            await service.close()
            await self._store.close()
        return GeneratedWeek(
            since_us=self._since_us,
            until_us=self._until_us,
            agents=self._agents,
            leases=tuple(self._leases.values()),
            sessions=tuple(self._sessions.values()),
            work={session_id: planned.work for session_id, planned in self._planned.items()},
        )

    async def _begin(self, service: _Service) -> None:
        """Let the agents join, and set the prices, projects and users."""
        await service.processes.start()
        await service.settle()
        prices = {"rates": (Price(micros=GPU_HOUR_MICROS),)}
        await service.cases.administration.policy.update_policy(OPERATOR, {"prices": prices}, None)
        for name, (gpus, weight) in PROJECTS.items():
            limits = [("cuda.shares", gpus)]
            quota = NewQuota(scope=QuotaScope.PROJECT, name=name, max_slots=limits, weight=weight)
            await service.cases.administration.quotas.set_quota(OPERATOR, quota, None)
        for person in PEOPLE:
            user = NewUser(name=person.name, role=person.role, projects=person.projects)
            await service.cases.accounts.create_user(OPERATOR, user)

    async def _live(self, service: _Service) -> None:
        for planned in submissions(self._random, since_us=self._since_us, until_us=self._until_us):
            self._at(planned.at_us, partial(self._submit, service, planned))
        while self._due and self._due[0][0] < self._until_us:
            at_us, _, step = heapq.heappop(self._due)
            self._clock.correct(max(at_us, self._clock.now_us()))
            await step()
            wake_at_us = await service.settle()
            self._plan_ends(service)
            if wake_at_us is not None:
                self._at(wake_at_us, _nothing)

    async def _end(self, service: _Service) -> None:
        """Cancel what waits, and stop what still runs."""
        self._clock.correct(self._until_us)
        for session_id in list(service.state.pending):
            await service.cases.sessions.cancel_session(OPERATOR, session_id, None)
        for kernel_id in list(service.processes.running):
            service.processes.end(kernel_id, code=0)
        await service.settle()

    async def _submit(self, service: _Service, planned: Submission) -> None:
        changed = await service.cases.sessions.create_session(planned.person.caller, planned.request)
        self._planned[SessionId(changed.session.id)] = planned

    def _plan_ends(self, service: _Service) -> None:
        """Plan the ends of the kernels that have just started."""
        for kernel_id in service.processes.take_fresh():
            array, index = task_parts(kernel_parts(kernel_id)[0])
            planned = self._planned[array]
            runs_s, fails = planned.runs_s[index or 0], planned.fails[index or 0]
            end_us = self._clock.now_us() + round(runs_s * (0.3 if fails else 1.0) * 1e6)
            if end_us >= self._until_us:
                end_us = self._until_us - self._random.randrange(LAST_ENDS_US)
            self._at(end_us, partial(_ended, service.processes, kernel_id, code=1 if fails else 0))

    def _at(self, at_us: int, step: "Step") -> None:
        heapq.heappush(self._due, (at_us, next(self._count), step))

    def _note(self, event: Event) -> None:
        if isinstance(event.record, Lease):
            self._leases[event.record.id] = event.record
        elif isinstance(event.record, Session):
            self._sessions[event.record.id] = event.record


Step = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    """A pass is due."""


async def _ended(processes: _Processes, kernel_id: KernelId, *, code: int) -> None:
    processes.end(kernel_id, code=code)
