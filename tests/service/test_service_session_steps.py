"""Steps of a session: every transition of all attempts, newest first, with each preemption receipt."""

import pytest

from aliquot.core.model.plan import Eviction, Plan
from aliquot.service.views.sessions import KINDS, session_view
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import Caller, PageRequest, Role
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState
from aliquot_schema.views.audit import SessionStepView
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

STRANGER = Caller(user=UserId("eve"), request_id="req_test", role=Role.VIEWER)


async def steps(on: Stage, session_id: SessionId, *, first: int = 100) -> list[SessionStepView]:
    """All steps, page by page, oldest first."""
    found: list[SessionStepView] = []
    page = PageRequest(first=first, after=None)
    while True:
        piece = await on.queries.session_steps(STRANGER, session_id, page)
        assert len(piece.items) <= first
        found += piece.items
        if not piece.has_next:
            return found[::-1]
        page = PageRequest(first=first, after=piece.cursors[-1])


async def makes_room(on: Stage, session_id: SessionId, *, for_whom: str) -> None:
    """It is preempted and waits again."""
    eviction = Eviction(
        session_id=session_id,
        version=on.session(session_id).version,
        cause=PreemptionCause.PRIORITY,
        by_session=SessionId("ses_other"),
        by_user=UserId(for_whom),
        grace_ms=60_000,
    )
    await on.allocator.carry_out(Plan(evictions=(eviction,)))
    await on.settle()
    on.executor.end_kernel(on.live()[0], code=None, signal=15)  # type: ignore[arg-type]  # a kernel's id
    await on.settle()


async def test_session_steps_list_every_state_change_and_preemption_of_every_attempt() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id = await on.submit()
        await on.sessions.hold_session(CALLER, session_id, None)
        await on.sessions.update_session_priority(CALLER, session_id, "high", None)
        await on.sessions.release_session(CALLER, session_id, None)
        for whom in ("ben", "cleo"):
            await on.advance()
            await makes_room(on, session_id, for_whom=whom)
        await on.advance()
        on.executor.end_kernel(on.live()[0], code=0)  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        assert on.session(session_id).state is SessionState.COMPLETED

        found = await steps(on, session_id, first=3)
        tries = [[f"{step.state}" for step in found if step.attempt == attempt] for attempt in range(4)]
        waits, runs = ["queued", "held", "queued"], ["scheduled", "allocating", "running"]
        assert tries == [waits, *[[*runs, "preempting", "queued"]] * 2, [*runs, "completed"]]
        assert [step.held_by for step in found if step.state is SessionState.HELD] == ["ann"]
        assert [step.kind for step in found[:3]] == ["session.queued", "session.held", "session.released"]
        receipts = [step.preemption for step in found if step.state is SessionState.PREEMPTING]
        assert [receipt and receipt.by_user for receipt in receipts] == ["ben", "cleo"]
        lost = [step.preemption for step in found if step.kind == "session.requeued"]
        assert [receipt is not None and receipt.lost_gpu_seconds is not None for receipt in lost] == [True, True]
        assert [step.number for step in found] == sorted({step.number for step in found})
        assert found == await steps(on, session_id)


async def test_an_unknown_session_has_no_steps() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.submit()
        assert await steps(on, SessionId("ses_x")) == []


async def test_every_event_that_changes_the_state_of_a_session_is_a_step() -> None:
    """Events of other kinds leave state and attempt unchanged."""
    async with stage([agent("a", devices=1)]) as on:
        session_id = await on.submit(max_retries=1)
        await on.advance()
        await makes_room(on, session_id, for_whom="ben")
        await on.sessions.update_session_priority(CALLER, session_id, "high", None)
        await on.cancel(session_id)
        await on.sessions.retry_session(CALLER, session_id, None)
        before = None
        for event in await on.events():
            if event.entity_id != session_id:
                continue
            now = (event.record.state, event.record.attempt)  # type: ignore[union-attr]  # it is a session
            assert now == before or event.kind in KINDS, event.kind
            before = now


async def test_a_hold_is_shown_before_the_next_pass() -> None:
    async with stage([agent("a", devices=1)]) as on:
        waiting = [await on.submit() for _ in range(4)][1:]
        await on.allocator.run_once()
        held, *others = waiting

        def shown(session_id: SessionId) -> tuple[Reason | None, int | None]:
            view = session_view(on.state, on.session(session_id))
            return None if view.waits is None else view.waits.reason, view.queue_position

        assert [shown(name)[1] for name in waiting] == [1, 2, 3]
        assert held in on.state.promised_us
        await on.sessions.hold_session(CALLER, held, None)
        assert shown(held) == (Reason.HELD, None)
        assert held not in on.state.promised_us
        assert [shown(name)[1] for name in others] == [1, 2]
        assert list(on.state.queue()) == [*others, held]
        await on.sessions.release_session(CALLER, held, None)
        assert shown(held) == (None, None), "no pass has seen it since"
