"""The measured server on PostgreSQL, whose own settings wait for the disk at each commit."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from cluster import cluster

from aliquot.cli.acceptance.processes import OwnServer

sys.path.append(str(Path(__file__).parents[1] / "support"))

from store_postgres import postgres_cluster  # the path is set above


@asynccontextmanager
async def cluster_on_postgresql() -> AsyncIterator[OwnServer]:
    """A server with an empty queue, and a database of its own."""
    with postgres_cluster() as postgres:
        url = await asyncio.to_thread(postgres.new_database)
        async with cluster(database=url) as server:
            yield server


def as_twins(found: Mapping[str, float]) -> dict[str, float]:
    """Figures under their names on PostgreSQL."""
    return {f"{name}_pg": value for name, value in found.items()}
