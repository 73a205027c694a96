"""A cluster of any size in memory, its metrics behind a real listener, and how to read them."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from msgspec.structs import replace
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.metrics.exposition import MetricsSources, Scrape
from aliquot.api.metrics.request_counts import RequestCounts
from aliquot.api.metrics.server import ServerFigures
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.metrics.health import HealthCondition
from aliquot.service.metrics.metrics import Measures
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.graphql.context import Services
from aliquot_schema.ids import DeviceId, UserId
from aliquot_schema.resources.devices import DeviceReading
from allocation_devices import gpu
from api_fakes import FakeCluster, FakeReader, FakeWatcher, FakeWriter
from api_memory_admin import MemoryAdministration
from api_server import TOKEN, listening
from core_records import agent

NOW_US = 1_800_000_000_000_000


@dataclass
class Scraped:
    """A server whose metrics can be scraped."""

    office: MemoryAdministration
    cluster: FakeCluster
    reader: FakeReader
    measures: Measures
    database: StoreMeasures
    http: httpx.AsyncClient
    """Without a key."""
    leads: bool = True
    look: Callable[[], Scrape] = field(init=False)
    """The event loop's part of a scrape."""

    def join(self, agents: Iterable[Agent]) -> None:
        """Agents that measure: half used, 20 GB, 41 degrees, 300 W."""
        state = self.office.state
        agents = tuple(agents)
        state.load(agents, revision=state.revision, ended_complete=True)
        for one in agents:
            state.reachable.add(one.id)
            state.readings.update({(one.id, device.id): _reading(device.id) for device in one.devices})

    async def families(self, **headers: str) -> dict[str, Metric]:
        """Metrics, without `_total`."""
        answer = await self.http.get("/metrics", headers={"authorization": f"Bearer {TOKEN}", **headers})
        assert answer.status_code == 200, answer.text
        return {family.name: family for family in text_string_to_metric_families(answer.text)}

    async def value(self, sample: str, **labels: str) -> float | None:
        """A sample's value, by its full name."""
        for family in (await self.families()).values():
            for found in family.samples:
                if found.name == sample and labels.items() <= found.labels.items():
                    return found.value
        return None


@asynccontextmanager
async def scraped(*, conditions: tuple[HealthCondition, ...] = (), **more: Any) -> AsyncIterator[Scraped]:
    """Serve the metrics of a cluster that has no agents yet.

    Args:
        more: fields of `MetricsSources`.
    """
    cluster, office = FakeCluster(), MemoryAdministration()
    auth = TokenAuth(TOKEN, UserId("ada"), people=office.state.people)
    open_connections = OpenConnections(auth)
    office.journal.subscribe(open_connections.note)
    measures, database = Measures(), StoreMeasures()
    async with httpx.AsyncClient(timeout=60) as http:
        server = Scraped(office, cluster, FakeReader(cluster), measures, database, http)
        sources = MetricsSources(
            state=office.state,
            measures=measures,
            database=database,
            leads=lambda: server.leads,
            now_us=lambda: NOW_US,
            version="1.2.3",
        )
        server.look = lambda: sources.read(ServerFigures(requests=RequestCounts()))
        deps = ApiDependencies(
            services=Services(
                queries=server.reader,
                sessions=FakeWriter(cluster),
                subscriptions=FakeWatcher(cluster),
                administration=office.administration,
                accounts=office.accounts,
            ),
            auth=auth,
            open_connections=open_connections,
            conditions=lambda: conditions,
            metrics=replace(sources, **more),
        )
        async with listening(create_app(deps), lifespan="off") as port:
            http.base_url = httpx.URL(f"http://127.0.0.1:{port}")
            yield server


def node(number: int, *, devices: int = 8, **fields: Any) -> Agent:
    """An agent on its own node, with devices of its own."""
    names = (DeviceId(f"GPU-{number:04d}-{index}") for index in range(devices))
    found = tuple(replace(gpu(index), id=name) for index, name in enumerate(names))
    return agent(f"a{number}", node=f"n{number}", devices=found, **fields)


def _reading(device_id: DeviceId) -> DeviceReading:
    return DeviceReading(
        device_id=device_id, utilization_pct=50.0, memory_used_bytes=20 * 10**9, temperature_c=41.0, power_w=300.0
    )
