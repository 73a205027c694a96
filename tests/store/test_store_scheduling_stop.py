"""A decision from before a stop is not committed after it, on any server; other changes are."""

import pytest
from msgspec.structs import replace

import store_records as make
from aliquot.service.ports import Batch, RowWrite, StaleVersion, Store
from aliquot_schema.orchestration import Orchestration, OrchestratorState
from aliquot_schema.states import SessionState
from store_places import Place

pytestmark = pytest.mark.anyio

STOPPED = Orchestration(version=1, state=OrchestratorState.STOPPED, changed_by=make.ALICE, changed_us=5)


def grant(*, pass_number: int | None = 7) -> Batch:
    session = make.session(state=SessionState.SCHEDULED, attempt=1)
    kernel = make.kernel(session)
    return make.batch(session, kernel, make.lease(kernel), pass_number=pass_number)


async def test_no_lease_is_granted_while_the_orchestrator_is_stopped(store: Store) -> None:
    await store.commit(grant())
    await store.commit(make.batch(STOPPED))
    with pytest.raises(StaleVersion):
        await store.commit(grant())
    await store.commit(make.batch(replace(STOPPED, version=2, state=OrchestratorState.RUNNING)))
    await store.commit(grant())


async def test_no_session_is_preempted_by_a_pass_while_the_orchestrator_is_stopped(store: Store) -> None:
    session = make.session(state=SessionState.RUNNING)
    await store.commit(make.batch(session))
    await store.commit(make.batch(STOPPED))
    moved = make.moved(session, SessionState.PREEMPTING)
    batch = make.batch(moved, pass_number=7)
    with pytest.raises(StaleVersion):
        await store.commit(replace(batch, writes=(RowWrite(record=moved, kind="session.preempting"),)))
    await store.commit(replace(batch, writes=(RowWrite(record=moved, kind="session.preempting"),), pass_number=None))


async def test_lease_updates_and_submissions_continue_while_the_orchestrator_is_stopped(store: Store) -> None:
    batch = grant()
    await store.commit(batch)
    await store.commit(make.batch(STOPPED))
    lease = batch.writes[-1].record
    await store.commit(make.batch(replace(lease, version=2), pass_number=8))  # type: ignore[type-var]  # a lease
    await store.commit(make.batch(make.session()))


async def test_a_stop_applies_to_other_servers_immediately(postgres_place: Place) -> None:
    first, second = postgres_place.store(), postgres_place.store()
    await first.open()
    await second.open()
    try:
        await second.commit(make.batch(STOPPED))
        with pytest.raises(StaleVersion):
            await first.commit(grant())
    finally:
        await first.close()
        await second.close()
