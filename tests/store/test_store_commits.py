"""Guarantees of a commit, on both databases: atomicity, versions, keys, epochs, and isolation in groups."""

import asyncio

import pytest
from msgspec.structs import replace

import store_records as make
from aliquot.service.ports import DuplicateKey, NotLeader, SessionQuery, StaleVersion, Store, StoreUnavailable
from aliquot_schema.events import Entity
from aliquot_schema.requests import SessionOrder
from aliquot_schema.states import SessionState

pytestmark = pytest.mark.anyio


async def test_events_say_what_was_written(store: Store) -> None:
    session = make.session()
    (event,) = await store.commit(make.batch(session, request_id="req_1", pass_number=7, actor="bob", at_us=42))
    assert (event.number, event.at_us, event.kind, event.entity) == (1, 42, "session.written", Entity.SESSION)
    assert (event.entity_id, event.entity_version, event.actor) == (session.id, 1, "bob")
    assert (event.request_id, event.pass_number, event.epoch, event.record) == ("req_1", 7, 1, session)
    assert await store.events_after(0, limit=10) == (event,)


async def test_a_batch_is_written_whole(store: Store) -> None:
    session = make.session(state=SessionState.SCHEDULED, attempt=1)
    kernel = make.kernel(session)
    await store.commit(make.batch(session, kernel, make.lease(kernel)))
    assert await store.session_records(session.id) == (session, kernel, make.lease(kernel))


async def test_a_batch_that_fails_leaves_nothing(store: Store) -> None:
    first, fresh = make.session(), make.session()
    await store.commit(make.batch(first))
    with pytest.raises(StaleVersion):
        await store.commit(make.batch(fresh, replace(first, version=3)))
    assert await store.session_records(fresh.id) == ()
    assert len(await store.events_after(0, limit=10)) == 1


@pytest.mark.parametrize("version", [2, 4, 0])
async def test_a_row_is_replaced_only_by_its_next_version(store: Store, version: int) -> None:
    session = make.session()
    await store.commit(make.batch(session))
    await store.commit(make.batch(replace(session, version=2)))
    with pytest.raises(StaleVersion):
        await store.commit(make.batch(replace(session, version=version)))


async def test_a_row_that_is_not_there_cannot_be_replaced(store: Store) -> None:
    with pytest.raises(StaleVersion):
        await store.commit(make.batch(make.session(version=2)))
    assert await store.count_sessions(SessionQuery()) == 0


async def test_one_batch_replaces_many_rows_of_a_table(store: Store) -> None:
    sessions = [make.session() for _ in range(20)]
    await store.commit(make.batch(*sessions))
    moved = [make.moved(session, SessionState.CANCELED, ended_us=5) for session in sessions]
    await store.commit(make.batch(*reversed(moved)))
    assert await store.sessions(SessionQuery(order=SessionOrder.OLDEST)) == tuple(moved)
    stale = [make.moved(session, SessionState.FAILED) for session in moved]
    with pytest.raises(StaleVersion):
        await store.commit(make.batch(*stale[:19], replace(stale[19], version=2)))
    assert await store.sessions(SessionQuery(order=SessionOrder.OLDEST)) == tuple(moved)


async def test_one_batch_may_update_a_row_several_times(store: Store) -> None:
    session = make.session()
    scheduled = make.moved(session, SessionState.SCHEDULED)
    allocating = make.moved(scheduled, SessionState.ALLOCATING)
    await store.commit(make.batch(session, scheduled))
    events = await store.commit(make.batch(allocating, make.moved(allocating, SessionState.RUNNING)))
    assert [event.number for event in events] == [3, 4]
    assert [event.record.version for event in await store.events_after(0, limit=10)] == [1, 2, 3, 4]
    (stored,) = await store.session_records(session.id)
    assert stored == make.moved(allocating, SessionState.RUNNING)


async def test_updates_of_a_row_in_one_batch_must_have_consecutive_versions(store: Store) -> None:
    session = make.session()
    with pytest.raises(StaleVersion):
        await store.commit(make.batch(session, replace(session, version=3)))
    with pytest.raises(DuplicateKey):
        await store.commit(make.batch(session, session))


async def test_an_id_is_inserted_once(store: Store) -> None:
    session = make.session()
    await store.commit(make.batch(session))
    with pytest.raises(DuplicateKey):
        await store.commit(make.batch(session))


async def test_an_idempotency_key_is_unique_per_owner(store: Store) -> None:
    session = make.session(idempotency_key="key")
    others = [make.session(idempotency_key="key", owner=make.BOB), make.session(), make.session()]
    await store.commit(make.batch(session, *others))
    with pytest.raises(DuplicateKey):
        await store.commit(make.batch(make.session(idempotency_key="key")))
    assert await store.session_by_key(make.ALICE, "key") == session
    assert await store.session_by_key(make.ALICE, "other") is None


async def test_a_failed_batch_in_a_group_commit_fails_only_its_caller(store: Store) -> None:
    known = make.session()
    await store.commit(make.batch(known))
    fresh = [make.session() for _ in range(30)]
    batches = [make.batch(session) for session in fresh]
    batches[4] = make.batch(make.session(), known)
    batches[9] = make.batch(replace(known, version=7))
    batches[14] = make.batch(make.session(), epoch=99)
    batches[19] = make.batch(make.session(name="\ud800"))
    outcomes = await asyncio.gather(*map(store.commit, batches), return_exceptions=True)
    failed = {index: type(outcome) for index, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
    assert failed.pop(19) is not StoreUnavailable  # not storable text: an error of this caller alone
    assert failed == {4: DuplicateKey, 9: StaleVersion, 14: NotLeader}
    written = [event for outcome in outcomes if isinstance(outcome, tuple) for event in outcome]
    assert [event.number for event in written] == list(range(2, 28))
    assert await store.events_after(1, limit=100) == tuple(written)


async def test_only_one_batch_of_a_group_with_the_same_key_succeeds(store: Store) -> None:
    rivals = [make.batch(make.session(idempotency_key="key")) for _ in range(8)]
    outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [tuple, *[DuplicateKey] * 7]


async def test_an_empty_batch_writes_nothing(store: Store) -> None:
    assert await store.commit(make.batch()) == ()
    assert await store.events_after(0, limit=10) == ()


async def test_a_cancelled_caller_does_not_hold_up_others(store: Store) -> None:
    session = make.session()
    caller = asyncio.create_task(store.commit(make.batch(session)))
    await asyncio.sleep(0)
    caller.cancel()
    await store.commit(make.batch(make.session()))
    assert await store.session_records(session.id) == (session,)
