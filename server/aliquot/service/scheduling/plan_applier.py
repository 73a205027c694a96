"""Plan applier: commits a plan in short transactions, each re-checked against the newest state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from aliquot.core import transitions
from aliquot.core.model.plan import Eviction, Placement, Plan
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.decide import NOT_PLACED
from aliquot.service.lifecycle.external_leases import is_left
from aliquot.service.lifecycle.grants import Grants
from aliquot.service.lifecycle.launch_orders import Orders, start
from aliquot.service.lifecycle.preemption import evict
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Failure
from aliquot_schema.states import SessionState

T = TypeVar("T")

ACTOR: Final = "system:allocator"
KERNELS_MAX: Final = 50
"""Kernels placed in one transaction, unless one session has more; bounds how long the event loop is blocked."""
CHANGES_MAX: Final = 300
"""Failures recorded in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApplier:
    """Applies one plan of one pass."""

    state: State
    journal: Journal
    now_us: int
    pass_number: int
    launch: Callable[[Orders], None]
    """Sends launch orders; called after their commit."""
    arrays: Mapping[SessionId, PendingRow] = field(default_factory=dict)
    """Job arrays as the pass saw them."""

    async def run(self, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
        """Commit the steps that are still valid; returns the sessions placed, and the number of outdated placements."""
        abandoned = {placement.session_id for placement in plan.placements if self._is_abandoned(placement)}
        failures = [*plan.failures.items(), *((name, NOT_PLACED) for name in sorted(abandoned))]
        for first in range(0, len(failures), CHANGES_MAX):
            await self._write(partial(self._fail, failures=failures[first : first + CHANGES_MAX]))
        placed: list[SessionId] = []
        for part in slices([placement for placement in plan.placements if placement.session_id not in abandoned]):
            placed += await self._place(part)
        if plan.fallbacks:
            await self._write(partial(self._fall_back, fallbacks=plan.fallbacks))
        if plan.evictions:
            await self._write(partial(self._evict, evictions=plan.evictions))
        return tuple(placed), len(plan.placements) - len(placed)

    def _is_abandoned(self, placement: Placement) -> bool:
        session = self.state.sessions.get(placement.session_id)
        return session is not None and is_left(session, now_us=self.now_us)

    async def _place(self, part: Sequence[Placement]) -> tuple[SessionId, ...]:
        grants = Grants(state=self.state, epoch=self.journal.epoch, now_us=self.now_us, arrays=self.arrays)

        def grant(draft: UnitOfWork) -> tuple[tuple[SessionId, ...], Orders]:
            # If scheduling was paused since the pass began, or between two of its steps, the rest of the plan waits.
            granted = grants.write(draft, () if draft.orchestration().is_stopped else part)
            return granted, start(draft, granted, epoch=self.journal.epoch)

        granted, orders = await self._write(grant)
        self.launch(orders)
        return granted

    async def _write(self, change: Callable[[UnitOfWork], T]) -> T:
        return await self.journal.persist(change, actor=ACTOR, pass_number=self.pass_number)

    def _fail(self, draft: UnitOfWork, *, failures: Sequence[tuple[SessionId, Failure]]) -> None:
        for session_id, failure in failures:
            session = draft.session(session_id)
            if session is not None and session.is_pending:
                draft.put(transitions.fail(session, failure, now_us=self.now_us), "failed")

    def _fall_back(self, draft: UnitOfWork, *, fallbacks: Mapping[SessionId, int]) -> None:
        for session_id, level in fallbacks.items():
            session = draft.session(session_id)
            if session is not None and session.is_pending and session.fallback_level < level:
                draft.put(replace(session, fallback_level=level), "fell_back")

    def _evict(self, draft: UnitOfWork, *, evictions: Sequence[Eviction]) -> None:
        for eviction in () if draft.orchestration().is_stopped else evictions:
            session = draft.session(eviction.session_id)
            if session is None or session.version != eviction.version or session.state is not SessionState.RUNNING:
                continue
            evict(
                draft,
                session,
                cause=eviction.cause,
                by_session=eviction.by_session,
                by_user=eviction.by_user,
                now_us=self.now_us,
                grace_ms=eviction.grace_ms,
            )


def slices(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    """Placements in order, in slices of at most `KERNELS_MAX` kernels; a larger placement is a slice by itself."""
    part: list[Placement] = []
    kernels = 0
    for placement in placements:
        if part and kernels + len(placement.kernels) > KERNELS_MAX:
            yield part
            part, kernels = [], 0
        part.append(placement)
        kernels += len(placement.kernels)
    if part:
        yield part
