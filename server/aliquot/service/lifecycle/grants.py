"""Grants: writes leases and kernels for the placements of a plan that are still valid in the newest state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aliquot.core import transitions
from aliquot.core.model.plan import Placement, still_fits
from aliquot.core.model.snapshot import PendingRow, asks_the_same, startable
from aliquot.core.transitions import settled, with_task
from aliquot.service.state.snapshots import is_open
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import LEASE_PREFIX, SESSION_PREFIX, AgentId, KernelId, LeaseId, SessionId, kernel_id, task_id
from aliquot_schema.resources.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Writer of placements; `now_us` and `epoch` are those of the pass."""

    state: State
    epoch: int
    now_us: int
    arrays: Mapping[SessionId, PendingRow] = field(default_factory=dict)
    """Job arrays as the pass saw them. An array that is missing is only valid in the version of its placement."""

    def write(self, draft: UnitOfWork, placements: Iterable[Placement]) -> tuple[SessionId, ...]:
        """Write the placements that are still valid, and skip the others; returns the sessions granted devices."""
        used = self.state.foreign_usage.over(self.state.used)
        granted: list[SessionId] = []
        for placement in placements:
            session = draft.session(placement.session_id)
            if session is None or not self._is_as_decided(session, placement):
                continue
            if not all(self._takes_work(kernel.agent_id) for kernel in placement.kernels):
                continue
            if still_fits(placement, layouts=self.state.layouts, used=used):
                if placement.index is not None:
                    session = self._split(draft, session, placement.index)
                self._grant(draft, session, placement)
                granted.append(session.id)
        return tuple(granted)

    def _is_as_decided(self, session: Session, placement: Placement) -> bool:
        """Whether the session is as the pass saw it.

        Reads the version in the state, because the unit of work raises an array's with each task it splits off. An
        array may have changed in its tasks alone: they end at any time, also between two commits of one plan.
        """
        row = self.state.pending.get(session.id)
        if row is None or session.state is not SessionState.QUEUED:
            return False
        seen = self.arrays.get(session.id, row)
        if row.version != placement.version and not (seen.version == placement.version and asks_the_same(row, seen)):
            return False
        if placement.index is None or session.tasks is None:
            return placement.index is None and session.tasks is None
        return placement.index in session.tasks.waiting and startable(session.tasks) > 0

    def _takes_work(self, agent_id: AgentId) -> bool:
        agent = self.state.agents.get(agent_id)
        return agent is not None and is_open(self.state, agent)

    def _split(self, draft: UnitOfWork, array: Session, index: int) -> Session:
        """Make one task of an array a session of its own; one that ran before continues its attempt numbers."""
        split = settled(with_task(array, index, place="active"), now_us=self.now_us)
        draft.merge(split, "running" if split.state is SessionState.RUNNING else "split")
        name = task_id(array.id, index=index)
        known = draft.session(name)
        if known is not None:
            waiting = transitions.run_again(known, now_us=self.now_us) if known.is_ended else known
            free = transitions.let_go(waiting) if waiting.state is SessionState.HELD else waiting
            return replace(free, queued_us=array.queued_us, fallback_level=array.fallback_level)
        return replace(
            array,
            id=name,
            version=0,
            attempt=0,
            idempotency_key=None,
            request_hash=None,
            array_id=array.id,
            array_index=index,
            tasks=None,
        )

    def _grant(self, draft: UnitOfWork, session: Session, placement: Placement) -> None:
        """Write session, leases and kernels, the session first: it names the account charged for its leases."""
        if session.spec.outside_ms is not None:
            lease_ms = session.spec.outside_ms
            lasts_ms = min(lease_ms, session.spec.time_limit_ms or lease_ms)
            self._grant_external_allocation(draft, session, placement, lasts_ms=lasts_ms)
            return
        scheduled = draft.put(transitions.schedule(session, now_us=self.now_us), "scheduled")
        for kernel in placement.kernels:
            name = kernel_id(session.id, attempt=scheduled.attempt, rank=kernel.rank)
            lease = Lease(
                id=LeaseId(name),
                version=0,
                kind=LeaseKind.SESSION,
                owner=session.owner,
                session_id=session.id,
                kernel_id=name,
                agent_id=kernel.agent_id,
                spec=kernel.spec,
                epoch=self.epoch,
                granted_us=self.now_us,
            )
            draft.put(lease, "granted")
            draft.put(self._kernel(name, scheduled, kernel.rank, kernel.agent_id), "granted")

    def _grant_external_allocation(
        self, draft: UnitOfWork, session: Session, placement: Placement, *, lasts_ms: int
    ) -> None:
        """Write an external allocation, which runs from now on without kernels."""
        draft.put(transitions.hold_external_allocation(session, now_us=self.now_us), "running")
        for kernel in placement.kernels:
            lease = Lease(
                id=LeaseId(f"{LEASE_PREFIX}{session.id.removeprefix(SESSION_PREFIX)}.{kernel.rank}"),
                version=0,
                kind=LeaseKind.MANUAL,
                owner=session.owner,
                session_id=session.id,
                agent_id=kernel.agent_id,
                spec=kernel.spec,
                epoch=self.epoch,
                granted_us=self.now_us,
                until_us=self.now_us + lasts_ms * 1000,
            )
            draft.put(lease, "granted")

    def _kernel(self, name: KernelId, session: Session, rank: int, agent_id: AgentId) -> Kernel:
        return Kernel(
            id=name,
            version=0,
            session_id=session.id,
            attempt=session.attempt,
            rank=rank,
            agent_id=agent_id,
            epoch=self.epoch,
            granted_us=self.now_us,
        )
