"""Session lists for users: orders, cursors, positions, and no leak of hidden fields."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from aliquot.service.views.pagination import cursor_of
from aliquot.service.views.session_list import AMONG, EQUAL, FAILURES, ORDERS, TAGS, WITHIN
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.identity.access import HIDDEN, SESSION_FIELDS, Visibility
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import AgentId, KernelId, ProjectId, SessionId, UserId
from aliquot_schema.requests import Caller, PageRequest, SessionFilter, SessionOrder
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from service_bench import CALLER, Bench, agent, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio

S = SessionState
ORDER = SessionOrder
STRANGER = Caller(user=UserId("eve"), request_id="req_eve", role=Role.USER)
MATE = replace(STRANGER, projects=(ProjectId("default"),))


@asynccontextmanager
async def lived(folder: Path, *, ended_kept: int) -> AsyncIterator[tuple[Bench, dict[str, SessionId]]]:
    """One that failed with code 7 on `a`, one running there, and two waiting; by name."""
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(folder, executor, ended_kept=ended_kept) as bench:
        await bench.until(lambda: AgentId("a") in bench.state.reachable)
        ids = {"failed": await bench.submit(devices=1, name="b", priority="low")}
        await bench.until_state(ids["failed"], S.RUNNING)
        executor.end_kernel(KernelId(f"{ids['failed']}.1.0"), code=7)
        await bench.until_state(ids["failed"], S.FAILED)
        ids["running"] = await bench.submit(devices=1, name="a", priority="high", tags=(("lr", "0.1"), ("sweep", "")))
        await bench.until_state(ids["running"], S.RUNNING)
        ids["urgent"] = await bench.submit(shares="0.5", priority="critical")
        ids["later"] = await bench.submit(devices=1, name="c", priority="low")
        for _ in range(2):  # with two ended ones kept, the first is only in the store
            gone = await bench.submit(devices=1, pool="default", name="gone")
            await bench.service.sessions.cancel_session(CALLER, gone, None)
        assert bench.state.ended_complete == (ended_kept > 2)
        yield bench, ids


async def listed(
    bench: Bench, ids: dict[str, SessionId], order: str = "oldest", caller: Caller = CALLER, **where: Any
) -> list[str]:
    """All pages of one session each; their names."""
    words = {session_id: word for word, session_id in ids.items()}
    found: list[str] = []
    after = None
    while True:
        request = PageRequest(first=1, after=after)
        page = await bench.service.queries.sessions(caller, SessionFilter(**where), order, request)
        found += [words[SessionId(view.id)] for view in page.items if view.name != "gone"]
        if not page.has_next:
            return found
        after = page.cursors[-1]


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_every_order_is_the_same_from_memory_and_from_the_store(tmp_path: Path, ended_kept: int) -> None:
    async with lived(tmp_path, ended_kept=ended_kept) as (bench, ids):
        assert await listed(bench, ids, ORDER.NEWEST) == ["later", "urgent", "running", "failed"]
        assert await listed(bench, ids, ORDER.PRIORITY_DESC) == ["urgent", "running", "later", "failed"]
        assert await listed(bench, ids, ORDER.PRIORITY_ASC) == ["failed", "later", "running", "urgent"]
        assert await listed(bench, ids, ORDER.STARTED_DESC) == ["running", "failed", "later", "urgent"]
        assert await listed(bench, ids, ORDER.STARTED_ASC) == ["failed", "running", "urgent", "later"]
        assert await listed(bench, ids, ORDER.ENDED_ASC) == ["failed", "running", "urgent", "later"]
        assert await listed(bench, ids, ORDER.GPUS_ASC) == ["urgent", "failed", "running", "later"]
        assert await listed(bench, ids, ORDER.GPUS_DESC) == ["later", "running", "failed", "urgent"]
        assert await listed(bench, ids, ORDER.NAME_ASC) == ["running", "failed", "later", "urgent"]
        assert await listed(bench, ids, ORDER.NAME_DESC) == ["later", "failed", "running", "urgent"]


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_sessions_are_found_by_agent_node_and_device(tmp_path: Path, ended_kept: int) -> None:
    async with lived(tmp_path, ended_kept=ended_kept) as (bench, ids):
        [device] = bench.state.agents[AgentId("a")].devices
        there = ["failed", "running"]
        for where in (
            {"agents": ("a", "b")},
            {"nodes": ("node-a",)},
            {"agents": ("a",), "nodes": ("node-a",), "devices": (device.id,)},
            {"devices": (device.id, "GPU-none")},
        ):
            assert await listed(bench, ids, **where) == there, where
        for where in ({"agents": ("b",)}, {"agents": ("a",), "nodes": ("node-b",)}, {"devices": ("cuda.device",)}):
            assert await listed(bench, ids, **where) == [], where


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_hidden_fields_cannot_be_guessed_with_filters(tmp_path: Path, ended_kept: int) -> None:
    async with lived(tmp_path, ended_kept=ended_kept) as (bench, ids):
        for where in ({"exit_codes": (7,)}, {"failures": ("exit_code",)}, {"exit_codes": (7,), "name": "b"}):
            assert await listed(bench, ids, caller=CALLER, **where) == ["failed"]
            assert await listed(bench, ids, caller=MATE, **where) == ["failed"]
            assert await listed(bench, ids, caller=STRANGER, **where) == []
            page = await bench.service.queries.sessions(
                STRANGER, SessionFilter(**where), ORDER.ENDED_DESC, PageRequest(first=1)
            )
            assert page.total_count == 0


@pytest.mark.parametrize("ended_kept", [100, 2], ids=["memory", "store"])
async def test_sessions_are_found_by_tag_only_by_users_who_may_see_the_tags(tmp_path: Path, ended_kept: int) -> None:
    async with lived(tmp_path, ended_kept=ended_kept) as (bench, ids):
        for tags in (("lr",), ("lr=0.1",), ("lr", "sweep"), ("sweep=",)):
            assert await listed(bench, ids, tags=tags) == ["running"], tags
            assert await listed(bench, ids, tags=tags, caller=MATE) == ["running"]
            assert await listed(bench, ids, tags=tags, caller=STRANGER) == []
        for tags in (("lr=0",), ("l",), ("lr", "other"), ("lr=",)):
            assert await listed(bench, ids, tags=tags) == [], tags


def test_no_sort_order_or_filter_uses_fields_visible_only_to_the_owner() -> None:
    """Filters use fields visible to members; sort keys are visible to all, as position and cursor reveal them."""
    compared = {*AMONG.values(), *EQUAL, *WITHIN.values(), FAILURES, TAGS}
    assert compared.isdisjoint(SESSION_FIELDS[Visibility.OWNER])
    assert {sorting.by for sorting in ORDERS.values()}.isdisjoint(HIDDEN[Visibility.EVERYBODY])
    known = {field.name for field in fields(Session)} | {"gpus_milli"}
    assert compared | {sorting.by for sorting in ORDERS.values()} <= known


def test_every_sort_order_and_every_filter_is_implemented() -> None:
    assert set(ORDERS) == set(SessionOrder)
    asked = {*AMONG, *EQUAL, *WITHIN, "search", "failures", "tags", "agents", "nodes", "devices"}
    assert asked == {field.name for field in fields(SessionFilter)}


async def test_a_cursor_belongs_to_its_order(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        for _ in range(2):
            await bench.submit(devices=1)

        async def asked(order: str, after: str | None) -> str:
            request = PageRequest(first=1, after=after)
            return (await bench.service.queries.sessions(CALLER, SessionFilter(), order, request)).cursors[0]

        newest = await asked("newest", None)
        for order in (ORDER.OLDEST, ORDER.NAME_ASC, ORDER.PRIORITY_DESC):
            with pytest.raises(InvalidRequest, match=f"belongs to the order newest, .* has the order {order}"):
                await asked(order, newest)
        assert await asked("newest", newest) != newest
        huge = str(2**63)
        wrong = ["", "newest", "priority_desc\nagent_1\n2", "upwards\nses_1"]
        for odd in (*wrong, *(f"priority_desc\nses_1\n{value}" for value in ("x", "-1", "²", "", huge))):
            with pytest.raises(InvalidRequest, match="not a cursor of this list"):
                await asked("priority_desc", cursor_of(odd))


async def test_long_filters_are_refused(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        many = tuple(str(number) for number in range(1001))
        with pytest.raises(InvalidRequest, match="owners: at most 1000 values"):
            await bench.service.queries.sessions(CALLER, SessionFilter(owners=many), "newest", PageRequest(first=1))
        for field in ("failures", "devices"):
            where = SessionFilter(**{field: many[:101]})
            with pytest.raises(InvalidRequest, match=f"{field}: at most 100 values"):
                await bench.service.queries.sessions(CALLER, where, "newest", PageRequest(first=1))


async def test_filters_with_a_nul_character_are_refused(tmp_path: Path) -> None:
    async with lived(tmp_path, ended_kept=2) as (bench, ids):
        for field, value in (("search", "\0"), ("name", "a\0b"), ("owners", ("\0",))):
            with pytest.raises(InvalidRequest, match=f"{field}: a text contains a NUL character"):
                await listed(bench, ids, **{field: value})
