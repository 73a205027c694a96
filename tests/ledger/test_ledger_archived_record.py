"""Actions and device holders are known after archiving; where not, the start of the known time is given."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select

from aliquot.service.audit.audit import AuditQuery, Change, Holding
from aliquot.service.ports import StoreUnavailable
from aliquot.service.retention import DAY_US, Periods, RetentionLoop
from aliquot.service.state.state import State
from aliquot.store.archive import sealing
from aliquot.store.archive import search as past_holdings
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.folder import ArchiveFolder
from aliquot.store.archive.search import PastSearch
from aliquot.store.audit.holdings import HOLDINGS
from aliquot.store.audit.log import changes
from aliquot.store.store import DatabaseAudit, DatabaseStore
from aliquot.store.tables import ACTIONS, EVENTS
from ledger_workload import LeapingClock, two_terms
from store_places import Place

pytestmark = pytest.mark.anyio

ALL = Periods(sessions_us=DAY_US, events_us=DAY_US, ledger_us=DAY_US)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[DatabaseStore]:
    """Events before the second term's checkpoint are not replayed."""
    async with two_terms(place, entries=8) as opened:
        yield opened


async def archive(store: DatabaseStore, folder: Path | None) -> None:
    clock = LeapingClock()
    clock.advance(500 * 86_400)
    where = None if folder is None else ArchiveFolder(folder)
    history = DatabaseHistory(store, folder=where, epoch=None, now_us=clock.now_us, events_min=0)
    removed = await RetentionLoop(history, memory=State(), clock=clock, periods=ALL).run_once()
    assert removed.sessions > 0


async def moments(store: DatabaseStore) -> list[tuple[str, int]]:
    """For each device that was held and released, the middle of that time."""
    middle = (HOLDINGS.c.from_us + HOLDINGS.c.ended_us) / 2
    asked = select(HOLDINGS.c.device_id, middle.label("middle")).where(HOLDINGS.c.ended_us > HOLDINGS.c.from_us + 1)
    rows = await store.read(lambda connection: connection.execute(asked).all())
    return [(row.device_id, int(row.middle)) for row in rows]


async def answers(
    store: DatabaseStore, asked: list[tuple[str, int]], *, folder: Path | None = None
) -> list[tuple[Holding, ...]]:
    """`folder`: archives; None = not configured."""
    book = DatabaseAudit(store, archive=folder)
    return [await book.held_at(device_id, at_us) for device_id, at_us in asked]


async def test_archived_records_give_the_same_answers_as_the_tables(store: DatabaseStore, tmp_path: Path) -> None:
    asked = (await moments(store))[:40]
    before = await answers(store, asked)
    assert all(before)
    kept = await count(store)
    await archive(store, tmp_path)
    assert await count(store) < kept
    assert await answers(store, asked, folder=tmp_path) == before


async def test_an_unreadable_archive_is_reported_with_the_time_from_which_holdings_are_known(
    store: DatabaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await moments(store)
    await archive(store, tmp_path)
    told = await store.read(lambda connection: past_holdings.seals_after(connection, first_us=0))
    last_us = max(seal.last for seal in told)
    with pytest.raises(StoreUnavailable, match="no archive folder is set"):
        await answers(store, asked)
    with pytest.raises(StoreUnavailable, match=r"holdings-000001-.*\.parquet is missing; .* database has them from 20"):
        await answers(store, asked, folder=tmp_path / "elsewhere")
    monkeypatch.setattr(sealing, "has_parquet", lambda: False)
    with pytest.raises(StoreUnavailable, match=r"has them from 20\d\d-.* on; archives need pyarrow"):
        await answers(store, asked, folder=tmp_path)
    await answers(store, [(device_id, last_us) for device_id, _ in asked], folder=tmp_path)


async def test_holdings_removed_without_an_archive_are_reported_as_missing(
    store: DatabaseStore, tmp_path: Path
) -> None:
    asked = await moments(store)
    await archive(store, None)
    with pytest.raises(StoreUnavailable, match="removed without an archive; the database has them from 20"):
        await answers(store, asked, folder=tmp_path)


async def test_the_audit_log_is_the_same_before_and_after_archiving(
    store: DatabaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aliquot.store.archive.folder._GROUP_ROWS", 10)
    monkeypatch.setattr("aliquot.store.archive.events.ROWS_MAX", 30)
    everything = await audit_changes(store, AuditQuery(limit=100_000))
    middle, some = everything[len(everything) // 2], [change for change in everything if change.before is not None]
    queries = [
        AuditQuery(limit=100_000),
        AuditQuery(limit=7, before=middle.number),
        AuditQuery(limit=1),
        AuditQuery(limit=100_000, people_only=True),
        AuditQuery(limit=3, entity_id=some[0].entity_id),
        AuditQuery(limit=100_000, entity_id=some[-1].entity_id),
        AuditQuery(limit=100_000, kinds=("session.queued", "lease")),
        AuditQuery(limit=9, actor=middle.actor),
        AuditQuery(limit=100_000, kind="session", first_us=middle.at_us),
        AuditQuery(limit=100_000, last_us=middle.at_us, after=middle.number - 50),
    ]
    before = [await audit_changes(store, query) for query in queries]
    assert all(before)
    await archive(store, tmp_path)
    assert len(await audit_changes(store, queries[0])) < len(everything)
    assert len(event_files(tmp_path)) > 1
    for query, expected in zip(queries, before, strict=True):
        assert (await searched(store, query)).run(tmp_path).changes() == expected
    await is_told_as_far_as_archives_are_there(store, tmp_path)


async def is_told_as_far_as_archives_are_there(store: DatabaseStore, folder: Path) -> None:
    everything = AuditQuery(limit=100_000)
    first = await store.read(lambda connection: connection.execute(select(func.min(EVENTS.c.number))).scalar_one())
    search = await searched(store, everything)
    with pytest.raises(StoreUnavailable, match=rf"is missing; restore it.* from event {first} on"):
        search.run(folder / "elsewhere")
    assert search.account.changes() == await audit_changes(store, everything)
    for file in event_files(folder):
        file.write_bytes(b"none")
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        search.run(folder)
    newest = await audit_changes(store, AuditQuery(limit=1))
    later = await searched(store, AuditQuery(limit=2, first_us=newest[0].at_us, kind="nothing"))
    if await store.read(lambda connection: connection.execute(select(ACTIONS.c.id)).all()):
        with pytest.raises(StoreUnavailable, match="cannot be read"):  # corrected times are not monotonic
            later.run(folder)
    else:
        assert later.run(folder).changes() == ()


def event_files(folder: Path) -> list[Path]:
    return list(folder.glob("events-*.parquet"))


async def searched(store: DatabaseStore, query: AuditQuery) -> PastSearch:
    return await store.read(partial(PastSearch, query=query))


async def audit_changes(store: DatabaseStore, query: AuditQuery) -> tuple[Change, ...]:
    return await store.read(partial(changes, query=query))


async def count(store: DatabaseStore) -> int:
    asked = select(func.count()).select_from(HOLDINGS)
    return await store.read(lambda connection: connection.execute(asked).scalar_one())
