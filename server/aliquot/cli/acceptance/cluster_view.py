"""Cluster view: the agents and their kernels, from one answer of the server at one revision."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from aliquot.client import Client
from aliquot_schema.resources.slots import parse_amount
from aliquot_schema.states import KernelState

QUERY: Final = """
query {
  agents(first: 100) {
    revision
    edges { node {
      id
      node_id
      gpu_alloc_map
      kernels { id state resource_spec { slot devices { device_id amount } } }
    } }
  }
}
"""

JOINED: Final = "query { agents(filter: { states: [alive] }, first: 1) { total_count } }"
JOIN_S_MAX: Final = 60.0
JOIN_POLL_S: Final = 0.01


class HoldingKernel(Struct, frozen=True, kw_only=True):
    """A kernel that holds devices."""

    id: str
    state: KernelState
    shares: Mapping[str, int]
    """Milli of each accelerator in its grant."""


class AgentNow(Struct, frozen=True, kw_only=True):
    """One agent."""

    id: str
    node_id: str
    alloc_map: Mapping[str, int]
    """Milli held of each accelerator, by kernels of any agent of the node."""
    kernels: tuple[HoldingKernel, ...]


class ClusterNow(Struct, frozen=True, kw_only=True):
    """All agents, at one revision."""

    revision: int
    agents: tuple[AgentNow, ...]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held."""
        return not any(agent.kernels or any(agent.alloc_map.values()) for agent in self.agents)


async def read_cluster(client: Client) -> ClusterNow:
    """Query the server."""
    page = (await client.execute(QUERY))["agents"]
    return ClusterNow(revision=page["revision"], agents=tuple(_agent(edge["node"]) for edge in page["edges"]))


async def until_joined(client: Client, *, agents: int, timeout_s: float = JOIN_S_MAX) -> None:
    """Wait until at least `agents` agents are alive.

    Raises:
        TimeoutError: they did not join in time.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            page = (await client.execute(JOINED))["agents"]
            if page["total_count"] >= agents:
                return
            await asyncio.sleep(JOIN_POLL_S)


def granted_shares(grants: list[dict[str, Any]]) -> dict[str, int]:
    """Milli of each accelerator in a resource spec of devices of capacity 1."""
    shares: dict[str, int] = {}
    for grant in grants:
        if grant["slot"].endswith((".device", ".shares")):
            for held in grant["devices"]:
                shares[held["device_id"]] = shares.get(held["device_id"], 0) + _milli(held["amount"])
    return shares


def _agent(node: dict[str, Any]) -> AgentNow:
    return AgentNow(
        id=node["id"],
        node_id=node["node_id"],
        alloc_map={id: _milli(amount) for id, amount in json.loads(node["gpu_alloc_map"]).items()},
        kernels=tuple(
            HoldingKernel(
                id=kernel["id"],
                state=KernelState(kernel["state"]),
                shares=granted_shares(kernel["resource_spec"]),
            )
            for kernel in node["kernels"]
        ),
    )


def _milli(amount: str) -> int:
    milli = parse_amount("cuda.shares", amount)
    assert isinstance(milli, int)
    return milli
