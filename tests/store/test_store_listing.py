"""Listing sessions: filters, both orders, and pages that neither lose nor repeat."""

from contextlib import suppress

import pytest

import store_records as make
from aliquot.service.ports import SessionQuery, Store
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId
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
async def test_pages_add_up(
    store: Store, sessions: list[Session], oldest_first: bool, owners: tuple[make.UserId, ...]
) -> None:
    expected = [s for s in sessions if not owners or s.owner in owners]
    listed: list[Session] = []
    after: SessionId | None = None
    while page := await store.sessions(SessionQuery(owners=owners, after=after, oldest_first=oldest_first, limit=4)):
        assert len(page) <= 4
        listed.extend(page)
        after = page[-1].id
    assert listed == (expected if oldest_first else expected[::-1])


@pytest.mark.parametrize(
    "query",
    [
        SessionQuery(states=(SessionState.QUEUED,)),
        SessionQuery(states=(SessionState.QUEUED, SessionState.COMPLETED)),
        SessionQuery(owners=(make.ALICE, make.BOB)),
        SessionQuery(run_id="run-1"),
        SessionQuery(name="nightly"),
        SessionQuery(name="nobody"),
        SessionQuery(projects=(make.session().project,)),
        SessionQuery(projects=(ProjectId("none"),)),
        SessionQuery(search="IGHT"),
        SessionQuery(search="n_ghtly"),
        SessionQuery(search="%"),
        SessionQuery(owners=(make.ALICE,), states=(SessionState.COMPLETED,), run_id="run-3", name=None),
    ],
)
async def test_filters_are_all_applied(store: Store, sessions: list[Session], query: SessionQuery) -> None:
    expected = [s for s in reversed(sessions) if _matches(s, query)]
    assert list(await store.sessions(query)) == expected
    assert await store.count_sessions(query) == len(expected)


async def test_by_id(store: Store, sessions: list[Session]) -> None:
    wanted = (sessions[3].id, sessions[1].id, SessionId("ses_unknown"))
    assert await store.sessions(SessionQuery(ids=wanted)) == (sessions[3], sessions[1])


async def test_what_no_text_can_be_is_not_there_and_no_fault(store: Store, sessions: list[Session]) -> None:
    for query in (SessionQuery(ids=(SessionId("ses_\0"),)), SessionQuery(run_id="\0")):
        with suppress(InvalidRequest):
            assert await store.sessions(query) == ()
    assert len(await store.sessions(SessionQuery(limit=100))) == len(sessions)


async def test_the_count_leaves_cursor_and_limit_aside(store: Store, sessions: list[Session]) -> None:
    assert await store.count_sessions(SessionQuery(after=sessions[4].id, limit=2)) == 30


async def test_ids_sort_byte_by_byte(store: Store) -> None:
    ids = ["ses_A", "ses_B_10", "ses_B_2", "ses_a", "ses_b", "ses_ä"]
    await store.commit(make.batch(*(make.session(id=one) for one in reversed(ids))))
    assert [session.id for session in await store.sessions(SessionQuery(oldest_first=True))] == ids


def _matches(session: Session, query: SessionQuery) -> bool:
    return (
        (not query.states or session.state in query.states)
        and (not query.owners or session.owner in query.owners)
        and (query.run_id is None or session.run_id == query.run_id)
        and (query.name is None or session.name == query.name)
        and (not query.projects or session.project in query.projects)
        and (query.search is None or query.search.lower() in (session.name or ""))
    )
