"""Ray driver: the gateway's calls to Ray. All functions block and are called in threads."""

import logging
from dataclasses import dataclass, field
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aliquot.execution.ray.actor import NodeActor
from aliquot.execution.ray.node.raylet import wants_agent

NAMESPACE: Final = "aliquot"
CALLS_MAX: Final = 10_000
"""Maximum of concurrent calls to one actor; most of them only wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node that is alive according to Ray."""

    id: str
    """Changes with each start of its raylet."""
    hostname: str
    address: str
    wants_agent: bool = field(default=True)


def connect(head: str) -> str:
    """Connect as a driver of the cluster; returns Ray's version.

    Raises:
        Exception: any exception of Ray, for example without a Ray node on this host or with a wrong token.
    """
    ray.init(
        address=head, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, logging_level=logging.WARNING
    )
    logging.getLogger("ray").setLevel(logging.WARNING)
    return str(ray.__version__)


def alive_nodes() -> tuple[RayNode, ...]:
    """The living nodes, sorted by id. Waits while Ray's control store is away."""
    entries: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray does not say
    found = (_node(entry) for entry in entries if entry["Alive"])
    return tuple(sorted(found, key=lambda node: node.id))


def obtain_actor(node: RayNode) -> Any:
    """The node's actor; created if it does not exist."""
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
    """Kill an actor without restart; kernels of its agents keep running."""
    ray.kill(actor, no_restart=True)


def _node(entry: dict[str, Any]) -> RayNode:
    return RayNode(
        id=entry["NodeID"],
        hostname=entry["NodeManagerHostname"],
        address=entry["NodeManagerAddress"],
        wants_agent=wants_agent(entry.get("Labels") or {}),
    )
