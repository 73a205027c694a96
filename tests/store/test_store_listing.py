"""Listing sessions: filters, both orders, and pages without losses or repeats."""

from contextlib import suppress

import pytest

import store_records as make
from aliquot.service.ports import SessionQuery, SortKey, Store
from aliquot.service.views.session_list import ORDERS
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId
from aliquot_schema.requests import SessionFilter, SessionOrder
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sessions(store: Store) -> list[Session]:
    made = [
        make.session(
            owner=make.ALICE if number % 2 else make.BOB,
            state=SessionState.COMPLETED if number % 3 else SessionState.QUEUED,
            ended_us=5 if number % 3 else None,
            run_id=f"run-{number % 4}",
            name=None if number % 5 else "nightly",
        )
        for number in range(30)
    ]
    await store.commit(make.batch(*made))
    return made


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("owners", [(), (make.ALICE,)])
async def test_the_pages_together_list_every_session_in_order(
    store: Store, sessions: list[Session], oldest_first: bool, owners: tuple[make.UserId, ...]
) -> None:
    expected = [s for s in sessions if not owners or s.owner in owners]
    order = SessionOrder.OLDEST if oldest_first else SessionOrder.NEWEST
    where = SessionFilter(owners=owners)
    listed: list[Session] = []
    after: SortKey | None = None
    while page := await store.sessions(SessionQuery(where=where, order=order, after=after, limit=4)):
        assert len(page) <= 4
        listed.extend(page)
        after = ORDERS[order].key(page[-1])
    assert listed == (expected if oldest_first else expected[::-1])


@pytest.mark.parametrize(
    "where",
    [
        SessionFilter(states=(SessionState.QUEUED,)),
        SessionFilter(states=(SessionState.QUEUED, SessionState.COMPLETED)),
        SessionFilter(owners=(make.ALICE, make.BOB)),
        SessionFilter(run_id="run-1"),
        SessionFilter(name="nightly"),
        SessionFilter(name="nobody"),
        SessionFilter(projects=(make.session().project,)),
        SessionFilter(projects=(ProjectId("none"),)),
        SessionFilter(search="IGHT"),
        SessionFilter(search="n_ghtly"),
        SessionFilter(search="%"),
        SessionFilter(owners=(make.ALICE,), states=(SessionState.COMPLETED,), run_id="run-3", name=None),
    ],
)
async def test_filters_are_all_applied(store: Store, sessions: list[Session], where: SessionFilter) -> None:
    expected = [s for s in reversed(sessions) if _matches(s, where)]
    assert list(await store.sessions(SessionQuery(where=where))) == expected
    assert await store.count_sessions(SessionQuery(where=where)) == len(expected)


async def test_sessions_are_listed_by_id(store: Store, sessions: list[Session]) -> None:
    wanted = (sessions[3].id, sessions[1].id, SessionId("ses_unknown"))
    assert await store.sessions(SessionQuery(where=SessionFilter(ids=wanted))) == (sessions[3], sessions[1])


async def test_a_filter_with_a_nul_character_matches_no_session(store: Store, sessions: list[Session]) -> None:
    for where in (SessionFilter(ids=("ses_\0",)), SessionFilter(run_id="\0")):
        with suppress(InvalidRequest):
            assert await store.sessions(SessionQuery(where=where)) == ()
    assert len(await store.sessions(SessionQuery(limit=100))) == len(sessions)


async def test_the_count_ignores_cursor_and_limit(store: Store, sessions: list[Session]) -> None:
    assert await store.count_sessions(SessionQuery(after=(sessions[4].id,), limit=2)) == 30


async def test_ids_sort_byte_by_byte(store: Store) -> None:
    ids = ["ses_A", "ses_B_10", "ses_B_2", "ses_a", "ses_b", "ses_ä"]
    await store.commit(make.batch(*(make.session(id=one) for one in reversed(ids))))
    assert [session.id for session in await store.sessions(SessionQuery(order=SessionOrder.OLDEST))] == ids


def _matches(session: Session, where: SessionFilter) -> bool:
    return (
        (not where.states or session.state in where.states)
        and (not where.owners or session.owner in where.owners)
        and (where.run_id is None or session.run_id == where.run_id)
        and (where.name is None or session.name == where.name)
        and (not where.projects or session.project in where.projects)
        and (where.search is None or where.search.lower() in (session.name or ""))
    )
