"""Service tests run on asyncio, the only loop the server runs on."""

from collections.abc import Iterator

import pytest

from store_postgres import PostgresCluster, postgres_cluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        cluster.hurry()
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    """A new PostgreSQL database."""
    return postgres.new_database()
