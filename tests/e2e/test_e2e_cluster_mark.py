"""A server whose database is lost, emptied or exchanged refuses to start a new cluster silently."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from aliquot.client import GraphQLFault
from aliquot.store.cluster_mark import MARK_FILE
from aliquot.store.open import SQLITE_FILE
from e2e_sessions import until
from long_tests import LONG
from store_postgres import PostgresCluster

pytestmark = pytest.mark.anyio

ALONE = ("--no-local-agents", "--stopped")
"""`--stopped` adds the first event."""
WAYS_ON = "restore a backup with `aliquot db restore`"
CHANGE = "mutation { orchestrator_start { __typename } orchestrator_stop { __typename } }"


class Server(OwnServer):
    """No agents: the log has only these tests' changes."""

    def __init__(self, *options: str) -> None:
        super().__init__(*ALONE, *options)

    @property
    def options(self) -> tuple[str, ...]:
        """Of the next start."""
        return self._options

    @options.setter
    def options(self, options: tuple[str, ...]) -> None:
        self._options = options

    async def start_with(self, *more: str) -> None:
        """Start once with further options."""
        usual, self.options = self.options, (*self.options, *more)
        try:
            await self.start()
        finally:
            self.options = usual

    @property
    def database(self) -> Path:
        return self.data_folder / SQLITE_FILE

    @property
    def mark(self) -> dict[str, Any] | None:
        with suppress(FileNotFoundError):
            return dict(json.loads((self.data_folder / MARK_FILE).read_text()))
        return None

    async def change(self) -> None:
        """Add two events."""
        async with self.client() as client:
            answer = await client.execute(CHANGE)
        assert {each["__typename"] for each in answer.values()} == {"OrchestratorChangeSuccess"}

    async def until_marked(self, *, unlike: dict[str, Any] | None = None) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            return None if self.mark == unlike else self.mark

        return await until(look)

    async def revision(self) -> int:
        """The last event it has read."""
        async with self.client() as client:
            return int((await client.execute("{ sessions(first: 1) { revision } }"))["sessions"]["revision"])

    async def refuses(self, words: str) -> None:
        with pytest.raises(
            ServerFailed, match=f"(?s)ended with 2:.*aliquot cannot start: [^\n]*{words}[^\n]*{WAYS_ON}"
        ):
            await self.start()

    async def command(self, *arguments: str) -> str:
        """The output of a command on its data folder."""
        command = [sys.executable, "-m", "aliquot", *arguments, "--data-folder", str(self.data_folder)]
        return await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=60)


@asynccontextmanager
async def made(*options: str) -> AsyncIterator[Server]:
    """A server that is not started yet."""
    server = Server(*options)
    try:
        yield server
    finally:
        await server.__aexit__(None, None, None)


@asynccontextmanager
async def ended(*options: str) -> AsyncIterator[Server]:
    """A stopped server."""
    async with made(*options) as server:
        await server.start()
        await server.change()
        assert await server.stop() == 0
        yield server


def last_event(path: Path | str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT number FROM counter").fetchone()[0])


async def test_after_a_clean_stop_the_cluster_mark_names_the_last_event() -> None:
    async with made() as server:
        await server.start()
        first = await server.until_marked()
        await server.change()
        assert await server.stop() == 0
        mark = server.mark
        assert mark is not None
        assert (mark["cluster"], mark["event"]) == (first["cluster"], last_event(server.database))
        assert mark["event"] > first["event"]


async def test_a_deleted_database_is_refused_until_it_is_restored_or_a_new_cluster_is_requested(tmp_path: Path) -> None:
    async with ended() as server:
        server.database.rename(tmp_path / "away.db")
        await server.refuses("the database is empty or missing")
        assert not server.database.exists()
        shutil.copyfile(tmp_path / "away.db", server.database)
        await server.start()
        assert await server.stop() == 0
        before = server.mark
        server.database.unlink()
        await server.start_with("--new")
        after = await server.until_marked(unlike=before)
        assert before is not None
        assert after["cluster"] != before["cluster"]
        await server.change()
        assert await server.stop() == 0
        with pytest.raises(
            ServerFailed, match=r"(?s)ended with 2:.*--new begins a new cluster, and the database holds"
        ):
            await server.start_with("--new")
        await server.start()  # later starts without it


@LONG
async def test_an_emptied_database_is_refused() -> None:
    async with ended() as server:
        server.database.write_bytes(b"")
        await server.refuses("the database is empty or missing")
        assert server.database.read_bytes() == b""


async def test_the_database_of_another_cluster_is_refused() -> None:
    async with ended() as server, ended() as other:
        shutil.copyfile(other.database, server.database)
        await server.refuses("the database belongs to another cluster than this data folder")


@LONG
async def test_a_database_lost_after_a_server_was_killed_is_refused() -> None:
    async with made() as server:
        await server.start()
        await server.until_marked()
        await server.kill()
        for path in server.database.parent.glob("aliquot.db*"):
            path.unlink()
        await server.refuses("the database is empty or missing")


async def test_an_older_copy_is_refused_until_it_is_restored(tmp_path: Path) -> None:
    async with made() as server:
        await server.start()
        await server.change()
        async with server.client() as client:
            copy = (await client.copy_database()).path
        await server.change()
        assert await server.stop() == 0
        mark = server.mark
        shutil.copyfile(server.database, tmp_path / "newest.db")
        shutil.copyfile(copy, server.database)
        assert mark is not None
        await server.refuses(f"the database ends at event [0-9]+, and the cluster .* had reached event {mark['event']}")
        shutil.copyfile(tmp_path / "newest.db", server.database)
        told = await server.command("db", "restore", copy)
        (replaced,) = server.database.parent.glob("aliquot.db.*.replaced")
        assert str(replaced) in told
        assert (last_event(replaced), last_event(server.database)) == (mark["event"], last_event(copy) + 1)
        await server.start()
        assert await server.stop() == 0
        shutil.copyfile(tmp_path / "newest.db", server.database)
        await server.refuses("differs from the one of this data folder: the database is an older copy that another")


async def test_a_start_that_is_killed_before_its_first_event_starts_again() -> None:
    """It is killed as soon as its database exists, at any point."""
    async with made() as server:
        starting = asyncio.create_task(server.start())

        async def is_there() -> bool:
            return server.database.exists()

        await until(is_there)
        await server.kill()
        with pytest.raises(ServerFailed, match="ended with -9"):
            await starting
        await server.start()
        assert await server.stop() == 0


@LONG
async def test_a_database_copy_opens_in_a_new_data_folder() -> None:
    async with ended() as server, made() as restored:
        restored.database.parent.mkdir(parents=True)
        shutil.copyfile(server.database, restored.database)
        await restored.start()
        assert server.mark is not None
        assert (await restored.until_marked())["cluster"] == server.mark["cluster"]


@LONG
async def test_an_import_writes_a_new_cluster_mark(tmp_path: Path) -> None:
    async with ended() as server, ended() as other:
        archive = tmp_path / "all.aliquot"
        await other.command("db", "export", str(archive))
        server.database.unlink()
        await server.command("db", "import", str(archive))
        assert server.mark is not None
        assert other.mark is not None
        assert server.mark["cluster"] == other.mark["cluster"]
        await server.start()
        assert await server.stop() == 0


@LONG
async def test_the_cluster_mark_protects_a_postgresql_database(postgres: PostgresCluster) -> None:
    url, other, empty = [await asyncio.to_thread(postgres.new_database) for _ in range(3)]
    async with ended("--database", url) as server:
        older = await asyncio.to_thread(partial(postgres.new_database, template=url))
        await server.start()
        await server.change()
        assert await server.stop() == 0
        before = server.mark
        server.options = (*ALONE, "--database", other)
        await server.refuses("the database is empty or missing")
        async with ended("--database", other):
            await server.refuses("the database belongs to another cluster than this data folder")
        server.options = (*ALONE, "--database", older)
        await server.refuses("the database ends at event")
        await server.command("db", "restore", "--database", older)
        assert server.mark != before
        await server.start()
        assert await server.stop() == 0
        server.options = (*ALONE, "--database", empty)
        await server.start_with("--new")
        assert (await server.until_marked(unlike=None))["event"] > 0


async def test_a_lagging_copy_that_replaces_the_database_stops_the_servers(
    postgres: PostgresCluster, database_url: str
) -> None:
    """Nothing is committed to the copy; servers refuse it until the database is back or an operator accepts it."""
    async with made() as leader, made() as follower:
        for server in (leader, follower):
            server.options = (*ALONE, "--database", database_url)
            await server.start()
        await leader.change()
        copy = await postgres.copy_of(database_url)
        await until(lambda: changed(leader))
        reached = await leader.revision()
        await until(lambda: has_read(follower, reached))
        away = await postgres.put_in_place(copy, of=database_url)
        words = "the database ends at event"
        for server in (leader, follower):
            assert await server.ended() == 1
            assert f"{words} " in server.log_tail()
            assert "so that nothing is written into the wrong database" in server.log_tail()
            await server.refuses(words)
        copy = await postgres.put_in_place(away, of=database_url)
        await leader.start()
        assert await leader.stop() == 0
        await postgres.put_in_place(copy, of=database_url)
        await follower.command("db", "restore", "--database", database_url)
        await follower.start()
        await follower.change()


async def test_a_follower_has_a_mark_of_its_own_and_takes_over(database_url: str) -> None:
    async with made() as old, made() as new:
        for server in (old, new):
            server.options = (*ALONE, "--database", database_url)
            await server.start()
        await old.change()
        first = await old.until_marked()
        assert (await new.until_marked())["cluster"] == first["cluster"]
        await old.kill()
        before = new.mark
        await until(lambda: changed(new))
        assert (await new.until_marked(unlike=before))["cluster"] == first["cluster"]
        await old.start()
        assert await old.stop() == 0
        assert await new.stop() == 0


async def has_read(server: Server, event: int) -> bool:
    return await server.revision() >= event


async def changed(server: Server) -> bool:
    """Whether a change was accepted; without a leader none is."""
    with suppress(AssertionError, GraphQLFault):
        await server.change()
        return True
    return False
