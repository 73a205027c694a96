"""Agent administration: drain, resume, label, assign to a pool, and release lost agents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.service.lifecycle.agent_registration import leave
from aliquot.service.lifecycle.external_leases import end_on
from aliquot.service.lifecycle.kernel_reports import end_kernel
from aliquot.service.lifecycle.preemption import evict
from aliquot.service.operators import OperatorCommands
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.agents import agent_view
from aliquot_schema.cluster.agents import LABEL_CHARS_MAX, LABELS_MAX, NOTE_CHARS_MAX, Agent
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.errors import InvalidRequest, LimitExceeded, NotFound, StateConflict
from aliquot_schema.ids import AgentId, PoolId
from aliquot_schema.requests import Caller
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import AgentState, KernelState, SessionState
from aliquot_schema.views.admin import AgentChanged

ID_CHARS_MAX: Final = 80


class AgentAdministration(OperatorCommands):
    """Commands of operators on agents. Their effects survive restarts of agents and servers; all are idempotent."""

    async def drain_agent(self, caller: Caller, agent_id: str, *, note: str | None, evicts: bool) -> AgentChanged:
        """Place nothing new on an agent; with `evicts` preempt and requeue what runs there.

        Raises:
            Forbidden, NotFound, InvalidRequest.
        """
        checked = _note(note)

        def change(draft: UnitOfWork) -> Agent:
            agent = _found(draft, agent_id)
            drained = replace(
                agent,
                draining=True,
                evicted_by=caller.user if evicts else None,
                note=checked if checked is not None else agent.note,
            )
            changed = _put(draft, agent, drained, "draining")
            if evicts:
                self._evict(draft, agent.id, caller)
            return changed

        return await self._execute(caller, change)

    async def resume_agent(self, caller: Caller, agent_id: str) -> AgentChanged:
        """Undo a drain, and clear its note.

        Raises:
            Forbidden, NotFound.
        """

        def change(draft: UnitOfWork) -> Agent:
            agent = _found(draft, agent_id)
            note = agent.note if not agent.draining or not agent.schedulable else None
            return _put(draft, agent, replace(agent, draining=False, evicted_by=None, note=note), "resumed")

        return await self._execute(caller, change)

    async def set_agent_schedulable(
        self, caller: Caller, agent_id: str, *, schedulable: bool, note: str | None
    ) -> AgentChanged:
        """Set whether new sessions are placed on an agent.

        Raises:
            Forbidden, NotFound, InvalidRequest.
        """
        checked = _note(note)

        def change(draft: UnitOfWork) -> Agent:
            agent = _found(draft, agent_id)
            kept = checked if checked is not None or schedulable else agent.note
            return _put(draft, agent, replace(agent, schedulable=schedulable, note=kept), "schedulable_changed")

        return await self._execute(caller, change)

    async def label_agent(self, caller: Caller, agent_id: str, labels: Sequence[tuple[str, str]]) -> AgentChanged:
        """Replace the labels of an agent.

        Raises:
            Forbidden, NotFound, InvalidRequest.
        """
        checked = _labels(labels)

        def change(draft: UnitOfWork) -> Agent:
            agent = _found(draft, agent_id)
            return _put(draft, agent, replace(agent, labels=checked), "labelled")

        return await self._execute(caller, change)

    async def assign_agent_pool(self, caller: Caller, agent_id: str, pool: str) -> AgentChanged:
        """Move an agent to a pool of the policy; running sessions stay.

        Raises:
            Forbidden, NotFound.
            InvalidRequest: the pool does not exist.
        """

        def change(draft: UnitOfWork) -> Agent:
            agent, known = _found(draft, agent_id), draft.policy().pools
            if pool not in known:
                raise InvalidRequest(
                    f"pool: {pool[:ID_CHARS_MAX]!r} does not exist; pools: {', '.join(sorted(known))}", field="pool"
                )
            return _put(draft, agent, replace(agent, pool=PoolId(pool)), "pool_assigned")

        return await self._execute(caller, change)

    async def release_lost_agent(self, caller: Caller, agent_id: str) -> AgentChanged:
        """Free the devices of a lost agent on an operator's word that its processes are gone. Sessions are retried
        within their retry budget.

        Raises:
            Forbidden, NotFound.
            StateConflict: the agent is not lost, so its own reports decide.
        """

        def change(draft: UnitOfWork) -> Agent:
            agent = _found(draft, agent_id)
            if agent.state is not AgentState.LOST:
                raise StateConflict(
                    f"{agent.id} is {agent.state}; only a lost agent can be released", id=agent.id, state=agent.state
                )
            self._end_kernels(draft, agent.id)
            end_on(draft, agent.id, self._state.external_allocations.sessions(), now_us=self._clock.now_us())
            leave(draft, agent.id, to=AgentState.LEFT, now_us=self._clock.now_us())
            return _found(draft, agent_id)

        return await self._execute(caller, change)

    async def _execute(self, caller: Caller, change: Callable[[UnitOfWork], Agent]) -> AgentChanged:
        agent = await self._act(caller, change)
        return AgentChanged(agent=agent_view(self._state, self._state.agents[agent.id]), revision=self._state.revision)

    def _evict(self, draft: UnitOfWork, agent_id: AgentId, caller: Caller) -> None:
        for kernel in self._held_kernels(agent_id):
            session = draft.session(kernel.session_id)
            if session is None or session.state is not SessionState.RUNNING or session.attempt != kernel.attempt:
                continue  # not started yet, or preempted with an earlier rank
            evict(
                draft,
                session,
                cause=PreemptionCause.DRAIN,
                by_session=None,
                by_user=caller.user,
                now_us=self._clock.now_us(),
            )

    def _end_kernels(self, draft: UnitOfWork, agent_id: AgentId) -> None:
        """End the kernels of an agent; kernels of the same sessions on other agents are stopped."""
        for known in self._held_kernels(agent_id):
            kernel = draft.kernel(known.id) or known  # ending an earlier kernel may have changed it
            if kernel.state is KernelState.EXITED:
                continue
            now_us = self._clock.now_us()
            gone = KernelReport(
                kernel_id=kernel.id,
                phase=KernelPhase.EXITED,
                at_us=now_us,
                evidence=EndEvidence.OPERATOR,
                message=f"{agent_id} was lost and an operator confirmed that its processes are gone",
            )
            end_kernel(draft, kernel, gone, now_us=now_us)

    def _held_kernels(self, agent_id: AgentId) -> list[Kernel]:
        return sorted(self._state.live_kernels.on(agent_id), key=lambda known: known.id)


def _found(draft: UnitOfWork, agent_id: str) -> Agent:
    agent = draft.agent(AgentId(agent_id))
    if agent is None:
        name = agent_id[:ID_CHARS_MAX]
        raise NotFound(f"there is no agent {name}", kind="agent", id=name)
    return agent


def _put(draft: UnitOfWork, known: Agent, changed: Agent, what: str) -> Agent:
    return known if changed == known else draft.put(changed, what)


def _note(note: str | None) -> str | None:
    if note is not None and len(note) > NOTE_CHARS_MAX:
        raise LimitExceeded(
            f"note: at most {NOTE_CHARS_MAX} characters", field="note", limit=NOTE_CHARS_MAX, actual=len(note)
        )
    return note.strip() or None if note is not None else None


def _labels(labels: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if len(labels) > LABELS_MAX:
        raise LimitExceeded(f"labels: at most {LABELS_MAX}", field="labels", limit=LABELS_MAX, actual=len(labels))
    for name, value in labels:
        if not 1 <= len(name) <= LABEL_CHARS_MAX or len(value) > LABEL_CHARS_MAX or not (name + value).isprintable():
            raise InvalidRequest(
                f"labels: names and values are 1 to {LABEL_CHARS_MAX} printable characters", field="labels"
            )
        if name in found:
            raise InvalidRequest(f"labels: {name} is given twice", field="labels")
        found[name] = value
    return found
