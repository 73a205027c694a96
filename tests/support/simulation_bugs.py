"""Planted bugs of kinds known from schedulers; a simulation must find each of them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from aliquot.service.agents import messages
from aliquot.service.agents.messages import AgentMessages
from aliquot.service.ledger.changes import EntryBuilder, Pass
from aliquot.service.ledger.entries import Inputs
from aliquot.service.lifecycle import arrays, kernel_reports
from aliquot.service.ports import Batch, StoreUnavailable
from aliquot.service.sessions import sessions
from aliquot.service.sessions.submission import Submission
from aliquot.service.state.journal import Journal
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.state.usage_accounts import ChargedLease, UsageAccounts
from aliquot.store import commit
from aliquot_schema.cluster.launching import AgentSilent, KernelChanged, KernelPhase, KernelReport
from aliquot_schema.events import Event
from aliquot_schema.requests import NewSession
from aliquot_schema.resources.leases import EndEvidence, Kernel, Lease

Bug = Callable[[pytest.MonkeyPatch], None]


def freed_at_cancel(patch: pytest.MonkeyPatch) -> None:
    """A canceled session's devices are freed while its processes are still ending."""

    def stop(draft: UnitOfWork, kernels: list[Kernel], *, now_us: int) -> None:
        for kernel in kernels:
            kernel_reports.end_kernel(draft, kernel, _gone(kernel, now_us), now_us=now_us)

    for module in (sessions, arrays):
        patch.setattr(module, "stop_kernels", stop, raising=False)


def requeued_without_proof(patch: pytest.MonkeyPatch) -> None:
    """Sessions of a lost agent are run elsewhere, though they may still be running."""
    silence = AgentMessages._silence

    async def requeue(self: AgentMessages, silent: Sequence[AgentSilent]) -> None:
        await silence(self, silent)

        def change(draft: UnitOfWork) -> None:
            now_us = self._clock.now_us()
            for one in (one for one in silent if one.lost):
                for kernel in tuple(self._state.live_kernels.on(one.agent_id)):
                    kernel_reports.end_kernel(draft, kernel, _gone(kernel, now_us), now_us=now_us)

        await self._journal.persist(change, actor=messages.ACTOR)

    patch.setattr(AgentMessages, "_silence", requeue)


def forgotten_before_durable(patch: pytest.MonkeyPatch) -> None:
    """An agent is asked to forget an end that is not yet committed."""
    take = AgentMessages._take_reports

    async def forget_first(self: AgentMessages, reports: list[KernelChanged]) -> None:
        for message in reports:
            if message.report.phase is KernelPhase.EXITED:
                self._dispatch.forget(message.agent_id, [message.report.kernel_id])
        await take(self, reports)

    patch.setattr(AgentMessages, "_take_reports", forget_first)


def acknowledged_before_committed(patch: pytest.MonkeyPatch) -> None:
    """A submission is acknowledged though its commit is not confirmed."""
    insert = Submission._insert

    async def hope(self: Submission, caller: Any, fresh: Any) -> Any:
        try:
            return await insert(self, caller, fresh)
        except StoreUnavailable:
            return [replace(session, version=1) for session in fresh]

    patch.setattr(Submission, "_insert", hope)


def charged_twice(patch: pytest.MonkeyPatch) -> None:
    """An event read back from the log is charged twice."""
    grant, absorb = UsageAccounts.grant, Journal.catch_up

    def grant_anyway(self: UsageAccounts, charged: ChargedLease, *, policy: Any) -> None:
        self._rates.pop(charged.lease.id, None)
        grant(self, charged, policy=policy)

    async def again(self: Journal) -> bool:
        last: tuple[Event, ...] = await self._store.events_after(max(self._state.revision - 5, 0), limit=5)
        seen = [event.record for event in last if event.number <= self._state.revision]
        for record in seen:
            if isinstance(record, Lease):
                self._state._charging.charge(record, policy=self._state.rules)
        return await absorb(self)

    patch.setattr(UsageAccounts, "grant", grant_anyway)
    patch.setattr(Journal, "catch_up", again)


def key_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A retried submission creates a second session."""
    session = Submission._session

    def without_key(self: Submission, caller: Any, request: NewSession, **more: Any) -> Any:
        return session(self, caller, replace(request, idempotency_key=None), **more)

    patch.setattr(Submission, "_session", without_key)


def epoch_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A decision of a former leader is still committed."""
    append = commit._append_events

    def of_anybody(connection: Connection, batches: Sequence[Batch]) -> list[tuple[Event, ...]]:
        return append(connection, [replace(batch, epoch=None) for batch in batches])

    patch.setattr(commit, "_append_events", of_anybody)


def input_not_written(patch: pytest.MonkeyPatch) -> None:
    """The ledger omits a change of the agents that accept new sessions."""
    inputs = EntryBuilder._inputs

    def without(self: EntryBuilder, one: Pass) -> Inputs:
        found = inputs(self, one)
        return found if one.records is not None else replace(found, open_agents=None)

    patch.setattr(EntryBuilder, "_inputs", without)


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        freed_at_cancel,
        requeued_without_proof,
        forgotten_before_durable,
        acknowledged_before_committed,
        charged_twice,
        key_forgotten,
        epoch_unchecked,
        input_not_written,
    )
}


def _gone(kernel: Kernel, now_us: int) -> KernelReport:
    return KernelReport(kernel_id=kernel.id, phase=KernelPhase.EXITED, at_us=now_us, evidence=EndEvidence.OPERATOR)
