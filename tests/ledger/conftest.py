"""Every test here runs on both databases, which need not survive the machine: what is tested is what they hold."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from store_places import Place
from store_postgres import PostgresCluster, postgres_cluster

MEMORY = Path("/dev/shm")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        asyncio.run(_hasten(cluster))
        yield cluster


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """In memory, where the machine lets us."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, quick_folder: Path) -> Place:
    if request.param == "sqlite":
        return Place("", quick_folder)
    return Place(request.getfixturevalue("postgres").new_database(), quick_folder)


async def _hasten(cluster: PostgresCluster) -> None:
    connection = await asyncpg.connect(cluster.url)
    try:
        await connection.execute("ALTER SYSTEM SET fsync = off")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()
