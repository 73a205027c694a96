"""Every test here runs on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store_places import Place
from store_postgres import PostgresCluster, postgres_cluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("", tmp_path)
    return Place(request.getfixturevalue("postgres").new_database(), tmp_path)
