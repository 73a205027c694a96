"""Carrying out: what a plan decided, written step by step, so that nothing else waits long for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from aliquot.core import transitions
from aliquot.core.at_once import TURNED_AWAY
from aliquot.core.plan import Eviction, Placement, Plan
from aliquot.service.draft import Draft
from aliquot.service.eviction import evict
from aliquot.service.grants import Granted, Grants
from aliquot.service.journal import Journal
from aliquot.service.outside_leases import is_left
from aliquot.service.state import State
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Failure
from aliquot_schema.states import SessionState

T = TypeVar("T")

ACTOR: Final = "system:allocator"
KERNELS_MAX: Final = 50
"""Placed in one transaction, unless one session has more; the event loop is held up by each for that long."""
CHANGES_MAX: Final = 300
"""Other changes in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryingOut:
    """One plan of one pass. Each step is checked against the state as it is by then."""

    state: State
    journal: Journal
    now_us: int
    pass_number: int
    on_scheduled: Callable[[tuple[SessionId, ...]], None]
    _versions: dict[SessionId, int] = field(default_factory=dict)
    """Of job arrays, as this plan's own steps have left them."""

    async def run(self, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
        """Commit what of the plan still holds; returns the sessions placed, and how many were overtaken."""
        left = {placement.session_id for placement in plan.placements if self._is_left(placement)}
        failures = [*plan.failures.items(), *((name, TURNED_AWAY) for name in sorted(left))]
        for first in range(0, len(failures), CHANGES_MAX):
            await self._write(partial(self._fail, failures=failures[first : first + CHANGES_MAX]))
        placed: list[SessionId] = []
        for part in slices([placement for placement in plan.placements if placement.session_id not in left]):
            placed += await self._place(part)
        if plan.fallbacks:
            await self._write(partial(self._fall_back, fallbacks=plan.fallbacks))
        if plan.evictions:
            await self._write(partial(self._evict, evictions=plan.evictions))
        return tuple(placed), len(plan.placements) - len(placed)

    def _is_left(self, placement: Placement) -> bool:
        session = self.state.sessions.get(placement.session_id)
        return session is not None and is_left(session, now_us=self.now_us)

    async def _place(self, part: Sequence[Placement]) -> tuple[SessionId, ...]:
        grants = Grants(state=self.state, epoch=self.journal.epoch, now_us=self.now_us, versions=dict(self._versions))

        def grant(draft: Draft) -> Granted:
            # Stopped since the pass began, or between two of its steps: the rest of it waits.
            return grants.write(draft, () if draft.orchestration().is_stopped else part)

        granted = await self._write(grant)
        self._versions.update(granted.versions)
        launched = tuple(name for name in granted.sessions if not self.state.sessions[name].is_outside)
        if launched:
            self.on_scheduled(launched)
        return granted.sessions

    async def _write(self, change: Callable[[Draft], T]) -> T:
        return await self.journal.persist(change, actor=ACTOR, pass_number=self.pass_number)

    def _fail(self, draft: Draft, *, failures: Sequence[tuple[SessionId, Failure]]) -> None:
        for session_id, failure in failures:
            session = draft.session(session_id)
            if session is not None and session.is_pending:
                draft.put(transitions.fail(session, failure, now_us=self.now_us), "failed")

    def _fall_back(self, draft: Draft, *, fallbacks: Mapping[SessionId, int]) -> None:
        for session_id, level in fallbacks.items():
            session = draft.session(session_id)
            if session is not None and session.is_pending and session.fallback_level < level:
                draft.put(replace(session, fallback_level=level), "fell_back")

    def _evict(self, draft: Draft, *, evictions: Sequence[Eviction]) -> None:
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
    """Placements in their order, cut where there are `KERNELS_MAX` kernels."""
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
