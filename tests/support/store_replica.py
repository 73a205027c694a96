"""A streaming replica of a PostgreSQL server that takes over for a lost primary."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg
import psutil
from sqlalchemy import make_url

from store_postgres import PostgresCluster, postgres_cluster

COMMAND_S_MAX: Final = 120


class ReplicatedPostgres:
    """Two PostgreSQL servers: a primary, and a replica of its commits."""

    def __init__(self, primary: PostgresCluster) -> None:
        self.primary = primary
        self._folder = primary.data.with_name("replica")
        """Its data and its socket."""

    def url(self, database_url: str) -> str:
        """The URL of a database at the server that accepts writes."""
        hosts = tuple(f"{host}:5432" for host in (self.primary.socket.parent, self._folder))
        query = {"host": hosts, "target_session_attrs": "read-write"}
        return make_url(database_url).set(query=query).render_as_string(hide_password=False)

    async def start(self, *, synchronous: bool) -> None:
        """Copy the primary, and follow it.

        Args:
            synchronous: a commit waits until the replica has it too.
        """
        self._folder.mkdir(mode=0o700)
        if self.primary.account is not None:
            shutil.chown(self._folder, self.primary.account)
        host = str(self.primary.socket.parent)
        await asyncio.to_thread(
            self._run, "pg_basebackup", "-h", host, "-U", "postgres", "-D", str(self._folder), "-R", "-c", "fast"
        )
        (self._folder / ".s.PGSQL.5432.lock").unlink()  # the primary's, whose socket is beside its data
        options = f"-h '' -k {self._folder}"
        await asyncio.to_thread(self._control, "start", "-o", options, "-l", str(self._folder / "log"))
        await self._wait("SELECT count(*) > 0 FROM pg_stat_wal_receiver WHERE status = 'streaming'")
        if synchronous:
            await _execute(self.primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            await _execute(self.primary.url, "SELECT pg_reload_conf()")

    async def lag(self) -> None:
        """Stop replicating."""
        await _execute(self._own_url, "ALTER SYSTEM SET primary_conninfo = ''")
        await _execute(self._own_url, "SELECT pg_reload_conf()")
        await self._wait("SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    async def take_over(self) -> None:
        """The primary is killed for good, and the replica accepts writes."""
        processes = [psutil.Process(self.primary.pid), *psutil.Process(self.primary.pid).children()]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        await _execute(self._own_url, "SELECT pg_promote()")

    def stop(self) -> None:
        """End the replica."""
        if (self._folder / "postmaster.pid").exists():
            self._control("stop", "-m", "immediate")

    @property
    def _own_url(self) -> str:
        return make_url(self.primary.url).set(query={"host": str(self._folder)}).render_as_string()

    async def _wait(self, condition: str) -> None:
        async with asyncio.timeout(COMMAND_S_MAX):
            while not await _execute(self._own_url, condition):  # noqa: ASYNC110  # it cannot be awaited
                await asyncio.sleep(0.05)

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._folder), *words)

    def _run(self, program: str, *words: str) -> None:
        # Into a file: a server that stays behind keeps inherited files open.
        with (self._folder.parent / "replica.log").open("a+b") as log:
            done = subprocess.run(
                [self.primary.programs / program, *words],
                user=self.primary.account,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                timeout=COMMAND_S_MAX,
                check=False,
            )
            log.seek(0)
            assert done.returncode == 0, log.read().decode()


async def _execute(url: str, statement: str) -> Any:
    """The first value of the result."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@contextmanager
def replicated_postgres(*, parent: Path | None = None) -> Iterator[ReplicatedPostgres]:
    """Two servers below one temporary folder, the replica not yet started; both are stopped at the end."""
    with postgres_cluster(parent=parent) as primary:
        pair = ReplicatedPostgres(primary)
        try:
            yield pair
        finally:
            pair.stop()
