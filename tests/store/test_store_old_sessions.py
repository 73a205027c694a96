"""Which old sessions may be removed, and which are still needed."""

import time
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Table, create_engine, delete, func, insert, select

import store_records as make
from aliquot.service.ports import Store
from aliquot.service.retention import DAY_US, Periods, RetentionLoop, SealedArchive
from aliquot.service.state.state import State
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.sessions import OLD_SESSIONS, old
from aliquot.store.audit.holdings import HOLDINGS, follow_all
from aliquot.store.export import ALL_TABLES
from aliquot.store.mapping import SESSION
from aliquot.store.store import DatabaseStore
from aliquot.store.tables import EVENTS, KERNELS, LEASES, SESSIONS
from aliquot_schema.events import Record
from aliquot_schema.ids import task_id
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import Dependency, DependencyCondition, Session
from aliquot_schema.states import KernelState, SessionState
from ledger_workload import LeapingClock

pytestmark = pytest.mark.anyio

LONG_AGO = 1_000
LATELY = 1_000_000
BEFORE = 500_000


def ended(**changes: Any) -> Session:
    return make.session(state=SessionState.COMPLETED, ended_us=LONG_AGO, **changes)


def held(of: Session, *, released_us: int | None) -> tuple[Record, Record]:
    kernel = make.kernel(of, state=KernelState.EXITED, ended_us=LONG_AGO)
    evidence = None if released_us is None else EndEvidence.EXIT_FILE
    return kernel, make.lease(kernel, released_us=released_us, evidence=evidence)


async def may_go(store: Store, *records: Record, events_gone: bool = True) -> set[str]:
    """The removable ids."""
    assert isinstance(store, DatabaseStore)
    await store.commit(make.batch(make.agent(), *records))
    await store.write(follow_all)
    if events_gone:
        await store.write(forget_events)
    return {row.id for row in await store.read(partial(old, before_us=BEFORE))}


def forget_events(connection: Connection) -> None:
    with connection.begin():
        connection.execute(delete(EVENTS))


async def test_only_sessions_that_ended_long_ago_are_removable(store: Store) -> None:
    gone, young = ended(), replace(ended(), ended_us=LATELY)
    assert await may_go(store, gone, young, make.session()) == {gone.id}


async def test_a_session_with_remaining_events_is_kept(store: Store) -> None:
    assert await may_go(store, ended(), events_gone=False) == set()


async def test_an_ended_session_that_holds_devices_is_kept(store: Store) -> None:
    holding, free = ended(), ended()
    found = await may_go(store, holding, free, *held(holding, released_us=None), *held(free, released_us=LONG_AGO))
    assert found == {free.id}


async def test_a_session_that_a_waiting_session_depends_on_is_kept(store: Store) -> None:
    needed, other = ended(), ended()
    assert await may_go(store, needed, other, depending_on(needed)) == {other.id}


async def test_needed_sessions_that_fill_a_file_do_not_keep_the_later_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aliquot.store.archive.sessions.SESSIONS_MAX", 2)
    needed = [ended() for _ in range(3)]
    later = [replace(ended(), ended_us=LONG_AGO + 1 + number) for number in range(3)]
    found = await may_go(store, *needed, *later, *map(depending_on, needed))
    assert found
    assert found <= {one.id for one in later}


async def test_an_array_is_removed_with_all_of_its_tasks_or_kept(store: Store) -> None:
    over, lives, is_late = ended(), make.session(), ended()
    tasks = {array.id: ended(array_id=array.id, array_index=0) for array in (over, lives, is_late)}
    late = replace(ended(array_id=is_late.id, array_index=1), ended_us=LATELY)
    found = await may_go(store, over, lives, is_late, late, *tasks.values())
    assert found == {over.id, tasks[over.id].id}


@pytest.mark.parametrize("by_task", [False, True])
async def test_an_array_is_kept_while_a_session_depends_on_the_array_or_one_of_its_tasks(
    store: Store, by_task: bool
) -> None:
    array, other = ended(), ended()
    tasks = [
        replace(ended(array_id=array.id, array_index=index), id=task_id(array.id, index=index)) for index in range(2)
    ]
    found = await may_go(store, array, *tasks, other, depending_on(tasks[0] if by_task else array))
    assert found == {other.id}


def test_removable_tasks_of_a_large_array_are_found_in_one_pass() -> None:
    array = ended()
    tasks = [
        replace(ended(array_id=array.id, array_index=index), id=task_id(array.id, index=index)) for index in range(5000)
    ]
    rows = [dict(zip(SESSIONS.c.keys(), SESSION.to_row(one), strict=True)) for one in (array, *tasks)]
    with create_engine("sqlite://").connect() as connection:
        ALL_TABLES.create_all(connection)
        connection.execute(insert(SESSIONS), rows)
        began_s = time.process_time()
        assert len(old(connection, before_us=BEFORE)) == 5001
        assert time.process_time() - began_s < 1  # each task beside each other one takes several


async def test_records_of_an_old_session_are_removed_unless_the_session_changed_meanwhile(store: Store) -> None:
    gone, changed = ended(), ended()
    assert await may_go(
        store, gone, changed, *held(gone, released_us=LONG_AGO), *held(changed, released_us=LONG_AGO)
    ) == {gone.id, changed.id}
    assert isinstance(store, DatabaseStore)
    await store.commit(make.batch(make.moved(changed, SessionState.QUEUED, ended_us=None)))
    versions = {gone.id: 1, changed.id: 1}
    assert await store.write(partial(OLD_SESSIONS.remove, versions=versions, epoch=None)) == 1
    for table in (SESSIONS, KERNELS, LEASES, HOLDINGS):
        assert await store.read(partial(count, table=table)) == 1


class SubmittedMeanwhile(DatabaseHistory):
    """A session that depends on an old one is submitted right after the old one was sealed."""

    def __init__(self, store: DatabaseStore, state: State, waiting: Session) -> None:
        super().__init__(store, folder=None, epoch=None, now_us=lambda: BEFORE)
        self._store, self._state, self._waiting = store, state, waiting

    async def seal_sessions(self, before_us: int) -> SealedArchive | None:
        sealed = await super().seal_sessions(before_us)
        if self._waiting.id not in self._state.sessions:
            for event in await self._store.commit(make.batch(self._waiting)):
                self._state.apply(event)
        return sealed


async def test_an_archived_session_with_a_new_dependent_is_kept(store: Store) -> None:
    needed, other = ended(), ended()
    await may_go(store, needed, other)
    state = State()
    state.load([needed, other], revision=3, ended_complete=True)
    assert isinstance(store, DatabaseStore)
    history = SubmittedMeanwhile(store, state, depending_on(needed))
    clock = LeapingClock()
    clock.advance(2 * 86_400)
    periods = Periods(sessions_us=DAY_US, events_us=None, ledger_us=None, findings_us=None)
    removed = await RetentionLoop(history, memory=state, clock=clock, periods=periods).run_once()
    assert removed.sessions == 1
    assert await store.session_records(needed.id)
    assert not await store.session_records(other.id)


def depending_on(needed: Session) -> Session:
    waiting = make.session()
    link = Dependency(session_id=needed.id, condition=DependencyCondition.AFTER_OK)
    return replace(waiting, spec=replace(waiting.spec, depends_on=(link,)))


def count(connection: Connection, *, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())
