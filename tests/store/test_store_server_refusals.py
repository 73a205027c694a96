"""A server that cannot use its database prints reason and remedy, exits, and changes no byte."""

import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from aliquot.store.engines.sqlite import FileLock
from aliquot.store.open import SQLITE_FILE
from store_places import Place

pytestmark = pytest.mark.anyio

PAGE_BYTES = 4096


@pytest.fixture
async def server() -> AsyncIterator[OwnServer]:
    """With the database of a stopped server; not started again yet."""
    own = OwnServer("--no-local-agents")
    store = Place("", own.data_folder).store()
    await store.open()
    await store.close()
    yield own
    await own.__aexit__(None, None, None)


def digests(folder: Path) -> dict[str, str]:
    """Of every database file except its lock, which is recreated."""
    found = sorted(folder.glob(f"{SQLITE_FILE.name}*"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found if path.suffix != ".lock"}


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[PAGE_BYTES : 8 * PAGE_BYTES] = b"x" * (7 * PAGE_BYTES)
    path.write_bytes(data)


def no_database(path: Path) -> None:
    path.write_bytes(b"something else entirely\n" * 1000)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (newer, "the database has schema 9999, .* start the newer version, or restore the backup"),
        (damaged, "the database file is damaged; stop the server and restore the newest backup"),
        (no_database, "the file is not a database of Aliquot; name another file, or restore a backup"),
    ],
)
async def test_a_database_that_cannot_be_used_is_left_as_it_is(
    server: OwnServer, harm: Callable[[Path], None], words: str
) -> None:
    path = server.data_folder / SQLITE_FILE
    harm(path)
    before = digests(path.parent)
    with pytest.raises(ServerFailed, match=f"(?s)ended with 2:.*aliquot cannot start: {path}: {words}"):
        await server.start()
    assert digests(path.parent) == before


async def test_a_second_server_on_one_file_ends_and_changes_nothing(server: OwnServer) -> None:
    path = server.data_folder / SQLITE_FILE
    before = digests(path.parent)
    with (
        held(path),
        pytest.raises(ServerFailed, match=rf"another server \(process {os.getpid()}\) uses it; stop that server first"),
    ):
        await server.start()
    assert digests(path.parent) == before


@contextmanager
def held(path: Path) -> Iterator[None]:
    """As a server holds it."""
    lock = FileLock.take(path.with_name(f"{path.name}.lock"))
    try:
        yield
    finally:
        lock.release()
