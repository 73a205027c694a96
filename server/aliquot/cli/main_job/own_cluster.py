"""The demo cluster of the main job, over any transport."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aliquot.cli.main_job.own_agents import demo_agents
from aliquot.cli.main_job.own_ray import OwnRay, join_demo_nodes
from aliquot.cli.main_job.own_server import OwnServer


@asynccontextmanager
async def own_cluster(*, agents: int, ray: bool) -> AsyncIterator[OwnServer]:
    """A server with two nodes of eight mock H100 each.

    Args:
        agents: how many of the nodes are agents that dial in; 0 = the server runs them itself, or Ray has them.
    """
    if ray:
        async with OwnRay() as cluster, OwnServer(*cluster.server_options) as server:
            await join_demo_nodes(cluster, server)
            yield server
    else:
        async with OwnServer("--no-local-agents" if agents else "--demo") as server, demo_agents(server, count=agents):
            yield server
