"""Allocator: runs a scheduling pass after each relevant event: snapshot, decision, re-check, commit of the plan."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.placement.strategies import making
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import OVERRUN_US_MIN
from aliquot.core.scheduler.ordering import order_named
from aliquot.core.transitions import is_overdue, unstopped
from aliquot.service.ledger.entries import PassWatcher
from aliquot.service.lifecycle.external_leases import end_overdue
from aliquot.service.lifecycle.launch_orders import Orders
from aliquot.service.lifecycle.preemption import stop_overdue
from aliquot.service.lifecycle.withdrawal import ACTOR as WITHDRAWAL
from aliquot.service.lifecycle.withdrawal import withdraw, withdrawals
from aliquot.service.metrics.log_context import logging_with
from aliquot.service.metrics.metrics import Measures
from aliquot.service.ports import Clock
from aliquot.service.scheduling.plan_applier import ACTOR, PlanApplier
from aliquot.service.state.journal import Journal
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import SessionId
from aliquot_schema.orchestration import CLOCK_CORRECTED
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.reasons import Reason

log: Final = logging.getLogger("aliquot.allocator")

SEED: Final = 0
SHORT_S: Final = 0.002
"""Passes up to this duration are not followed by a back-off."""
IDLE_FACTOR: Final = 4
"""Back-off after a pass that placed nothing, as a multiple of its duration."""
IDLE_S_MIN: Final = 0.05
"""Of this back-off: too short to be noticed, and one client that submits without a pause causes far fewer passes."""
IDLE_S_MAX: Final = 0.2
BUSY_S_MAX: Final = 2.0
AGENTS_FACTOR: Final = 9
"""After a pass that was not short, events of agents wait for this multiple of its duration: thousands of agents may
join one after another, and a pass for each of them would take most of the time."""
AGENTS_S_MAX: Final = 1.0
SUBMITTED: Final = "session.queued"
WAKING: Final = frozenset(
    {
        SUBMITTED,
        "session.requeued",
        "session.retried",
        "session.released",
        "session.fell_back",
        "session.priority_changed",
        "session.request_changed",
        "session.preempting",
        "session.extension_requested",
        "session.extension_refused",
        "session.extended",
        "session.canceled",
        "session.completed",
        "session.failed",
        "session.task_ended",
        "session.task_canceled",
        "lease.released",
        "lease.renewed",
        "policy.changed",
        CLOCK_CORRECTED,
        "orchestration.started",
        "quota.set",
        "quota.changed",
        "quota.removed",
        "booking.requested",
        "booking.extension_requested",
        "booking.canceled",
        "booking.given_back",
        "booking.shortened",
    }
)
"""Kinds of events that trigger a pass; so does any event of an agent."""


class PassCounts(Struct, frozen=True, kw_only=True):
    """Counts of one pass, in sessions."""

    number: int
    placed: int
    outdated: int
    """Placements that were no longer valid in the newest state."""
    failed: int
    waiting: int

    @property
    def is_idle(self) -> bool:
        """Whether sessions wait and none was placed, failed or outdated."""
        return self.waiting > 0 and not (self.placed or self.outdated or self.failed)


def backoff_s(took_s: float, *, is_idle: bool, is_woken: bool) -> tuple[float, float]:
    """Back-off after a pass, in seconds: a fixed part, then a part that any event but a submission ends early.

    After a pass that placed nothing: 4 times its duration, 50 to 200 ms, and its duration in any case: the fixed
    part. After another pass: its duration, if the next pass is due already and this one was not short.

    A duration counts as at most 2 s: a pass that waited for the database through an outage, or on a machine that was
    suspended, says nothing about the load.
    """
    took_s = min(took_s, BUSY_S_MAX)
    if not is_idle and (took_s <= SHORT_S or not is_woken):
        return 0.0, 0.0
    early_s = min(max(IDLE_FACTOR * took_s, IDLE_S_MIN), IDLE_S_MAX) - took_s if is_idle else 0.0
    return took_s, max(0.0, early_s)


def _looks_again_us(plan: Plan, snapshot: Snapshot, *, now_us: int) -> int | None:
    """When to decide again although nothing has happened; None = not needed.

    While a session overruns, the start that is promised behind it moves away, and sessions that were kept waiting for
    that start may end before it.
    """
    if not any(verdict.reason is Reason.RESERVED for verdict in plan.verdicts.values()):
        return None
    ends_us = min((row.ends_us for row in snapshot.running if not row.is_leaving), default=None)
    return None if ends_us is None else max(ends_us, now_us) + OVERRUN_US_MIN


class Allocator:
    """Loop of scheduling passes, one at a time, in a worker thread. See `backoff_s` for its share of the time."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        last_pass: int,
        last_at_us: int,
        launch: Callable[[Orders], None],
        watcher: PassWatcher | None = None,
        measures: Measures | None = None,
    ) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._memo = PassCache()
        self._pass_number = last_pass
        self._checked = state.rules, _usable(state.rules)
        self._now_us = last_at_us
        self._corrections = _corrections(state)
        self._launch = launch
        self._watcher = watcher
        self._measures = measures or Measures()
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        """Set by each event that triggers a pass, other than a submission."""
        self._asked = asyncio.Event()
        """Set by each event that triggers a pass, other than those of agents."""
        self._agents_from_s = 0.0
        """Until then, events of agents alone do not start a pass (monotonic clock)."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="decide")
        journal.subscribe(self._wake_on, to=(*WAKING, Entity.AGENT))
        journal.subscribe(settled=state.running_rows.settle)

    def wake(self) -> None:
        """Request a pass; requests before its start are merged."""
        self._asked.set()
        self._woken.set()

    def wake_for_agents(self) -> None:
        """Request a pass because an agent has changed; soon after a long pass, it waits a little for other agents."""
        self._woken.set()

    async def run(self) -> None:
        """Run a pass after each event that may change a decision, until cancelled."""
        wake_at_us: int | None = None
        while True:
            await self._until_woken(wake_at_us)
            await self._until_agents_count()
            for event in (self._woken, self._changed, self._asked):
                event.clear()
            began, before = self._clock.monotonic(), self._pass_number
            with logging_with(pass_number=before + 1):
                counts, wake_at_us = await self.run_once()
            took_s = self._clock.monotonic() - began
            if counts.number > before:
                self._measures.passes.ends(counts, took_s=took_s)
            await self._back_off(took_s, is_idle=counts.is_idle)

    async def run_once(self) -> tuple[PassCounts, int | None]:
        """Run one pass; returns its counts, and when the next one is due without an event (microseconds UTC).

        While scheduling is stopped there is no pass: only grace periods and external allocations are ended in time.
        """
        self._advance_clock()
        await self._stop_overdue()
        await self._end_overdue()
        await self._withdraw()
        self._advance_clock()  # the commits may have waited for the store, and sessions may have arrived meanwhile
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
        self._state.backlogs.update(plan.backlogs)
        if self._corrections == _corrections(self._state):
            placed, outdated = await self.carry_out(plan, rows=_rows_seen(plan, snapshot.queue))
        else:
            placed, outdated = (), max(1, len(plan.placements))  # its times are from before a correction of the clock
        promised_us = plan.promised_us()
        self._state.judge(plan.verdicts, promised_us=promised_us)
        self._measures.promises.note(promised_us)
        if outdated:
            self.wake()
        counts = PassCounts(
            number=self._pass_number,
            placed=len(placed),
            outdated=outdated,
            failed=len(plan.failures),
            waiting=len(plan.verdicts),
        )
        again_us = _looks_again_us(plan, snapshot, now_us=self._now_us)
        times = [at_us for at_us in (self._wake_at_us(plan), again_us) if at_us is not None]
        return counts, min(times, default=None)

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def carry_out(
        self, plan: Plan, *, rows: Mapping[SessionId, PendingRow] | None = None
    ) -> tuple[tuple[SessionId, ...], int]:
        """Commit the steps that are still valid; returns the sessions placed, and the number of outdated placements.

        Args:
            rows: see `PlanApplier.rows`; None = none are known.
        """
        work = PlanApplier(
            state=self._state,
            journal=self._journal,
            now_us=self._now_us,
            pass_number=self._pass_number,
            launch=self._launch,
            rows=rows or {},
        )
        return await work.run(plan)

    def _advance_clock(self) -> None:
        """The time of a pass never goes back, except at a correction of the clock, which the log holds."""
        correction = self._state.clock_correction
        if correction is not None and correction.version != self._corrections:
            self._corrections, self._now_us = correction.version, correction.to_us
        self._now_us = max(self._now_us, self._clock.now_us())

    async def _stop_overdue(self) -> None:
        """Stop preempted sessions whose grace period is over."""

        def change(draft: UnitOfWork) -> None:
            for session_id in overdue:
                session = draft.session(session_id)
                if session is not None and is_overdue(session, now_us=self._now_us):
                    stop_overdue(draft, session, now_us=self._now_us)

        overdue = [name for name, until_us in self._graces() if until_us <= self._now_us]
        if overdue:
            await self._journal.persist(change, actor=ACTOR)

    async def _end_overdue(self) -> None:
        """End external allocations whose leases have expired."""

        def change(draft: UnitOfWork) -> None:
            for session_id in overdue:
                end_overdue(draft, session_id, now_us=self._now_us)

        overdue = [
            name for name, until_us in self._state.external_allocations.ends().items() if until_us <= self._now_us
        ]
        if overdue:
            await self._journal.persist(change, actor=ACTOR)

    async def _withdraw(self) -> None:
        """Preempt sessions whose node is about to be taken away, or one of whose devices has a hardware fault."""
        if not self._state.registry.withdrawn:
            return
        due = [one for one in withdrawals(self._state, now_us=self._now_us) if one.due_us <= self._now_us]

        def change(draft: UnitOfWork) -> None:
            for one in due:
                withdraw(draft, one, now_us=self._now_us)

        if due:
            await self._journal.persist(change, actor=WITHDRAWAL)

    def _no_pass(self) -> PassCounts:
        return PassCounts(number=self._pass_number, placed=0, outdated=0, failed=0, waiting=len(self._state.pending))

    def _graces(self) -> list[tuple[SessionId, int]]:
        """Preempted sessions with kernels still to be stopped, and the end of their grace (microseconds UTC)."""
        leaving = [self._state.sessions[session_id] for session_id in self._state.leaving]
        return [
            (session.id, session.preemption.until_us)
            for session in leaving
            if session.preemption is not None and unstopped(self._state.kernels_in(session))
        ]

    def _wake_at_us(self, plan: Plan) -> int | None:
        times = [until_us for _, until_us in self._graces()] + list(self._state.external_allocations.ends().values())
        if self._state.registry.withdrawn:
            times += [one.due_us for one in withdrawals(self._state, now_us=self._now_us)]
        return min(times if plan.wake_at_us is None else [*times, plan.wake_at_us], default=None)

    def _rules(self) -> Policy:
        """The policy of this pass; checked when it has changed."""
        rules = self._state.rules
        if rules is not self._checked[0]:
            self._checked = rules, _usable(rules)
        return self._checked[1]

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

    async def _back_off(self, took_s: float, *, is_idle: bool) -> None:
        fixed_s, early_s = backoff_s(took_s, is_idle=is_idle, is_woken=self._woken.is_set())
        if fixed_s:
            await self._clock.sleep(fixed_s)
        if early_s:
            await _wait(self._changed, early_s)
        self._rest_from_agents(took_s)

    def _rest_from_agents(self, took_s: float) -> None:
        """Let events of agents alone start no pass for a while, after one that took so long."""
        rest_s = min(AGENTS_FACTOR * took_s, AGENTS_S_MAX) if took_s > SHORT_S else 0.0
        self._agents_from_s = self._clock.monotonic() + rest_s

    async def _until_agents_count(self) -> None:
        """If nothing but agents has changed, wait until their back-off is over, or something else has changed."""
        left_s = self._agents_from_s - self._clock.monotonic()
        if left_s > 0 and self._woken.is_set():
            await _wait(self._asked, left_s)

    def _wake_on(self, event: Event) -> None:
        self.wake_for_agents() if event.entity is Entity.AGENT else self.wake()
        if event.kind != SUBMITTED:
            self._changed.set()


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, at most so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


def _usable(rules: Policy) -> Policy:
    """The policy with defaults in place of unknown names, so that scheduling continues."""
    try:
        order_named(rules.order)
        making(rules.placement)
    except InvalidRequest as error:
        usual = PolicyDocument()
        log.error(
            "the policy cannot be applied; using order %s and placement %s instead: %s",
            usual.order,
            usual.placement,
            error,
        )
        return replace(rules, order=usual.order, placement=usual.placement)
    return rules


def _rows_seen(plan: Plan, queue: Iterable[PendingRow]) -> Mapping[SessionId, PendingRow]:
    """The rows of the job arrays that a plan starts tasks of, and of the sessions that it fails or lets fall back."""
    names = {placement.session_id for placement in plan.placements if placement.index is not None}
    names.update(plan.failures, plan.fallbacks)
    return {row.session_id: row for row in queue if row.session_id in names} if names else {}


def _corrections(state: State) -> int:
    """How often the clock was corrected."""
    return 0 if state.clock_correction is None else state.clock_correction.version
