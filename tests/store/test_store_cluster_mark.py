"""The cluster mark: which databases it accepts, and which it refuses."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

import store_records as make
from aliquot.service.ports import StoreUnavailable
from aliquot.store.cluster_mark import MARK_FILE, ClusterMark, MarkFile, latest_mark
from aliquot.store.open import choose_database, open_store
from aliquot.store.store import Database, DatabaseStore
from store_places import Place, now_us
from store_postgres import PostgresCluster

pytestmark = pytest.mark.anyio

WAYS_ON = "Put the cluster's own database back, restore a backup with `aliquot db restore`, or"


@pytest.fixture
def file(tmp_path: Path) -> MarkFile:
    """In a data folder with or without the database."""
    return MarkFile(tmp_path / MARK_FILE)


def store_at(place: Place, mark: MarkFile) -> DatabaseStore:
    return open_store(place.url, data_folder=place.folder, now_us=now_us, mark=mark)


async def happen(place: Place, *, events: int) -> ClusterMark | None:
    """Add some events; returns the mark."""
    store = place.store()
    await store.open()
    for _ in range(events):
        await store.commit(make.batch(make.session()))
    assert isinstance(store, DatabaseStore)
    mark = await store.read(latest_mark)
    await store.close()
    return mark


async def marked(place: Place, file: MarkFile, *, events: int) -> ClusterMark:
    mark = await happen(place, events=events)
    assert mark is not None
    file.write(mark)
    return mark


async def opens(place: Place, file: MarkFile) -> bool:
    store = store_at(place, file)
    try:
        await store.open()
    finally:
        await store.close()
    return True


async def run(place: Place, *statements: str, **values: Any) -> None:
    def work(connection: Connection) -> None:
        with connection.begin():
            for statement in statements:
                connection.execute(text(statement), values)

    database = place.database()
    await database.open()
    await database.write(work)
    await database.close()


@pytest.fixture
def another(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[Place]:
    """A second database of the same kind as `place`."""
    if not place.url:
        yield Place("", tmp_path / "another")
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    with cluster.database() as url:
        yield Place(url, tmp_path / "another")


async def test_a_database_at_or_after_its_cluster_mark_is_opened(place: Place, file: MarkFile) -> None:
    mark = await marked(place, file, events=3)
    assert mark.event == 3
    assert mark.cluster is not None
    assert file.read() == mark
    assert await opens(place, file)
    await happen(place, events=2)
    assert await opens(place, file)


async def test_a_cluster_without_events_has_no_mark_and_opens(place: Place, file: MarkFile) -> None:
    assert await happen(place, events=0) is None
    assert await opens(place, file)
    assert not file.path.exists()


async def test_an_empty_database_is_refused_when_a_mark_exists_and_stays_empty(
    place: Place, another: Place, file: MarkFile
) -> None:
    await marked(place, file, events=3)
    with pytest.raises(StoreUnavailable, match=f"is empty or missing, .* had reached event 3. {WAYS_ON} start once"):
        await opens(another, file)
    if another.url:
        assert await tables(another) == 0
    else:
        assert not another.sqlite_file.exists()


async def tables(place: Place) -> int:
    """The table count of a PostgreSQL database, without opening it as Aliquot."""
    database = choose_database(place.url, data_folder=place.folder, now_us=now_us, upgrades=False)
    with pytest.raises(StoreUnavailable, match="the database is empty"):
        await database.open()
    count = await database.read(lambda c: c.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")))
    await database.close()
    return int(count.scalar_one())


async def test_a_schema_without_events_is_refused(place: Place, another: Place, file: MarkFile) -> None:
    await marked(place, file, events=3)
    await happen(another, events=0)
    with pytest.raises(StoreUnavailable, match="is empty or missing"):
        await opens(another, file)


async def test_a_database_that_ends_before_the_mark_is_refused(place: Place, file: MarkFile) -> None:
    mark = await marked(place, file, events=3)
    file.write(ClusterMark(cluster=mark.cluster, event=7, hash="00", at_us=mark.at_us))
    before = await epoch(place)
    with pytest.raises(
        StoreUnavailable, match=f"ends at event 3, .* had reached event 7. {WAYS_ON} move this database"
    ):
        await opens(place, file)
    assert await epoch(place) == before


async def epoch(place: Place) -> int:
    database = place.database()
    await database.open()
    number = await database.read(lambda connection: connection.execute(text("SELECT epoch FROM counter")).scalar_one())
    await database.close()
    return int(number)


@pytest.mark.parametrize("events", [1, 3, 9])
async def test_the_database_of_another_cluster_is_refused(
    place: Place, another: Place, file: MarkFile, events: int
) -> None:
    await marked(place, file, events=3)
    await happen(another, events=events)
    with pytest.raises(StoreUnavailable, match="belongs to another cluster than this data folder"):
        await opens(another, file)


async def test_a_copy_with_a_diverged_event_log_is_refused(place: Place, file: MarkFile) -> None:
    mark = await happen(place, events=3)
    assert mark is not None
    file.write(ClusterMark(cluster=mark.cluster, event=2, hash="00" * 32, at_us=mark.at_us))
    with pytest.raises(StoreUnavailable, match="event 2 in the database differs from the one of this data folder"):
        await opens(place, file)


async def test_events_removed_by_retention_after_the_mark_do_not_prevent_opening(place: Place, file: MarkFile) -> None:
    mark = await marked(place, file, events=3)
    await happen(place, events=3)
    await seal(place, last=5, at_us=mark.at_us + 1)
    assert await opens(place, file)


async def test_a_database_whose_events_were_removed_before_the_mark_is_refused(
    place: Place, another: Place, file: MarkFile
) -> None:
    mark = await marked(place, file, events=3)
    await happen(another, events=6)
    await seal(another, last=5, at_us=mark.at_us - 1)
    with pytest.raises(StoreUnavailable, match="belongs to another cluster than this data folder"):
        await opens(another, file)


async def seal(place: Place, *, last: int, at_us: int) -> None:
    columns = "id, kind, first, last, rows, at_us, head"
    await run(
        place,
        f"INSERT INTO seals ({columns}) SELECT 'events-000001', 'events', 1, :last, :last, :at_us, hash "
        "FROM events WHERE number = :last",
        "DELETE FROM events WHERE number <= :last",
        last=last,
        at_us=at_us,
    )


async def test_the_clusters_id_stays_known_when_its_first_event_is_removed(place: Place, file: MarkFile) -> None:
    mark = await marked(place, file, events=3)
    await happen(place, events=3)
    await seal(place, last=5, at_us=mark.at_us + 1)
    later = await happen(place, events=1)
    assert later is not None
    assert later.cluster is None
    file.advance(later)
    known = file.read()
    assert known is not None
    assert (known.cluster, known.event) == (mark.cluster, 7)
    assert await opens(place, file)


async def test_a_new_cluster_requires_an_empty_database(place: Place, another: Place, file: MarkFile) -> None:
    await marked(place, file, events=3)
    new = MarkFile(file.path, is_new=True)
    with pytest.raises(StoreUnavailable, match="--new begins a new cluster, and the database holds one with 3 events"):
        await opens(place, new)
    assert file.path.exists()
    assert await opens(another, new)
    assert not file.path.exists()
    # Stopped before its first event, it restarts, with and without.
    assert await opens(another, new)
    assert await opens(another, file)


async def test_servers_of_one_database_have_a_mark_each(postgres_place: Place, tmp_path: Path) -> None:
    files = [MarkFile(tmp_path / name / MARK_FILE) for name in ("one", "two")]
    await marked(postgres_place, files[0], events=2)
    await marked(postgres_place, files[1], events=2)
    stores = [store_at(postgres_place, file) for file in files]
    for store in stores:
        await store.join()
    for store in stores:
        await store.close()


def test_an_unreadable_cluster_mark_is_reported(file: MarkFile) -> None:
    file.path.parent.mkdir()
    for content in ("", "{}", '{"format": 9, "cluster": null, "event": 1, "hash": "00", "at_us": 1}'):
        file.path.write_text(content)
        with pytest.raises(StoreUnavailable, match=r"the cluster mark .*cluster-mark\.json"):
            file.read()


def test_a_mark_that_cannot_be_written_leaves_the_old_one(file: MarkFile, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ClusterMark(cluster="aa", event=1, hash="00", at_us=1)
    file.write(old)
    assert file.path.stat().st_mode & 0o777 == 0o600

    def fail(_: int) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="full"):
            file.write(ClusterMark(cluster="aa", event=2, hash="00", at_us=2))
    assert file.read() == old
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]


async def test_before_the_first_event_there_is_no_mark(database: Database) -> None:
    assert await database.read(latest_mark) is None
