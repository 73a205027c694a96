"""Run every test here on both databases, in memory where possible, since no data has to survive a crash."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from store_places import Place
from store_postgres import PostgresCluster, in_memory, postgres_cluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster(parent=in_memory()) as cluster:
        cluster.hurry()
        yield cluster


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """In memory, where the machine can."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-", dir=in_memory()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place("", quick_folder)
    else:
        with request.getfixturevalue("postgres").database() as url:
            yield Place(url, quick_folder)
