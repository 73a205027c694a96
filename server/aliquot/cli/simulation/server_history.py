"""Server history: the ended sessions of a server as a trace, and its agents as a cluster, read by GraphQL."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from aliquot.client import Client
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.snapshot import AgentRow, Request
from aliquot.core.simulation.trace import Job, numbered
from aliquot.core.workloads import program_of
from aliquot_schema.ids import AgentId, DeviceId, NodeId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.slots import MILLI, Unlimited, is_accelerator, is_size, parse_amount, scale_of
from aliquot_schema.sessions import Priority

SESSIONS: Final = """
query ($after: String) {
  sessions(filter: { states: [completed, failed, canceled] }, order: oldest, first: 100, after: $after) {
    total_count
    pageInfo { hasNextPage endCursor }
    edges { node {
      owner project priority preemptible slots { slot amount } cluster_size gpu_memory_gb time_limit attempt command
      queued_at started_at ended_at
    } }
  }
}
"""
AGENTS: Final = """
query ($after: String) {
  agents(first: 20, after: $after) {
    total_count
    pageInfo { hasNextPage endCursor }
    edges { node {
      id node_id capacity { slot amount }
      devices { id name kind model health parent_id numa_node memory_bytes capacity }
    } }
  }
}
"""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Node = Mapping[str, Any]


async def read_history(client: Client, *, on_progress: Callable[[int, int], None]) -> tuple[Job, ...]:
    """Read every session that ran and ended, by submission.

    Args:
        on_progress: called after each page with the number of sessions read, and of all.
    """
    nodes = [node async for node in _nodes(client, SESSIONS, on_progress=on_progress)]
    # Sessions that never ran have no attempt; a job array is left out too, as its tasks are listed.
    return numbered(_job(node) for node in nodes if node["started_at"] and node["attempt"])


async def read_agents(client: Client) -> tuple[AgentRow, ...]:
    """Read the agents as they are registered now, and take all of them as schedulable."""
    return tuple([_agent(node) async for node in _nodes(client, AGENTS, on_progress=lambda _read, _all: None)])


async def _nodes(client: Client, query: str, *, on_progress: Callable[[int, int], None]) -> AsyncIterator[Node]:
    after: str | None = None
    read = 0
    while True:
        (page,) = (await client.execute(query, {"after": after})).values()
        for edge in page["edges"]:
            yield edge["node"]
        read += len(page["edges"])
        on_progress(read, page["total_count"])
        if not page["pageInfo"]["hasNextPage"]:
            return
        after = page["pageInfo"]["endCursor"]


def _job(node: Node) -> Job:
    queued_us, started_us, ended_us = (_us(node[name]) for name in ("queued_at", "started_at", "ended_at"))
    limit_s, memory_gb = node["time_limit"], node["gpu_memory_gb"]
    return Job(
        id=SessionId(""),
        user=UserId(node["owner"]),
        project=ProjectId(node["project"]),
        submit_us=queued_us,
        duration_ms=max((ended_us - started_us) // 1000, 1),
        request=_request(node["slots"]),
        cluster_size=node["cluster_size"],
        limit_ms=None if limit_s is None else round(limit_s * 1000),
        priority=Priority[node["priority"].upper()],
        preemptible=node["preemptible"],
        program=program_of(node["command"]),
        gpu_memory_bytes=None if memory_gb is None else int(Decimal(memory_gb) * 10**9),
    )


def _request(slots: list[Node]) -> Request:
    return tuple(sorted((SlotName(one["slot"]), _amount(one["slot"], one["amount"])) for one in slots))


def _agent(node: Node) -> AgentRow:
    slots = [SlotName(one["slot"]) for one in node["capacity"]]
    devices = [_device(device, slots) for device in node["devices"] if device["health"] != DeviceHealth.GONE]
    return AgentRow(
        id=AgentId(node["id"]),
        node_id=NodeId(node["node_id"]),
        layout=DeviceLayout.of(device for device in devices if device.costs),
        is_open=True,
    )


def _device(node: Node, slots: list[SlotName]) -> Device:
    kind = node["kind"]
    costs = {slot: MILLI // scale_of(slot) for slot in slots if _is_of(slot, kind)} or {SlotName(kind): 1}
    is_host = not any(is_accelerator(slot) for slot in costs)
    return Device(
        id=DeviceId(node["id"]),
        name=node["name"],
        kind=kind,
        model=node["model"],
        budget=_amount(kind if is_host else f"{kind}.shares", node["capacity"]),
        costs=costs,
        quanta={},
        memory_bytes=node["memory_bytes"],
        numa_node=node["numa_node"],
        parent=None if node["parent_id"] is None else DeviceId(node["parent_id"]),
        health=DeviceHealth(node["health"]),
    )


def _is_of(slot: SlotName, kind: str) -> bool:
    """Whether a slot counts devices of this kind, or shares of them."""
    return is_accelerator(slot) and not is_size(slot) and slot.split(".")[0] == kind


def _amount(slot: str, text: str) -> int:
    amount = parse_amount(slot, text)
    assert not isinstance(amount, Unlimited), f"{slot} of a session or device is never unlimited"
    return amount


def _us(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)
