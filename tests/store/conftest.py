from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aliquot.service.ports import Store
from aliquot.store.store import Database
from store_places import Place
from store_postgres import PostgresCluster, in_memory, postgres_cluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster(parent=in_memory()) as cluster:
        yield cluster


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return Place("", tmp_path)


@pytest.fixture
def postgres_place(tmp_path: Path, postgres: PostgresCluster) -> Iterator[Place]:
    with postgres.database() as url:
        yield Place(url, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    opened = place.store()
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def database(place: Place) -> AsyncIterator[Database]:
    opened = place.database()
    await opened.open()
    yield opened
    await opened.close()
