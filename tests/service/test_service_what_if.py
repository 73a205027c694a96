"""What-if questions: one more session, a drained agent, another policy, more agents; none changes state."""

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.sessions import what_if
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, RateLimited
from aliquot_schema.ids import SessionId, UserId, kernel_id
from aliquot_schema.orchestration import OrchestratorState
from aliquot_schema.requests import Caller, NewSession, Role, WhatIf
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.explanations import WhatIfView
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio
USER = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER)
HOUR_S = 3600


async def ask(on: Stage, **asked: Any) -> WhatIfView:
    revision, held = on.state.revision, on.held()
    found = await on.queries.what_if(USER, WhatIf(**asked))
    assert (on.state.revision, on.held()) == (revision, held)
    return found


async def waiting_for_one(on: Stage) -> tuple[SessionId, SessionId]:
    """One running for an hour on all GPUs of agent a, and one as large."""
    first = await on.submit(devices=2, time_limit=HOUR_S)
    await on.advance()
    second = await on.submit(devices=2, time_limit=HOUR_S)
    await on.advance()
    assert [on.session(name).state for name in (first, second)] == [S.RUNNING, S.QUEUED]
    return first, second


def request(devices: int, **more: Any) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", str(devices))], **more)


async def test_a_what_if_with_one_more_session_shows_its_start_and_the_delayed_sessions() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first, _ = await waiting_for_one(on)
        found = await ask(on, session=request(2, time_limit=HOUR_S))
        assert found.session is not None
        assert not found.session.starts_now
        assert found.session_start is not None
        assert (found.session_start - found.at).total_seconds() == pytest.approx(2 * HOUR_S, abs=1)
        assert (found.later, found.sooner, found.starts, found.displaced) == ((), (), (), ())
        policy = {"order": "priority"}
        urgent = await ask(on, session=request(2, time_limit=HOUR_S, priority="normal"), policy=policy)
        assert urgent.later_count == 0
        assert first


async def test_a_what_if_with_a_higher_priority_shows_the_delay_of_the_waiting_session() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit(devices=2, time_limit=HOUR_S)
        await on.advance()
        low = await on.submit(devices=2, time_limit=HOUR_S, priority="low")
        await on.advance()
        found = await ask(on, session=request(2, time_limit=HOUR_S), policy={"order": "priority"})
        [delay] = found.later
        assert (delay.session.session_id, found.later_count) == (low, 1)
        assert delay.before is not None
        assert delay.after is not None
        assert (delay.after - delay.before).total_seconds() == pytest.approx(HOUR_S, abs=1)
        assert found.wait_before == pytest.approx(HOUR_S, abs=1)
        assert found.wait_after == pytest.approx((found.wait_before or 0) + HOUR_S, abs=1)


async def test_a_what_if_uses_run_times_of_similar_sessions_for_the_additional_session() -> None:
    async with stage([agent("a", devices=2)]) as on:
        for _ in range(3):
            name = await on.submit(devices=2)
            await on.advance()
            on.clock.advance(HOUR_S / 6)
            on.executor.end_kernel(kernel_id(name, attempt=1, rank=0))
            await on.settle()
        known = await on.submit(devices=2, time_limit=HOUR_S)
        await on.advance()
        waits = await on.submit(devices=2, time_limit=2 * HOUR_S, estimated_duration=2 * HOUR_S)
        await on.advance()
        found = await ask(on, session=request(2), policy={"order": "sjf"})
        assert found.session_start is not None
        assert (found.session_start - found.at).total_seconds() == pytest.approx(HOUR_S, abs=5)
        [delay] = found.later
        assert delay.session.session_id == waits
        assert delay.before is not None
        assert delay.after is not None
        assert (delay.after - delay.before).total_seconds() == pytest.approx(HOUR_S / 6, abs=5)
        assert on.session(known).state is S.RUNNING


async def test_a_what_if_with_two_more_agents_starts_waiting_sessions() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, second = await waiting_for_one(on)
        found = await ask(on, like="a", count=2)
        assert [other.session_id for other in found.starts] == [second]
        with pytest.raises(NotFound, match=r"^there is no agent gpu99$"):
            await ask(on, like="gpu99")
        with pytest.raises(InvalidRequest):
            await ask(on, like="a", count=65)


async def test_a_what_if_with_a_drain_names_displaced_and_delayed_sessions() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        first, second = await on.submit(devices=2, time_limit=HOUR_S), await on.submit(devices=2, time_limit=HOUR_S)
        await on.advance()
        third = await on.submit(devices=2, time_limit=HOUR_S)
        await on.advance()
        place = on.state.kernels_in(on.session(first))[0].agent_id
        evicted = await ask(on, drain=place, evict=True)
        assert [other.session_id for other in evicted.displaced] == [first]
        (restart,) = evicted.restarts
        assert (restart.session.session_id, restart.before) == (first, None)
        assert restart.after is not None
        assert (restart.after - evicted.at).total_seconds() == pytest.approx(HOUR_S, abs=60)
        kept = await ask(on, drain=place)
        assert kept.displaced == ()
        fourth = await on.submit(devices=2, time_limit=HOUR_S)
        await on.advance()
        later = await ask(on, drain=place)
        assert {delay.session.session_id for delay in later.later} <= {third, fourth}
        assert later.later_count == 1
        assert second


async def test_the_preview_of_one_more_session_is_of_the_state_with_the_other_changes() -> None:
    async with stage([agent("a", devices=2)]) as on:
        free = await ask(on, session=request(1))
        drained = await ask(on, session=request(1), drain="a")
        grown = await ask(on, session=request(1), drain="a", like="a", count=1)
        assert free.session is not None
        assert drained.session is not None
        assert grown.session is not None
        assert free.session.starts_now
        assert (drained.session.starts_now, drained.session_start) == (False, None)
        assert [kernel.agent_id for kernel in grown.session.kernels] == ["a+1"]


async def test_a_what_if_notes_that_scheduling_is_stopped() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await waiting_for_one(on)
        assert (await ask(on, session=request(1))).note is None
        stopped = replace(on.state.orchestration, state=OrchestratorState.STOPPED)
        await on.journal.transact(lambda draft: draft.put(stopped, "stopped"), actor="ann")
        found = await ask(on, session=request(1))
        assert found.note == "scheduling is stopped, so nothing starts; the times are those if it were started now"


async def test_a_what_if_without_a_change_is_refused_and_viewers_ask_about_the_cluster_alone() -> None:
    async with stage([agent("a", devices=1)]) as on:
        with pytest.raises(InvalidRequest):
            await ask(on)
        with pytest.raises(NotFound, match=r"^there is no agent gpu99$"):
            await ask(on, drain="gpu99")
        with pytest.raises(InvalidRequest):
            await ask(on, policy={"order": "whim"})
        viewer = Caller(user=UserId("eve"), request_id="req_test", role=Role.VIEWER)
        assert (await on.queries.what_if(viewer, WhatIf(drain="a"))).later_count == 0
        with pytest.raises(Forbidden):
            await on.queries.what_if(viewer, WhatIf(session=request(1)))


async def test_questions_beyond_the_limit_of_a_user_are_refused_and_later_ones_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, plans = threading.Event(), what_if.planned_run

    def slow(*given: Any, **named: Any) -> Any:
        assert goes_on.wait(60)
        return plans(*given, **named)

    monkeypatch.setattr(what_if, "planned_run", slow)
    other = replace(USER, user=UserId("bob"))
    async with stage([agent("a", devices=2)]) as on, asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask(on, session=request(1))) for _ in range(what_if.OPEN_OF_ONE_MAX)]
        await asyncio.sleep(0.1)
        with pytest.raises(RateLimited, match=r"^what_if: your earlier questions are not answered yet"):
            await ask(on, session=request(1))
        asked.append(tasks.create_task(on.queries.what_if(other, WhatIf(session=request(1)))))
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in asked)
        goes_on.set()
        assert all([(await task).session for task in asked])
        assert (await ask(on, session=request(1))).session
