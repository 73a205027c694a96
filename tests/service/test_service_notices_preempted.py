"""Owners are notified when their sessions are preempted, with the beneficiary and the rule."""

from typing import Any, Final

import pytest

from aliquot.core.model.plan import Eviction, Plan
from aliquot.service.admin.admin import Administration
from aliquot.service.alerts.routing import Receiver
from aliquot_schema.alerts import NoticeKind, Severity, Subscriber
from aliquot_schema.ids import SessionId, UserId, task_id
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState
from notices_pipeline import AlertPipeline, alert_pipeline
from service_bench import agent
from service_stage import CALLER

pytestmark = pytest.mark.anyio

ANN: Final = UserId("ann")
OPS: Final = Receiver(name="ops", kind="webhook")
OWNERS: Final = Receiver(name="owners", kind="webhook", tells_alerts=False, tells_owners=True)
MAIL: Final = Receiver(name="mail", kind="email", tells_alerts=False, tells_owners=True)
OTHER: Final = SessionId("ses_other")
AFTER: Final = "; it is stopped at the end of its grace period and queued again"
CAUSES: Final = {
    PreemptionCause.PRIORITY: "for a session of a higher priority",
    PreemptionCause.QUOTA: "for the owner of the quota that it ran on",
    PreemptionCause.ORDER: "for a session that comes before it",
    PreemptionCause.DRAIN: "because its agent is drained",
    PreemptionCause.EVICTION: "because its node is about to be taken away",
    PreemptionCause.DEVICE: "because one of its devices is gone or has a hardware fault",
    PreemptionCause.BOOKING: "because its devices are booked",
    PreemptionCause.GROW: "to start again with more kernels",
}


async def runs(on: AlertPipeline, **asked: Any) -> SessionId:
    await on.deliver()
    session_id = await on.stage.submit(**asked)
    await on.stage.advance()
    return session_id


async def makes_room(
    on: AlertPipeline,
    session_id: SessionId,
    *,
    cause: PreemptionCause = PreemptionCause.PRIORITY,
    by_session: SessionId | None = OTHER,
) -> None:
    """Carry out a plan that preempts a session for one of ben's, and notify."""
    eviction = Eviction(
        session_id=session_id,
        version=on.stage.session(session_id).version,
        cause=cause,
        by_session=by_session,
        by_user=UserId("ben"),
        grace_ms=60_000,
    )
    await on.stage.allocator.carry_out(Plan(evictions=(eviction,)))
    assert on.stage.session(session_id).state is SessionState.PREEMPTING
    await on.deliver()


async def likes(on: AlertPipeline, *kinds: NoticeKind) -> None:
    subscriber = Subscriber(id=ANN, email="ann@example.org", notify=kinds)
    await on.stage.journal.transact(lambda draft: draft.put(subscriber, "changed"), actor=ANN)


# An eviction for idle GPUs needs an earlier notice to the owner; see test_ledger_idle.
@pytest.mark.parametrize("cause", [cause for cause in PreemptionCause if cause is not PreemptionCause.IDLE])
@pytest.mark.parametrize(("by_session", "by"), [(OTHER, " (ses_other of ben)"), (None, "")])
async def test_the_owner_of_a_preempted_session_gets_a_notice_with_the_cause(
    cause: PreemptionCause, by_session: SessionId | None, by: str
) -> None:
    async with alert_pipeline(OWNERS, OPS) as on:
        session = await runs(on, name="train")
        await makes_room(on, session, cause=cause, by_session=by_session)
        (letter,) = on.senders["owners"].messages
        (told,) = letter.notices
        assert (letter.user, told.kind, told.severity, told.subject) == (
            ANN,
            NoticeKind.SESSION_PREEMPTED,
            Severity.INFO,
            session,
        )
        assert told.words == f"train ({session}) is being preempted, {CAUSES[cause]}{by}{AFTER}"
        assert on.senders["ops"].messages == []


async def test_a_drain_sends_one_notice_and_the_end_of_the_attempt_sends_none() -> None:
    async with alert_pipeline(OWNERS) as on:
        session = await runs(on)
        office = Administration(state=on.stage.state, journal=on.stage.journal, clock=on.stage.clock)
        await office.agents.drain_agent(CALLER, "a", note=None, evicts=True)
        await on.deliver()
        await on.stage.settle()
        on.stage.executor.end_kernel(on.stage.live()[0], code=None, signal=15)  # type: ignore[arg-type]  # a kernel's id
        await on.stage.settle()
        await on.deliver()
        assert on.stage.session(session).state is SessionState.QUEUED
        assert on.senders["owners"].texts == [
            [f"{session} is being preempted, {CAUSES[PreemptionCause.DRAIN]}{AFTER}"],
        ]


async def test_preemption_notices_are_sent_by_default_and_can_be_deselected() -> None:
    async with alert_pipeline(OWNERS, MAIL, agents=[agent("a", devices=3)]) as on:
        first, second, third = [await runs(on) for _ in range(3)]
        await makes_room(on, first)
        assert (len(on.senders["owners"].messages), on.senders["mail"].messages) == (1, [])
        await likes(on, NoticeKind.SESSION_PREEMPTED)
        await makes_room(on, second)
        (letter,) = on.senders["mail"].messages
        assert (letter.email, letter.notices[0].subject) == ("ann@example.org", second)
        await likes(on, NoticeKind.SESSION_FAILED)
        await makes_room(on, third)
        assert (len(on.senders["owners"].messages), len(on.senders["mail"].messages)) == (2, 1)


async def test_a_preempted_task_of_an_array_sends_no_notice() -> None:
    async with alert_pipeline(OWNERS) as on:
        array = await runs(on, array="0-1")
        await makes_room(on, task_id(array, index=0))
        assert on.senders["owners"].messages == []
