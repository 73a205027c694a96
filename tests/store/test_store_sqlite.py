"""SQLite only: one server per file, a failing disk, invalid files, and a bounded write-ahead log."""

import asyncio
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

import store_records as make
from aliquot.service.ports import DuplicateKey, SessionQuery, Store, StoreUnavailable
from aliquot.store.commit import GroupCommits, commit_group
from aliquot.store.engines import sqlite
from aliquot.store.engines.sqlite import connect_writer
from aliquot.store.migration import migrate
from aliquot.store.open import open_store
from store_places import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(sqlite_place: Place) -> Place:
    return sqlite_place


async def test_a_second_server_is_refused_and_the_first_is_named(place: Place, store: Store) -> None:
    with pytest.raises(StoreUnavailable, match=rf"aliquot\.db: another server \(process {os.getpid()}\) uses it"):
        await place.store().open()
    await store.commit(make.batch(make.session()))
    await store.close()
    second = place.store()
    assert len((await second.open()).records) == 1
    await second.close()


async def test_a_closed_store_refuses_requests(place: Place) -> None:
    store = place.store()
    await store.open()
    last = asyncio.create_task(store.commit(make.batch(make.session())))
    await asyncio.sleep(0)
    await store.close()
    assert len(await last) == 1, "what was accepted before the close is finished"
    with pytest.raises(StoreUnavailable):
        await store.commit(make.batch(make.session()))
    with pytest.raises(StoreUnavailable):
        await store.events_after(0, limit=1)
    await store.close()


async def test_a_store_may_be_opened_again(place: Place, store: Store) -> None:
    second = place.store()
    with pytest.raises(StoreUnavailable):
        await second.open()
    await store.close()
    assert (await second.open()).epoch == 2
    await second.close()
    assert (await second.open()).epoch == 3
    await second.close()


async def test_database_files_are_accessible_to_their_owner_only(place: Place, store: Store) -> None:
    await store.commit(make.batch(make.session()))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.sqlite_file.parent.iterdir()}
    assert modes == dict.fromkeys(["aliquot.db", "aliquot.db-shm", "aliquot.db-wal", "aliquot.db.lock"], 0o600)
    assert stat.S_IMODE(place.sqlite_file.parent.stat().st_mode) == 0o700


def test_commits_run_without_a_thread_or_a_loop(place: Place) -> None:
    with closing(connect_writer(place.folder / "inline.db")) as connection:
        migrate(connection)
        session = make.session()
        outcomes = commit_group(connection, [make.batch(session), make.batch(session), make.batch(make.session())])
    assert [type(outcome) for outcome in outcomes] == [tuple, DuplicateKey, tuple]


async def test_a_full_disk_does_not_damage_the_database(place: Place, store: Store) -> None:
    written = make.session()
    await store.commit(make.batch(written))
    wal = place.sqlite_file.with_name("aliquot.db-wal")
    with _file_size_limit(wal.stat().st_size + 8192):
        with pytest.raises(StoreUnavailable, match="disk"):
            await store.commit(make.batch(make.session(name="x" * 100_000)))
        assert await store.sessions(SessionQuery()) == (written,)
    (event,) = await store.commit(make.batch(make.session()))
    assert event.number == 2


async def test_a_full_disk_fails_every_caller_of_the_group(place: Place) -> None:
    database = place.database()
    await database.open()
    await database.write(_limit_pages)
    commit = GroupCommits(lambda batches: database.write(partial(commit_group, batches=batches))).commit
    large = [make.batch(make.session(name="x" * 200_000)) for _ in range(4)]
    outcomes = await asyncio.gather(*map(commit, large), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
    assert "the disk is full" in str(outcomes[0])
    (event,) = await commit(make.batch(make.session()))
    assert event.number == 1
    await database.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"GIF89a" + data[6:], "is not a database of Aliquot"),
        (lambda data: data[:4096] + bytes(len(data) - 4096), "damaged"),
    ],
)
async def test_a_damaged_file_is_refused_and_left_as_it_is(
    place: Place, damage: Callable[[bytes], bytes], words: str
) -> None:
    store = place.store()
    await store.open()
    await store.close()
    damaged = damage(place.sqlite_file.read_bytes())
    place.sqlite_file.write_bytes(damaged)
    with pytest.raises(StoreUnavailable, match=words):
        await place.store().open()
    assert place.sqlite_file.read_bytes() == damaged


async def test_a_folder_without_permissions_is_named_in_the_error() -> None:
    folder = Path(tempfile.mkdtemp(prefix="aliquot-store-"))
    try:
        with _without_rights(folder), pytest.raises(StoreUnavailable, match=r"Permission denied: .*server"):
            await Place("", folder).store().open()
    finally:
        shutil.rmtree(folder)


async def test_a_read_only_database_file_is_refused_with_a_reason() -> None:
    folder = Path(tempfile.mkdtemp(prefix="aliquot-store-"))
    place = Place("", folder)
    store = place.store()
    await store.open()
    await store.close()
    place.sqlite_file.with_name("aliquot.db.lock").chmod(0o666)
    place.sqlite_file.parent.chmod(0o755)
    place.sqlite_file.chmod(0o444)
    try:
        with _without_rights(folder), pytest.raises(StoreUnavailable, match="is read-only"):
            await place.store().open()
    finally:
        shutil.rmtree(folder)


async def test_the_wal_file_is_bounded_while_a_reader_is_active(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES_MAX", 2**20)
    store = place.store()
    await store.open()
    reading = asyncio.Event()

    async def read() -> None:
        while not reading.is_set():
            await store.sessions(SessionQuery())

    reader = asyncio.create_task(read())
    sizes = []
    for _ in range(40):
        await store.commit(make.batch(make.session(name="x" * 100_000)))
        sizes.append(place.sqlite_file.with_name("aliquot.db-wal").stat().st_size)
    reading.set()
    await reader
    await store.close()
    assert max(sizes) < 2 * 2**20
    assert sum(size == 0 for size in sizes) > 2


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://host/name", "nonsense"])
def test_unsupported_database_urls_are_refused(place: Place, url: str) -> None:
    with pytest.raises(StoreUnavailable, match="sqlite:///PATH or postgresql://HOST/NAME"):
        open_store(url, data_folder=place.folder, now_us=lambda: 1)


async def test_an_sqlite_url_selects_its_file(place: Place) -> None:
    path = place.folder / "odd name?#%" / "a.db"
    store = open_store(f"sqlite:///{str(path).replace('?', '%3F')}", data_folder=place.folder, now_us=lambda: 1)
    await store.open()
    await store.commit(make.batch(make.session()))
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


def _limit_pages(connection: Connection) -> None:
    with connection.begin():
        connection.exec_driver_sql("PRAGMA max_page_count = 60")


@contextmanager
def _file_size_limit(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _without_rights(folder: Path) -> Iterator[None]:
    """A read-only folder; root, which ignores permissions, becomes another account for a while."""
    folder.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)
