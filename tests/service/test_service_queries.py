"""Lists and single answers: paged by key, filtered, and the same from memory and from the store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aliquot.service.views.pagination import cursor_of
from aliquot_schema.errors import IdempotencyMismatch, InvalidRequest, Unavailable
from aliquot_schema.ids import AgentId, KernelId, SessionId, UserId
from aliquot_schema.requests import (
    AgentFilter,
    AgentOrder,
    Caller,
    NewSession,
    PageRequest,
    Role,
    SessionFilter,
    SessionOrder,
)
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views.sessions import Page, SessionView
from service_bench import CALLER, Bench, agent, service_on
from service_fakes import FakeExecutor
from service_stage import stage

pytestmark = pytest.mark.anyio

S = SessionState
BOB = Caller(user=UserId("bob"), request_id="req_bob", role=Role.ADMIN)


@asynccontextmanager
async def filled(folder: Path, *, ended_kept: int) -> AsyncIterator[tuple[Bench, list[SessionId]]]:
    """Twelve sessions, oldest first: every second one canceled, every third one in a run."""
    async with service_on(folder, FakeExecutor([]), ended_kept=ended_kept) as bench:
        ids = []
        for number in range(12):
            run_id = "run" if number % 3 == 0 else None
            ids.append(await bench.submit(devices=1, name=f"n{number % 4}", run_id=run_id))
        for session_id in ids[::2]:
            await bench.service.sessions.cancel_session(CALLER, session_id, None)
        assert bench.state.ended_complete == (ended_kept > 6)
        yield bench, ids


async def page_of(
    bench: Bench, *, first: int = 100, after: str | None = None, order: str = "newest", **where: Any
) -> Page[SessionView]:
    return await bench.service.queries.sessions(
        CALLER, SessionFilter(**where), order, PageRequest(first=first, after=after)
    )


async def all_of(bench: Bench, *, first: int, order: str, **where: Any) -> list[str]:
    """All pages, to the end."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await page_of(bench, first=first, after=after, order=order, **where)
        found += [view.id for view in page.items]
        assert len(page.items) == len(page.cursors) <= first
        assert page.has_previous == (after is not None)
        if not page.has_next:
            assert page.total_count == len(found)
            return found
        assert len(page.items) == first
        after = page.cursors[-1]


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_sessions_are_searched_by_name_and_id_and_listed_by_project(tmp_path: Path, ended_kept: int) -> None:
    async with filled(tmp_path, ended_kept=ended_kept) as (bench, ids):
        by_name = await all_of(bench, first=2, order="oldest", search="N1")
        assert by_name == [session_id for number, session_id in enumerate(ids) if number % 4 == 1]
        assert await all_of(bench, first=5, order="oldest", search=ids[3][4:].upper()) == [ids[3]]
        for nothing in ("n%", "n_", "x"):
            assert await all_of(bench, first=5, order="oldest", search=nothing) == []
        assert await all_of(bench, first=5, order="oldest", search="", projects=("default",)) == ids
        assert await all_of(bench, first=5, order="oldest", projects=("other",)) == []
        with pytest.raises(InvalidRequest):
            await page_of(bench, search="x" * 201)


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_pages_of_any_size_in_both_orders_hold_every_session_once(tmp_path: Path, ended_kept: int) -> None:
    async with filled(tmp_path, ended_kept=ended_kept) as (bench, ids):
        for first in (1, 5, 6, 12, 13):
            assert await all_of(bench, first=first, order=SessionOrder.OLDEST) == ids
            assert await all_of(bench, first=first, order=SessionOrder.NEWEST) == ids[::-1]


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_filters_find_the_same_in_memory_and_in_the_store(tmp_path: Path, ended_kept: int) -> None:
    async with filled(tmp_path, ended_kept=ended_kept) as (bench, ids):
        wanted: Sequence[tuple[dict[str, Any], list[SessionId]]] = [
            ({"states": (S.CANCELED,)}, ids[::2]),
            ({"states": (S.QUEUED, S.HELD)}, ids[1::2]),
            ({"states": (S.QUEUED, S.CANCELED), "run_id": "run"}, ids[::3]),
            ({"name": "n2"}, ids[2::4]),
            ({"name": "n2", "run_id": "run"}, [ids[6]]),
            ({"owners": ("ann", "bob")}, ids),
            ({"owners": ("bob",)}, []),
            ({"ids": (ids[3], ids[0], ids[3], "ses_none")}, [ids[0], ids[3]]),
            ({"run_id": ""}, []),
        ]
        for where, expected in wanted:
            assert await all_of(bench, first=2, order=SessionOrder.OLDEST, **where) == expected, where


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_a_page_goes_on_where_it_ended_although_sessions_come_and_end(tmp_path: Path, ended_kept: int) -> None:
    async with filled(tmp_path, ended_kept=ended_kept) as (bench, ids):
        begun = await page_of(bench, first=4)
        await bench.submit(devices=1)
        await bench.service.sessions.cancel_session(CALLER, ids[7], None)
        rest = await page_of(bench, after=begun.cursors[-1])
        assert [view.id for view in (*begun.items, *rest.items)] == ids[::-1]
        assert rest.total_count == 13


@pytest.mark.parametrize("after", ["???", "", cursor_of("agent"), "ses_1", "é"])
async def test_an_invalid_cursor_is_refused(tmp_path: Path, after: str) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        with pytest.raises(InvalidRequest):
            await page_of(bench, after=after)


async def test_sessions_that_left_memory_show_their_kernels_and_devices_also_in_lists(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    async with service_on(tmp_path, executor, ended_kept=1) as bench:
        await bench.until(lambda: AgentId("a") in bench.state.reachable)
        old = await bench.submit(shares="1.2")
        await bench.until_state(old, S.RUNNING)
        executor.end_kernel(KernelId(f"{old}.1.0"))
        await bench.until_state(old, S.COMPLETED)
        remembered = await bench.service.queries.session(CALLER, old)
        for _ in range(2):
            newer = await bench.submit(devices=1)
            await bench.service.sessions.cancel_session(CALLER, newer, None)
            for kernel_id in [name for name in bench.state.kernels if name.startswith(newer)]:
                await bench.until(lambda name=kernel_id: name in executor.agents[AgentId("a")].stopped)  # type: ignore[misc]
                executor.end_kernel(kernel_id, code=None, signal=15)
        await bench.until(lambda: old not in bench.state.sessions)
        again = await bench.service.queries.session(CALLER, old)
        assert again == remembered
        assert again is not None
        assert {grant.slot for grant in again.kernels[0].resource_spec} == {"cuda.shares"}
        listed = await page_of(bench, ids=(old,))
        assert listed.items == (again,)


async def test_dependencies_and_idempotency_keys_work_with_sessions_that_left_memory(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor, ended_kept=1) as bench:
        await bench.until(lambda: AgentId("a") in bench.state.reachable)
        old = await bench.submit(devices=1, idempotency_key="k")
        await bench.until_state(old, S.RUNNING)
        blocker = await bench.submit(devices=1)
        waiting = await bench.submit(devices=1, depends_on=[(old, "after_ok"), (blocker, "after_any")])
        executor.end_kernel(KernelId(f"{old}.1.0"))
        await bench.until_state(blocker, S.RUNNING)
        for _ in range(3):
            await bench.service.sessions.cancel_session(CALLER, await bench.submit(devices=1), None)
        assert old in bench.state.sessions
        executor.end_kernel(KernelId(f"{blocker}.1.0"))
        await bench.until_state(waiting, S.RUNNING)
        for _ in range(3):
            await bench.service.sessions.cancel_session(CALLER, await bench.submit(devices=1), None)
        assert old not in bench.state.sessions
        assert await bench.submit(devices=1, idempotency_key="k") == old
        with pytest.raises(IdempotencyMismatch):
            await bench.submit(devices=1, name="other", idempotency_key="k")
        late = await bench.submit(devices=1, depends_on=[(old, "after_ok")])
        never = await bench.submit(devices=1, depends_on=[(old, "after_fail")])
        executor.end_kernel(KernelId(f"{waiting}.1.0"))
        await bench.until_state(late, S.RUNNING)
        failed = await bench.service.queries.session(CALLER, never)
        assert failed is not None
        assert failed.failure is not None
        assert "completed" in failed.failure.message


async def test_idempotency_keys_are_separate_for_each_owner(tmp_path: Path) -> None:
    async with stage([]) as on:
        first = await on.submit(idempotency_key="k")
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], idempotency_key="k")
        changed = await on.sessions.create_session(BOB, request)
        assert (changed.created, changed.session.id != first, changed.session.owner) == (True, True, "bob")
        again = await on.sessions.create_session(BOB, request)
        assert (again.created, again.session.id) == (False, changed.session.id)


async def test_the_queue_is_paged_in_the_order_in_which_the_allocator_looks() -> None:
    async with stage([agent("a", devices=2)]) as on:
        running = await on.submit(devices=2)
        await on.advance()
        ids = [await on.submit() for _ in range(5)]
        await on.advance()
        fresh = await on.submit()
        begun = on.queries.queue(CALLER, PageRequest(first=4))
        rest = on.queries.queue(CALLER, PageRequest(first=4, after=begun.cursors[-1]))
        entries = [*begun.items, *rest.items]
        assert [entry.session.id for entry in entries] == [*ids, fresh]
        assert [entry.position for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert [entry.session.queue_position for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert (begun.has_next, rest.has_next, rest.total_count) == (True, False, 6)
        assert entries[0].session.waits is not None
        assert entries[0].session.waits.blocked_by == (running,)


async def test_the_next_page_of_the_queue_is_found_after_the_last_sessions_of_a_page_left() -> None:
    async with stage([agent("a", devices=1)]) as on:
        ids = [await on.submit() for _ in range(8)]
        begun = on.queries.queue(CALLER, PageRequest(first=5))
        for name in ids[2:5]:
            await on.cancel(name)
        rest = on.queries.queue(CALLER, PageRequest(first=5, after=begun.cursors[-1]))
        assert [entry.session.id for entry in rest.items] == ids[5:]
        assert (rest.has_next, rest.has_previous, rest.total_count) == (False, True, 5)
        for name in ids[:2]:
            await on.cancel(name)
        for cursor in begun.cursors:
            with pytest.raises(InvalidRequest, match="begin again"):
                on.queries.queue(CALLER, PageRequest(first=5, after=cursor))


async def test_agents_are_listed_in_natural_order_and_those_that_left_only_when_asked_for() -> None:
    async with stage([agent(name, devices=1) for name in ("n10", "n9", "n1", "gone")]) as on:
        on.executor.disconnect_agent(AgentId("gone"), gone=True)
        on.executor.disconnect_agent(AgentId("n9"))
        await on.settle()

        def listed(
            order: AgentOrder = AgentOrder.ID, first: int = 10, after: str | None = None, **where: Any
        ) -> list[str]:
            page = on.queries.agents(CALLER, AgentFilter(**where), order, PageRequest(first=first, after=after))
            return [view.id for view in page.items]

        assert listed() == listed(AgentOrder.HOSTNAME) == ["n1", "n9", "n10"]
        assert listed(first=1, after=cursor_of("n1")) == ["n9"]
        assert listed(states=(AgentState.LEFT, AgentState.SUSPECT)) == ["gone", "n9"]
        assert listed(ids=("gone", "n10", "none")) == ["gone", "n10"]
        assert listed(node_id="node-n1") == ["n1"]
        assert on.queries.agent(CALLER, "none") is None


async def test_a_query_waits_for_the_requested_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage([]) as on:
        asked = asyncio.create_task(on.queries.at_revision(on.state.revision + 1))
        await on.submit()
        assert await asked == on.state.revision
        monkeypatch.setattr("aliquot.service.queries.queries.REVISION_WAIT_S", 0.01)
        with pytest.raises(Unavailable):
            await on.queries.at_revision(on.state.revision + 1)
