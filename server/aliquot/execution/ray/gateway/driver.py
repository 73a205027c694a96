"""Ray, as the gateway uses it. Everything here blocks, and is called in threads."""

import logging
from dataclasses import dataclass, field
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aliquot.execution.ray.actor import NodeActor
from aliquot.execution.ray.node.labels import wants_agent

NAMESPACE: Final = "aliquot"
CALLS_MAX: Final = 10_000
"""Calls of one actor under way at once; they mostly wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node that Ray calls alive."""

    id: str
    """Another one after each start of its raylet."""
    hostname: str
    address: str
    wants_agent: bool = field(default=True)


def connect(head: str) -> str:
    """Become a driver of the cluster, and return Ray's version.

    Raises:
        Exception: whatever Ray raises: there is no Ray node of the cluster on this host, the token is wrong, ...
    """
    ray.init(
        address=head, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, logging_level=logging.WARNING
    )
    logging.getLogger("ray").setLevel(logging.WARNING)
    return str(ray.__version__)


def alive_nodes() -> tuple[RayNode, ...]:
    """The nodes, by their ids. Waits while Ray's control store is away."""
    entries: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray does not say
    found = (_node(entry) for entry in entries if entry["Alive"])
    return tuple(sorted(found, key=lambda node: node.id))


def obtain_actor(node: RayNode) -> Any:
    """The node's actor; made if there is none."""
    return (
        ray.remote(NodeActor)
        .options(
            name=f"node-{node.id}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=CALLS_MAX,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        .remote()
    )


def end_actor(actor: Any) -> None:
    """End an actor for good; what its agents started runs on."""
    ray.kill(actor, no_restart=True)


def _node(entry: dict[str, Any]) -> RayNode:
    return RayNode(
        id=entry["NodeID"],
        hostname=entry["NodeManagerHostname"],
        address=entry["NodeManagerAddress"],
        wants_agent=wants_agent(entry.get("Labels") or {}),
    )
