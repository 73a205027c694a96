"""Grants: what of a plan still holds on the newest state, written into a draft."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aliquot.core import transitions
from aliquot.core.arrays import settled, with_task
from aliquot.core.plan import Placement
from aliquot.core.recheck import still_fits
from aliquot.core.snapshot import startable
from aliquot.service.draft import Draft
from aliquot.service.snapshots import is_open
from aliquot.service.state import State
from aliquot_schema.ids import LEASE_PREFIX, SESSION_PREFIX, AgentId, KernelId, LeaseId, SessionId, kernel_id, task_id
from aliquot_schema.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What was written."""

    sessions: tuple[SessionId, ...]
    """Those that were given devices."""
    versions: Mapping[SessionId, int]
    """Of the job arrays that tasks were split off from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Writes placements. `now_us` and `epoch` are those of the pass."""

    state: State
    epoch: int
    now_us: int
    versions: Mapping[SessionId, int] = field(default_factory=dict)
    """Of job arrays, as the same plan has left them in commits before this one."""

    def write(self, draft: Draft, placements: Iterable[Placement]) -> Granted:
        """Write the placements that still hold."""
        used = self.state.external.over(self.state.used)
        granted: list[SessionId] = []
        arrays: dict[SessionId, int] = {}
        for placement in placements:
            session = draft.session(placement.session_id)
            if session is None or not self._is_as_decided(session, placement):
                continue
            if not all(self._takes_work(kernel.agent_id) for kernel in placement.kernels):
                continue
            if still_fits(placement, layouts=self.state.layouts, used=used):
                if placement.index is not None:
                    session = self._split(draft, session, placement.index)
                    arrays[placement.session_id] = _version(draft, placement.session_id)
                self._grant(draft, session, placement)
                granted.append(session.id)
        return Granted(sessions=tuple(granted), versions=arrays)

    def _is_as_decided(self, session: Session, placement: Placement) -> bool:
        """By the version in the state: a draft raises an array's with every task that it splits off."""
        known = self.state.sessions.get(session.id)
        version = self.versions.get(session.id, placement.version)
        if known is None or known.version != version or session.state is not SessionState.QUEUED:
            return False
        if placement.index is None or session.tasks is None:
            return placement.index is None and session.tasks is None
        return placement.index in session.tasks.waiting and startable(session.tasks) > 0

    def _takes_work(self, agent_id: AgentId) -> bool:
        agent = self.state.agents.get(agent_id)
        return agent is not None and is_open(self.state, agent)

    def _split(self, draft: Draft, array: Session, index: int) -> Session:
        """Make one task of an array a session of its own; one that ran before goes on from its last attempt."""
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

    def _grant(self, draft: Draft, session: Session, placement: Placement) -> None:
        """The session comes first: who is charged for its leases is written there."""
        if session.spec.outside_ms is not None:
            self._grant_outside(draft, session, placement, lasts_ms=session.spec.outside_ms)
            return
        scheduled = draft.put(transitions.schedule(session, now_us=self.now_us), "scheduled")
        for place in placement.kernels:
            name = kernel_id(session.id, attempt=scheduled.attempt, rank=place.rank)
            lease = Lease(
                id=LeaseId(name),
                version=0,
                kind=LeaseKind.SESSION,
                owner=session.owner,
                session_id=session.id,
                kernel_id=name,
                agent_id=place.agent_id,
                spec=place.spec,
                epoch=self.epoch,
                granted_us=self.now_us,
            )
            draft.put(lease, "granted")
            draft.put(self._kernel(name, scheduled, place.rank, place.agent_id), "granted")

    def _grant_outside(self, draft: Draft, session: Session, placement: Placement, *, lasts_ms: int) -> None:
        """Nothing is started: from now on it runs, wherever it does."""
        draft.put(transitions.hold_outside(session, now_us=self.now_us), "running")
        for place in placement.kernels:
            lease = Lease(
                id=LeaseId(f"{LEASE_PREFIX}{session.id.removeprefix(SESSION_PREFIX)}.{place.rank}"),
                version=0,
                kind=LeaseKind.MANUAL,
                owner=session.owner,
                session_id=session.id,
                agent_id=place.agent_id,
                spec=place.spec,
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


def _version(draft: Draft, session_id: SessionId) -> int:
    session = draft.session(session_id)
    assert session is not None, f"{session_id} is not known"
    return session.version
