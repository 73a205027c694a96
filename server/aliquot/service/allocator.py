"""The allocator: woken by events, takes a snapshot, decides, re-checks the plan, and commits it."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from aliquot.core.decide import decide
from aliquot.core.leaving import is_overdue, unstopped
from aliquot.core.memo import Memo
from aliquot.core.ordering import order_named
from aliquot.core.placement.strategies import making
from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.service.carrying_out import ACTOR, CarryingOut
from aliquot.service.draft import Draft
from aliquot.service.eviction import stop_overdue
from aliquot.service.journal import Journal
from aliquot.service.ledger.ports import PassWatcher
from aliquot.service.measuring.log_fields import logging_with
from aliquot.service.measuring.measures import Measures
from aliquot.service.outside_leases import end_overdue
from aliquot.service.ports import Clock
from aliquot.service.snapshots import take
from aliquot.service.state import State
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import PolicyDocument

log: Final = logging.getLogger("aliquot.allocator")

SEED: Final = 0
SHORT_S: Final = 0.002
"""After a pass that took no longer nobody is given a rest."""
IDLE_RESTS: Final = 4
"""After a pass that placed nobody, while others wait, the server is left to those who submit for so many times as long
as it took, but for not longer than `IDLE_REST_S_MAX`, and no longer than until something else happens; and for as long
as it took in any case."""
IDLE_REST_S_MAX: Final = 0.2
SUBMITTED: Final = "session.queued"
WAKING: Final = frozenset(
    {
        SUBMITTED,
        "session.requeued",
        "session.retried",
        "session.released",
        "session.fell_back",
        "session.priority_changed",
        "session.preempting",
        "session.canceled",
        "session.completed",
        "session.failed",
        "session.task_ended",
        "session.task_canceled",
        "lease.released",
        "lease.renewed",
        "policy.changed",
        "orchestration.started",
        "quota.set",
        "quota.changed",
        "quota.removed",
    }
)
"""Kinds of events after which a pass may decide something new; besides, whatever happens to an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCounts:
    """What one pass did."""

    number: int
    placed: int
    overtaken: int
    """Placements that no longer fitted the newest state."""
    failed: int
    waiting: int

    @property
    def is_idle(self) -> bool:
        """Whether there is work, and no room for it."""
        return self.waiting > 0 and not (self.placed or self.overtaken or self.failed)


class Allocator:
    """One pass at a time, in a worker thread, for at most half of the time, and less when all are held."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        last_pass: int,
        last_at_us: int,
        on_scheduled: Callable[[tuple[SessionId, ...]], None],
        watcher: PassWatcher | None = None,
        measures: Measures | None = None,
    ) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._memo = Memo()
        self._pass_number = last_pass
        self._now_us = last_at_us
        self._on_scheduled = on_scheduled
        self._watcher = watcher
        self._measures = measures or Measures()
        self._woken = asyncio.Event()
        self._stirred = asyncio.Event()
        """Something else happened than that somebody submitted."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="decide")
        journal.listeners.append(self._hear)
        journal.settled.append(state.running_rows.settle)

    def wake(self) -> None:
        """Ask for a pass; many wishes before it starts are one."""
        self._woken.set()

    async def run(self) -> None:
        """Passes for ever, one whenever something happened that may change a decision."""
        wake_at_us: int | None = None
        while True:
            await self._until_woken(wake_at_us)
            self._woken.clear()
            self._stirred.clear()
            began, before = self._clock.monotonic(), self._pass_number
            with logging_with(pass_number=before + 1):
                counts, wake_at_us = await self.run_once()
            took_s = self._clock.monotonic() - began
            if counts.number > before:
                self._measures.passes.ends(counts, took_s=took_s)
            if took_s > SHORT_S:
                await self._rest(took_s, is_idle=counts.is_idle)

    async def run_once(self) -> tuple[PassCounts, int | None]:
        """One pass, and the time at which the next one is worth it even if nothing happens (microseconds UTC).

        While the orchestrator is stopped there is no pass: those who were asked to make room before are seen to,
        work outside whose time is over ends, and that is all.
        """
        self._look_at_clock()
        await self._stop_overdue()
        await self._end_overdue()
        self._look_at_clock()  # a store that is away is waited for, and sessions have come meanwhile
        if self._state.orchestration.is_stopped:
            return self._no_pass(), self._wake_at_us(Plan())
        self._pass_number += 1
        snapshot, rules = take(self._state), self._rules()
        if self._watcher is not None:
            self._watcher.begins(snapshot, rules)
        plan = await asyncio.get_running_loop().run_in_executor(
            self._worker, lambda: decide(snapshot, rules, now_us=self._now_us, seed=SEED, known=self._memo)
        )
        if self._watcher is not None:
            self._watcher.ends(plan, number=self._pass_number, now_us=self._now_us, seed=SEED)
        placed, overtaken = await self.carry_out(plan)
        promised_us = plan.promised_us()
        self._state.judge(plan.verdicts, promised_us=promised_us)
        self._measures.promises.note(promised_us)
        if overtaken:
            self.wake()
        counts = PassCounts(
            number=self._pass_number,
            placed=len(placed),
            overtaken=overtaken,
            failed=len(plan.failures),
            waiting=len(plan.verdicts),
        )
        return counts, self._wake_at_us(plan)

    def close(self) -> None:
        """Let go of the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def carry_out(self, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
        """Commit what of the plan still holds; returns the sessions placed, and how many were overtaken."""
        work = CarryingOut(
            state=self._state,
            journal=self._journal,
            now_us=self._now_us,
            pass_number=self._pass_number,
            on_scheduled=self._on_scheduled,
        )
        return await work.run(plan)

    def _look_at_clock(self) -> None:
        self._now_us = max(self._now_us, self._clock.now_us())

    async def _stop_overdue(self) -> None:
        """Those whose grace is over, and whom nobody has told to stop yet."""

        def change(draft: Draft) -> None:
            for session_id in overdue:
                session = draft.session(session_id)
                if session is not None and is_overdue(session, now_us=self._now_us):
                    stop_overdue(draft, session, now_us=self._now_us)

        overdue = [name for name, until_us in self._graces() if until_us <= self._now_us]
        if overdue:
            await self._journal.persist(change, actor=ACTOR)

    async def _end_overdue(self) -> None:
        """Those who hold devices for work outside, and have not called again in time."""

        def change(draft: Draft) -> None:
            for session_id in overdue:
                end_overdue(draft, session_id, now_us=self._now_us)

        overdue = [name for name, until_us in self._state.outside.ends().items() if until_us <= self._now_us]
        if overdue:
            await self._journal.persist(change, actor=ACTOR)

    def _no_pass(self) -> PassCounts:
        return PassCounts(number=self._pass_number, placed=0, overtaken=0, failed=0, waiting=len(self._state.pending))

    def _graces(self) -> list[tuple[SessionId, int]]:
        """Sessions that will have to be told to stop, and when."""
        leaving = [self._state.sessions[session_id] for session_id in self._state.leaving]
        return [
            (session.id, session.preemption.until_us)
            for session in leaving
            if session.preemption is not None and unstopped(self._state.kernels_in(session))
        ]

    def _wake_at_us(self, plan: Plan) -> int | None:
        times = [until_us for _, until_us in self._graces()] + list(self._state.outside.ends().values())
        return min(times if plan.wake_at_us is None else [*times, plan.wake_at_us], default=None)

    def _rules(self) -> Policy:
        """The policy of this pass. One that names what this server does not know must not keep everybody waiting."""
        rules = self._state.rules
        try:
            order_named(rules.order)
            making(rules.placement)
        except InvalidRequest as error:
            usual = PolicyDocument()
            log.error("the policy cannot be followed, %s and %s stand in: %s", usual.order, usual.placement, error)
            return replace(rules, order=usual.order, placement=usual.placement)
        return rules

    async def _until_woken(self, wake_at_us: int | None) -> None:
        if wake_at_us is None:
            await self._woken.wait()
            return
        wait_s = max(0.0, (wake_at_us - self._clock.now_us()) / 1e6)
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _rest(self, took_s: float, *, is_idle: bool) -> None:
        if is_idle or self._woken.is_set():
            await self._clock.sleep(took_s)
        more_s = min((IDLE_RESTS - 1) * took_s, IDLE_REST_S_MAX - took_s)
        if is_idle and more_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(more_s):
                    await self._stirred.wait()

    def _hear(self, event: Event) -> None:
        if event.kind in WAKING or event.entity is Entity.AGENT:
            self.wake()
            if event.kind != SUBMITTED:
                self._stirred.set()
