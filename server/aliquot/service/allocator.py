"""The allocator: woken by events, takes a snapshot, decides, re-checks the plan, and commits it in one transaction."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from aliquot.core import transitions
from aliquot.core.decide import decide
from aliquot.core.plan import Placement, Plan
from aliquot.core.policy import Policy
from aliquot.core.recheck import still_fits
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.ports import Clock
from aliquot.service.snapshots import is_open, take
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, kernel_id
from aliquot_schema.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

ACTOR: Final = "system:allocator"
WAKING: Final = frozenset(
    {
        "session.queued",
        "session.requeued",
        "session.released",
        "session.priority_changed",
        "session.canceled",
        "session.completed",
        "session.failed",
        "lease.released",
        "agent.joined",
        "agent.changed",
        "agent.back",
        "agent.suspect",
        "agent.lost",
        "agent.left",
    }
)
"""Kinds of events after which a pass may decide something new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCounts:
    """What one pass did."""

    number: int
    placed: int
    overtaken: int
    """Placements that no longer fitted the newest state."""
    failed: int
    waiting: int


class Allocator:
    """One pass at a time, in a worker thread, for at most half of the time."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        policy: Policy,
        last_pass: int,
        last_at_us: int,
        on_scheduled: Callable[[tuple[SessionId, ...]], None],
    ) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self.policy = policy
        self._pass_number = last_pass
        self._now_us = last_at_us
        self._on_scheduled = on_scheduled
        self._woken = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="decide")
        journal.listeners.append(self._hear)

    def wake(self) -> None:
        """Ask for a pass; many wishes before it starts are one."""
        self._woken.set()

    async def run(self) -> None:
        """Passes for ever, one whenever something happened that may change a decision."""
        wake_at_us: int | None = None
        while True:
            await self._until_woken(wake_at_us)
            self._woken.clear()
            began = self._clock.monotonic()
            _, wake_at_us = await self.run_once()
            took = self._clock.monotonic() - began
            if self._woken.is_set() and took > 0.002:
                await self._clock.sleep(took)

    async def run_once(self) -> tuple[PassCounts, int | None]:
        """One pass, and the time at which the next one is worth it even if nothing happens (microseconds UTC)."""
        self._pass_number += 1
        self._now_us = max(self._now_us, self._clock.now_us())
        snapshot = take(self._state)
        plan = await asyncio.get_running_loop().run_in_executor(
            self._worker, lambda: decide(snapshot, self.policy, now_us=self._now_us, seed=0)
        )
        placed, overtaken = await self._carry_out(plan)
        self._state.judge(plan.verdicts)
        if overtaken:
            self.wake()
        counts = PassCounts(
            number=self._pass_number,
            placed=len(placed),
            overtaken=overtaken,
            failed=len(plan.failures),
            waiting=len(plan.verdicts),
        )
        if placed:
            self._on_scheduled(placed)
        return counts, plan.wake_at_us

    def close(self) -> None:
        """Let go of the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _carry_out(self, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
        """Commit what of the plan still holds; returns the sessions placed, and how many were overtaken."""

        def change(draft: Draft) -> list[SessionId]:
            self._write_failures(draft, plan)
            return self._write_placements(draft, plan)

        if not plan.placements and not plan.failures:
            return (), 0
        placed = await self._journal.persist(change, actor=ACTOR, pass_number=self._pass_number)
        return tuple(placed), len(plan.placements) - len(placed)

    def _write_failures(self, draft: Draft, plan: Plan) -> None:
        for session_id, failure in plan.failures.items():
            session = draft.session(session_id)
            if session is not None and session.is_pending:
                draft.put(transitions.fail(session, failure, now_us=self._now_us), "failed")

    def _write_placements(self, draft: Draft, plan: Plan) -> list[SessionId]:
        used = dict(self._state.used)
        placed: list[SessionId] = []
        for placement in plan.placements:
            session = draft.session(placement.session_id)
            if session is None or session.version != placement.version or session.state is not SessionState.QUEUED:
                continue
            if not all(self._takes_work(kernel.agent_id) for kernel in placement.kernels):
                continue
            if still_fits(placement, layouts=self._state.layouts, used=used):
                self._grant(draft, session, placement)
                placed.append(session.id)
        return placed

    def _takes_work(self, agent_id: AgentId) -> bool:
        agent = self._state.agents.get(agent_id)
        return agent is not None and is_open(self._state, agent)

    def _grant(self, draft: Draft, session: Session, placement: Placement) -> None:
        scheduled = transitions.schedule(session, now_us=self._now_us)
        for place in placement.kernels:
            name = kernel_id(session.id, attempt=scheduled.attempt, rank=place.rank)
            draft.put(
                Lease(
                    id=LeaseId(name),
                    version=0,
                    kind=LeaseKind.SESSION,
                    owner=session.owner,
                    session_id=session.id,
                    kernel_id=name,
                    agent_id=place.agent_id,
                    spec=place.spec,
                    epoch=self._journal.epoch,
                    granted_us=self._now_us,
                ),
                "granted",
            )
            draft.put(self._kernel(name, scheduled, place.rank, place.agent_id), "granted")
        draft.put(scheduled, "scheduled")

    def _kernel(self, name: KernelId, session: Session, rank: int, agent_id: AgentId) -> Kernel:
        return Kernel(
            id=name,
            version=0,
            session_id=session.id,
            attempt=session.attempt,
            rank=rank,
            agent_id=agent_id,
            epoch=self._journal.epoch,
            granted_us=self._now_us,
        )

    async def _until_woken(self, wake_at_us: int | None) -> None:
        if wake_at_us is None:
            await self._woken.wait()
            return
        wait_s = max(0.0, (wake_at_us - self._clock.now_us()) / 1e6)
        try:
            await asyncio.wait_for(self._woken.wait(), wait_s)
        except TimeoutError:
            return

    def _hear(self, event: Event) -> None:
        if event.kind in WAKING:
            self.wake()
