"""Budgets of API keys: sessions and GPU-hours are counted, refused when used up, and derived from the log."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.accounts.key_budgets import GPU_HOUR, PREVIEWED_S
from aliquot.service.state.state import State
from aliquot.service.views.terms import moment
from aliquot_schema.errors import Forbidden, QuotaExceeded
from aliquot_schema.events import Event
from aliquot_schema.identity.accounts import ApiKey, KeyScope
from aliquot_schema.ids import KeyId
from aliquot_schema.requests import BookingFile, Caller, NewBooking, NewSession, SessionAmendment
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.preview import NewExternalAllocation
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

KEY = KeyId("key_bot")
BOT = replace(CALLER, key_id=KEY)
HOUR_S = 3600


async def with_key(on: Stage, **more: Any) -> None:
    key = ApiKey(id=KEY, user=CALLER.user, name="lab-bot", scope=KeyScope.SUBMIT, digest="d", **more)
    await on.journal.persist(lambda draft: draft.put(key, "created"), actor="ann")


def request(**more: Any) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], **more)


def counted(on: Stage) -> ApiKey:
    return on.state.people.keys[KEY]


def recomputed(events: tuple[Event, ...]) -> tuple[int, int]:
    """(sessions, GPU use) of the key, from the event log alone."""
    state, submitted, use = State(), 0, 0
    for event in events:
        record = event.record
        if isinstance(record, Session) and record.version == 1 and record.array_id is None and record.key_id == KEY:
            submitted += 1 if record.tasks is None else len(record.tasks.waiting)
        if isinstance(record, Lease) and event.kind == "lease.released":
            session = None if record.session_id is None else state.sessions.get(record.session_id)
            if session is not None and session.key_id == KEY:
                held_ms = (record.released_us or 0) // 1000 - record.granted_us // 1000
                use += state.books.rate(record.id) * held_ms
        state.apply(event)
    return submitted, use


async def test_sessions_are_counted_with_the_tasks_of_arrays_and_refused_beyond_the_budget() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, sessions_max=4)
        made = (await on.sessions.create_session(BOT, request(array="0-2"))).session
        assert on.state.sessions[made.id].key_id == KEY  # type: ignore[index]
        with pytest.raises(QuotaExceeded, match="budget of key lab-bot is 4 sessions; it has 1 left and needs 2"):
            await on.sessions.create_sessions(BOT, [request(), request()])
        await on.sessions.create_session(BOT, request())
        assert counted(on).submitted == 4
        await on.sessions.create_session(CALLER, request())
        assert recomputed(await on.events())[0] == counted(on).submitted


async def test_gpu_hours_are_counted_while_a_session_runs_and_after_its_end() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await with_key(on, gpu_use_max=2 * GPU_HOUR)
        first = await on.sessions.create_session(BOT, request())
        await on.advance()
        on.clock.advance(HOUR_S)
        await on.sessions.create_session(BOT, request())
        await on.advance()
        on.clock.advance(HOUR_S / 2)
        with pytest.raises(QuotaExceeded, match=r"is 2 GPU-hours; it has used 2\.00"):
            await on.sessions.create_session(BOT, request())
        for kernel in list(on.state.kernels.values()):
            on.executor.end_kernel(kernel.id)
        await on.settle()
        assert counted(on).gpu_use == pytest.approx(2 * GPU_HOUR, rel=1e-3)
        assert recomputed(await on.events()) == (counted(on).submitted, counted(on).gpu_use)
        with pytest.raises(QuotaExceeded):
            await on.sessions.retry_session(BOT, first.session.id, None)


async def test_a_key_that_must_preview_may_submit_only_previewed_requests() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await with_key(on, dry_run_first=True)
        with pytest.raises(Forbidden, match="key lab-bot must preview each request"):
            await on.sessions.create_session(BOT, request())
        await on.previews.preview(BOT, request())
        with pytest.raises(Forbidden):
            await on.sessions.create_session(BOT, request(name="another"))
        await on.sessions.create_session(BOT, request(idempotency_key="once"))
        on.clock.advance(PREVIEWED_S + 1)
        with pytest.raises(Forbidden):
            await on.sessions.create_session(BOT, request())
        assert not (await on.sessions.create_session(BOT, request(idempotency_key="once"))).created
        await on.sessions.create_session(CALLER, request())


async def test_a_key_that_must_preview_cannot_change_a_request() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, dry_run_first=True)
        held = (await on.sessions.create_session(CALLER, request(held=True))).session
        with pytest.raises(Forbidden, match="cancel the session, preview the new request"):
            await on.sessions.update_session(BOT, held.id, SessionAmendment(time_limit=60.0), None)
        assert on.state.sessions[held.id].spec.time_limit_ms is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("limit", "said"),
    [({"gpu_use_max": GPU_HOUR}, "a budget of GPU-hours"), ({"dry_run_first": True}, "a booking has")],
)
async def test_a_key_with_a_budget_of_gpu_hours_or_that_must_preview_cannot_book(
    limit: dict[str, Any], said: str
) -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, **limit)
        now = moment(on.clock.now_us())
        asked = NewBooking(name="b", starts_at=now, ends_at=now + timedelta(hours=1), gpus=1, nodes=[])
        with pytest.raises(Forbidden, match=said):
            await on.bookings.reserve(BOT, asked)
        assert not on.state.bookings.open


async def test_a_key_that_must_preview_may_look_at_a_file_of_bookings_but_not_import_it() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, dry_run_first=True)
        text = b"name,start,end,gpus\nlab,2030-01-01 09:00,2030-01-01 12:00,1\n"
        seen = await on.booking_imports.run(BOT, BookingFile(file_name="a.csv", content=text, dry_run=True))
        assert len(seen.rows) == 1
        with pytest.raises(Forbidden, match="a booking has no preview"):
            await on.booking_imports.run(BOT, BookingFile(file_name="a.csv", content=text, dry_run=False))


async def test_a_key_that_must_preview_gets_no_external_allocation() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, dry_run_first=True)
        with pytest.raises(Forbidden, match="an allocation has no preview"):
            await on.external_allocations.allocate(BOT, NewExternalAllocation(job_id="job", gpu_count="1"))
        assert not on.state.sessions


async def test_a_key_that_must_preview_neither_retries_nor_extends_sessions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, dry_run_first=True)
        session = await ended(on, CALLER)
        with pytest.raises(Forbidden, match="a retry has no preview"):
            await on.sessions.retry_session(BOT, session, None)
        await on.sessions.retry_session(CALLER, session, None)
        await on.advance()
        with pytest.raises(Forbidden, match="an extension has no preview"):
            await on.sessions.extend_session(BOT, session, 60.0, None)


async def ended(on: Stage, caller: Caller) -> str:
    made = await on.sessions.create_session(caller, request())
    await on.advance()
    for kernel in list(on.state.kernels.values()):
        on.executor.end_kernel(kernel.id)
    await on.settle()
    return made.session.id


async def test_a_key_with_a_spent_session_budget_can_neither_retry_nor_extend_sessions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, sessions_max=1)
        own = await ended(on, BOT)
        with pytest.raises(QuotaExceeded, match="budget of key lab-bot is 1 sessions; it has 0 left"):
            await on.sessions.retry_session(BOT, own, None)
        assert (await on.sessions.retry_session(CALLER, own, None)).session.state is SessionState.QUEUED
        await on.advance()
        with pytest.raises(QuotaExceeded, match="it has 0 left"):
            await on.sessions.extend_session(BOT, own, 60.0, None)


async def test_a_key_with_a_gpu_hour_budget_cannot_retry_or_extend_sessions_of_other_keys() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_key(on, gpu_use_max=GPU_HOUR)
        other, own = await ended(on, CALLER), await ended(on, BOT)
        held = (await on.sessions.create_session(CALLER, request(held=True))).session.id
        refused = "which was not submitted with it, are not charged to it"
        with pytest.raises(Forbidden, match=refused):
            await on.sessions.retry_session(BOT, other, None)
        with pytest.raises(Forbidden, match=refused):
            await on.sessions.update_session(BOT, held, SessionAmendment(time_limit=60.0), None)
        assert (await on.sessions.retry_session(BOT, own, None)).session.state is SessionState.QUEUED
        await on.sessions.retry_session(CALLER, other, None)
        await on.advance()
        with pytest.raises(Forbidden, match=refused):
            await on.sessions.extend_session(BOT, other, 60.0, None)


async def test_a_key_with_a_gpu_hour_budget_renews_only_its_own_allocations() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await with_key(on, gpu_use_max=GPU_HOUR)
        other, own = (NewExternalAllocation(job_id=name, gpu_count="1") for name in ("other", "own"))
        passes = asyncio.create_task(on.allocator.run())
        async with asyncio.timeout(60):
            await on.external_allocations.allocate(CALLER, other)
            held = await on.external_allocations.allocate(BOT, own)
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)
        with pytest.raises(Forbidden, match="not charged to it: allocate under another job_id with it"):
            await on.external_allocations.allocate(BOT, replace(other, lease=7200.0))
        on.clock.advance(1800)
        for caller in (BOT, CALLER):
            again = await on.external_allocations.allocate(caller, own)
            assert (again.session_id, again.renewed) == (held.session_id, True)
        assert (await on.external_allocations.allocate(CALLER, other)).renewed
