"""Metrics of two servers on one database: sums count nothing twice, whichever server leads."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aliquot.cli.acceptance.processes import OwnServer
from failover_cluster import FailoverCluster, failover_cluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def sums(on: FailoverCluster, server: OwnServer) -> dict[str, float]:
    """A server's metrics, summed over labels, by sample name."""
    token = on.servers[0].token
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {token}"})
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def ready(server: OwnServer) -> dict[str, object]:
    async with httpx.AsyncClient(timeout=60) as http:
        return dict((await http.get(f"{server.url}/readyz")).json())


async def test_only_the_leader_exports_cluster_metrics_and_each_server_its_own(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        leader, follower = on.servers
        await on.wait_for_standing(follower, role="follower", leader_address=leader.url)
        await on.ended(await on.submit("exit 0", key="one", first=1))
        told, besides = await sums(on, leader), await sums(on, follower)
        assert (told["aliquot_leader"], besides["aliquot_leader"]) == (1, 0)
        assert told["aliquot_gpus"] == 8
        assert told["aliquot_sessions_ended_total"] == told["aliquot_sessions_submitted_total"] == 1
        assert not {"aliquot_gpus", "aliquot_sessions", "aliquot_sessions_ended_total"} & besides.keys()
        assert besides["aliquot_database_up"] == besides["aliquot_ready"] == 1
        assert besides["aliquot_requests_total"] > 0
        assert await ready(follower) == {"ready": True, "missing": [], "warnings": []}
        await leader.stop()
        assert await on.leader(among=[follower]) is follower
        await on.wait_for_agents(follower)
        after = await sums(on, follower)
        assert (after["aliquot_leader"], after["aliquot_gpus"]) == (1, 8)
        assert after["aliquot_sessions_ended_total"] == 0  # it counts from its election on
