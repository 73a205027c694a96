"""Operations in unusual orders: repeated, overlapping, after a change, and on sessions not in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.idle_process import IdleCase
from aliquot.service.agents.administration import AgentAdministration
from aliquot.service.lifecycle.idle_sessions import record
from aliquot.service.quotas import Quotas
from aliquot.service.retention import ClockJumps
from aliquot.service.sessions.files import SessionFiles
from aliquot_schema.errors import BookingRefused, Forbidden, ImpossibleRequest, StateConflict, Unavailable
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import AgentId, KernelId, ProjectId, SessionId, UserId
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import BookingFile, Caller, NewBooking, NewSession, SessionAmendment, WhatIf
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.bookings import BookingImportView
from service_bench import agent
from service_reaping import running
from service_stage import CALLER, Stage, stage
from workspace_parts import workspaces_of

pytestmark = pytest.mark.anyio

BOB = Caller(user=UserId("bob"), request_id="req_test", role=Role.USER, projects=(ProjectId("audio"),))
EVENT = (
    "BEGIN:VEVENT\r\nUID:{0}\r\nDTSTAMP:20270101T000000Z\r\nSUMMARY:{1}\r\n"
    "DTSTART:{2}\r\nDURATION:PT1H\r\n{3}END:VEVENT\r\n"
)


def asks(**more: Any) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], **more)


def administration(on: Stage) -> AgentAdministration:
    return AgentAdministration(state=on.state, journal=on.journal, clock=on.clock)


class Unreachable:
    """Results are on unreachable agents."""

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: Any) -> Any:
        raise Unavailable(f"{agent_id} was asked for {kernel_id} and {target}")


@asynccontextmanager
async def passes(on: Stage) -> AsyncIterator[None]:
    task = asyncio.create_task(on.allocator.run())
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def imported(on: Stage, content: str, *, name: str) -> BookingImportView:
    async with passes(on):
        return await on.booking_imports.run(
            CALLER, BookingFile(file_name=name, content=content.encode(), dry_run=False)
        )


def calendar(*events: str) -> str:
    return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n" + "".join(events) + "END:VCALENDAR\r\n"


def in_days(on: Stage, days: int) -> datetime:
    return datetime.fromtimestamp(on.clock.now_us() / 1e6, UTC) + timedelta(days=days)


async def test_a_file_of_bookings_may_be_imported_again() -> None:
    """Two rows have the same name: the second booking got a number."""
    async with stage([agent("a", devices=4)]) as on:
        day = f"{in_days(on, 2):%Y-%m-%d}"
        text = f"name,start,end,gpus\nann,{day} 09:00,{day} 10:00,1\nann,{day} 12:00,{day} 13:00,1\n"
        assert [row.state for row in (await imported(on, text, name="a.csv")).rows] == ["booked", "booked"]
        assert [row.state for row in (await imported(on, text, name="a.csv")).rows] == ["known", "known"]
        assert [one.name for one in on.state.bookings.open] == ["ann", "ann-2"]


async def test_a_corrected_calendar_adds_what_is_new() -> None:
    async with stage([agent("a", devices=4)]) as on:
        day = in_days(on, 2)
        first = EVENT.format(1, "talk", f"{day:%Y%m%dT090000Z}", "RRULE:FREQ=WEEKLY;COUNT=2\r\n")
        longer = first.replace("COUNT=2", "COUNT=3")
        other = EVENT.format(2, "other", f"{day:%Y%m%dT150000Z}", "")
        assert [row.state for row in (await imported(on, calendar(first), name="a.ics")).rows] == ["booked"]
        again = await imported(on, calendar(longer, other), name="a.ics")
        assert [(row.state, row.windows) for row in again.rows] == [("booked", 1), ("booked", 1)]
        assert sorted(one.series or "" for one in on.state.bookings.open) == ["", "talk", "talk", "talk"]


async def test_giving_back_a_booking_ends_its_pending_extension() -> None:
    async with stage([agent("a", devices=1)]) as on:
        at = in_days(on, 1)
        async with passes(on):
            ends_at = at + timedelta(hours=1)
            await on.bookings.reserve(CALLER, NewBooking(name="x", starts_at=at, ends_at=ends_at, gpus=1))
        extending = asyncio.create_task(on.bookings.extend(CALLER, "x", at + timedelta(hours=2)))
        await on.feed.reached(on.state.revision + 1)
        await on.bookings.give_back(CALLER, "x")
        with pytest.raises(BookingRefused, match="it is over"):
            await extending


async def test_a_project_with_an_open_booking_stays() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("audio")
        at = in_days(on, 1)
        asked = NewBooking(name="x", starts_at=at, ends_at=at + timedelta(hours=1), gpus=1, project="audio")
        async with passes(on):
            await on.bookings.reserve(CALLER, asked)
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        with pytest.raises(StateConflict, match="it has the booking x"):
            await quotas.delete_project(CALLER, "audio")


async def test_an_evicting_drain_also_preempts_what_was_starting() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        name = SessionId((await on.sessions.create_session(CALLER, asks())).session.id)
        await on.allocator.run_once()
        assert on.session(name).state is S.ALLOCATING
        (kernel,) = on.state.kernels_in(on.session(name))
        await administration(on).drain_agent(CALLER, kernel.agent_id, note=None, evicts=True)
        await on.settle()
        on.clock.advance(5)
        await on.advance()
        seen = on.session(name)
        assert (seen.state, seen.preemption and seen.preemption.cause) == (S.PREEMPTING, "drain")
        await administration(on).resume_agent(CALLER, kernel.agent_id)
        assert on.state.agents[kernel.agent_id].evicted_by is None


async def test_a_new_attempt_is_not_preempted_for_idleness_of_the_one_before() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        name, kernel_id = await running(on)
        case = IdleCase(
            session_id=name,
            attempt=1,
            action=IdleAction.PREEMPT,
            step=IdleStep.DUE,
            gpus=("cuda0",),
            idle_us=3_600_000_000,
            was_used=False,
            step_us=on.clock.now_us(),
        )
        words = {"name": "idle/x/0", "owner": "ann", "words": "did nothing"}
        await on.journal.persist(lambda draft: record(draft, case, **words), actor="system:idle")
        place = on.state.kernels[kernel_id].agent_id
        await administration(on).drain_agent(CALLER, place, note=None, evicts=True)
        await on.settle()
        on.executor.end_kernel(kernel_id, code=None, signal=15)
        await on.settle()
        await on.advance()
        assert (on.session(name).attempt, on.session(name).state) == (2, S.RUNNING)
        await on.submit()
        await on.advance()
        assert on.session(name).state is S.RUNNING


async def test_whether_a_request_is_possible_does_not_depend_on_earlier_requests() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await administration(on).label_agent(CALLER, "a", [("spot", "true")])
        await on.sessions.create_session(CALLER, asks(preemptible=True))
        with pytest.raises(ImpossibleRequest):
            await on.sessions.create_session(CALLER, asks())


async def test_a_what_if_without_a_real_change_reports_no_effect() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        for _ in range(2):
            await on.sessions.create_session(CALLER, asks(estimated_duration=600))
        await on.advance()
        await on.submit()
        await on.advance()
        nothing = WhatIf(policy={"backfill_depth": on.state.policy.backfill_depth})
        for _ in range(2):
            found = await on.what_ifs.what_if(CALLER, nothing)
            assert (found.later_count, found.sooner_count) == (0, 0)
            assert found.wait_before == found.wait_after
            on.clock.advance(3600)


async def test_an_elastic_gang_may_be_changed_to_less_than_its_minimum_size() -> None:
    async with stage([agent("a", devices=4)]) as on:
        gang = (await on.sessions.create_session(CALLER, asks(cluster_size=4, cluster_size_min=3, held=True))).session
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        two = NewQuota(scope=QuotaScope.USER, name=gang.owner, max_slots=(("cuda.device", "2"),))
        await quotas.set_quota(CALLER, two, None)
        changed = await on.sessions.update_session(CALLER, gang.id, SessionAmendment(cluster_size=2), None)
        assert (changed.session.cluster_size, changed.session.cluster_size_min) == (2, None)


async def test_an_operators_hold_replaces_that_of_the_owner() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = (await on.sessions.create_session(BOB, asks(held=True))).session.id
        await on.sessions.hold_session(CALLER, name, None)
        with pytest.raises(Forbidden, match="only an operator may release it"):
            await on.sessions.release_session(BOB, name, None)
        await on.sessions.release_session(CALLER, name, None)


async def test_the_owner_may_release_what_a_colleague_holds() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("audio")
        eve = User(id=UserId("eve"), role=Role.USER, created_us=0, changed_us=0)
        await on.journal.transact(lambda draft: draft.put(eve, "created"), actor="ann")
        name = (await on.sessions.create_session(BOB, asks(project="audio"))).session.id
        await on.sessions.hold_session(replace(BOB, user=eve.id), name, None)
        released = await on.sessions.release_session(BOB, name, None)
        assert released.session.state is S.QUEUED


async def test_a_task_that_runs_again_has_the_priority_of_its_array() -> None:
    async with stage([agent("a", devices=1)]) as on:
        array = (await on.sessions.create_session(CALLER, asks(array="0-1", max_parallel=1))).session
        await on.advance()
        (kernel,) = on.state.live_kernels.by_id.values()
        on.executor.end_kernel(kernel.id, code=1)
        await on.settle()
        await on.sessions.retry_session(CALLER, kernel.session_id, None)
        await on.sessions.update_session_priority(CALLER, array.id, "low", None)
        for _ in range(2):
            await on.advance()
            (kernel,) = on.state.live_kernels.by_id.values()
            assert on.session(kernel.session_id).priority == on.session(SessionId(array.id)).priority
            on.executor.end_kernel(kernel.id, code=0)
            await on.settle()


async def test_results_are_those_of_the_last_attempt_that_ran() -> None:
    """Two later attempts were refused by their agents."""
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        name, kernel_id = await running(on)
        ran = on.state.kernels[kernel_id]
        for attempt in (2, 3):
            later = replace(ran, id=KernelId(f"{name}.{attempt}.0"), version=0, attempt=attempt, started_us=None)
            await on.journal.transact(lambda draft, one=later: draft.put(one, "refused"), actor="system:allocator")
        await on.journal.transact(lambda draft: draft.put(replace(on.session(name), attempt=3), "x"), actor="ann")
        files = SessionFiles(
            state=on.state, store=on.store, journal=on.journal, clock=on.clock, source=Unreachable(), copies=None
        )
        with pytest.raises(Unavailable, match="asked"):
            await files.listing(CALLER, name, rank=0)


async def test_a_session_that_left_memory_is_not_changed() -> None:
    async with stage([agent("a", devices=1)], ended_kept=1) as on:
        names = [SessionId((await on.sessions.create_session(CALLER, asks(held=True))).session.id) for _ in range(3)]
        for name in names:
            await on.cancel(name)
        assert names[0] not in on.state.sessions
        with pytest.raises(StateConflict, match="only a waiting session can be changed"):
            await on.sessions.update_session(CALLER, names[0], SessionAmendment(time_limit=60), None)


async def test_the_sweep_of_workspaces_goes_on_after_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.service.accounts.workspaces.SWEEP_S", 0.01)
    swept, loop = asyncio.Event(), asyncio.get_running_loop()
    async with stage([agent("a", devices=1)]) as on:
        workspaces = workspaces_of(on.state, on.journal, tmp_path)
        faults = [RuntimeError("dictionary changed size during iteration")]

        def expire(*args: Any, **more: Any) -> int:
            if faults:
                raise faults.pop()
            loop.call_soon_threadsafe(swept.set)
            return 0

        monkeypatch.setattr(workspaces._store, "expire", expire)
        sweeping = asyncio.create_task(workspaces.run(ClockJumps(on.clock)))
        try:
            async with asyncio.timeout(60):
                await swept.wait()
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


async def test_the_output_of_a_session_that_left_memory_can_be_read() -> None:
    async with stage([agent("a", devices=1)], ended_kept=1) as on:
        name, kernel_id = await running(on)
        on.executor.end_kernel(kernel_id, code=0)
        await on.settle()
        for _ in range(2):
            await on.cancel(SessionId((await on.sessions.create_session(CALLER, asks(held=True))).session.id))
        assert name not in on.state.sessions
        found = await on.watching.session_log(CALLER, name, rank=0, attempt=None, offset=0, bytes_max=100)
        assert (found.session_id, found.attempt) == (name, 1)
        chunks = on.watching.session_logs(CALLER, name, rank=0, attempt=None, offset=0)
        assert {chunk.session_id async for chunk in chunks} == {name}
