"""Service tests run on asyncio, the server's only event loop."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import service_bench
import service_stage
from leader_stage_stores import migrate, postgres_stores, sqlite_stores
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
def database_url(postgres: PostgresCluster) -> Iterator[str]:
    """A new PostgreSQL database."""
    with postgres.database() as url:
        yield url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with a store run on both databases; stages, which are quick, on an in-memory store too."""
    if not inspect.iscoroutinefunction(metafunc.function) or "database_url" in metafunc.fixturenames:
        return
    if "tmp_path" in metafunc.fixturenames:
        metafunc.fixturenames.append("bench_database")
        metafunc.parametrize("bench_database", ["sqlite", "postgres"], indirect=True)
    elif vars(metafunc.module).get("stage") is service_stage.stage:
        metafunc.fixturenames.append("stage_store")
        metafunc.parametrize("stage_store", ["memory", "sqlite", "postgres"], indirect=True)


@pytest.fixture
def bench_database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kind of database below benches."""
    if request.param == "sqlite":
        yield
        return
    postgres, template = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_template")
    with postgres.database(template=template) as url:
        monkeypatch.setattr(service_bench, "database_url", url)
        yield


@pytest.fixture
def stage_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of store of stages."""
    if request.param != "memory":
        monkeypatch.setattr(service_stage, "new_store", request.getfixturevalue(f"{request.param}_stores_here"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Place("", tmp_path_factory.mktemp("template"))
    migrate(place)
    return place.sqlite_file


@pytest.fixture
def sqlite_stores_here(sqlite_template: Path, tmp_path: Path) -> object:
    return sqlite_stores(sqlite_template, tmp_path)


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = Place(postgres.new_database(), tmp_path_factory.mktemp("template"))
    migrate(place)
    return place.url


@pytest.fixture
def postgres_stores_here(postgres: PostgresCluster, postgres_template: str, tmp_path: Path) -> Iterator[object]:
    made: list[str] = []
    yield postgres_stores(postgres, postgres_template, tmp_path, made=made)
    for url in made:
        postgres.drop(url)
