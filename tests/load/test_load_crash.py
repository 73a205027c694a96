"""Five rounds of kill -9 on each database; the benchmark runs fifty."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from load_crash import CrashFindings, crash_rounds
from store_postgres import PostgresCluster, postgres_cluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS = 5


@pytest.fixture
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        yield cluster


async def test_server_crashes_lose_nothing_on_sqlite(tmp_path: Path) -> None:
    check(await crash_rounds(f"sqlite:///{tmp_path / 'crash.db'}", rounds=ROUNDS, seed=1))


async def test_server_crashes_lose_nothing_on_postgresql(postgres: PostgresCluster) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    check(await crash_rounds(url, rounds=ROUNDS, seed=2, postgres=postgres))


def check(found: CrashFindings) -> None:
    print(found)
    assert found.acknowledged > ROUNDS
    assert found.started > ROUNDS
    assert sum(found.kills.values()) == ROUNDS
    assert (found.lost, found.ids_reused, found.orphans, found.run_twice, found.not_completed) == (0, 0, 0, 0, 0)
