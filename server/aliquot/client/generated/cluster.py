"""Cluster.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct

from aliquot.client.generated.agents import Gpu
from aliquot.client.generated.policy import Quota, Usage


class Node(Struct, frozen=True, kw_only=True):
    """A host with agents."""

    node_id: str
    """Id of the host, stable over reboots."""
    hostname: str
    """Name of the host."""
    gpu_count: int
    """Number of GPUs; each counts once."""
    gpu_type: str
    """Models of the GPUs, most frequent first; empty = no GPUs."""
    agents: tuple[str, ...]
    """Agents on the host."""
    gpus: tuple[Gpu, ...]
    """Its GPUs."""


class SlotCapacity(Struct, frozen=True, kw_only=True):
    """
    Capacity of a slot on reachable agents. A device shared by several agents counts once; whole devices that are partly
    held count by the held share.
    """

    slot: str
    """Name of the slot."""
    total: str
    """Total on healthy devices."""
    available: str
    """Part that is not held, fragmented or not."""
    allocated: str
    """Part that is held."""


class RayCluster(Struct, frozen=True, kw_only=True):
    """The Ray cluster whose nodes run agents, as seen by the answering server."""

    head_node: str
    """Address of its head, `HOST:PORT`."""
    connected: bool
    """Whether the server is connected to Ray."""
    version: str | None
    """Ray's version; null while disconnected."""
    workers: int
    """Number of nodes with a reachable agent."""
    nodes: int
    """Number of nodes that Ray reports alive, including its head."""
    reason: str | None
    """Why it is disconnected, or why nodes have no reachable agent."""


class Cluster(Struct, frozen=True, kw_only=True):
    """
    The cluster: hosts, GPUs and capacity. Shared GPUs count fractionally. GPUs of lost agents do not count, although
    sessions may still hold them.
    """

    total_gpus: float
    """Number of healthy GPUs; each counts once."""
    available_gpus: float
    """
    Part of these that can be allocated, in fractions, fragmented or not. Excludes GPUs of drained agents and GPUs used
    by processes that Aliquot did not start.
    """
    allocated_gpus: float
    """Part of these that is held, in fractions."""
    nodes: tuple[Node, ...]
    """Hosts with agents, except lost ones."""
    gpus: tuple[Gpu, ...]
    """All GPUs, including unhealthy ones, except those of lost agents."""
    capacity: tuple[SlotCapacity, ...]
    """Capacity by slot."""
    ray: RayCluster | None
    """State of Ray; null if the server does not use it."""


class ClusterPool(Struct, frozen=True, kw_only=True):
    """
    A pool, a named partition of the cluster's agents, with its content. A device shared by agents of several pools
    counts in each of them. GPUs of lost agents do not count, although sessions may still hold them.
    """

    name: str
    """Name of the pool."""
    agents: tuple[str, ...]
    """Its agents, except those that left."""
    nodes: tuple[str, ...]
    """Hosts of these agents."""
    schedulable: bool
    """Whether any of its agents accepts new work now."""
    gpu_count: int
    """Number of GPUs on its reachable agents, including unhealthy ones; each counts once."""
    gpu_type: str
    """Models of the GPUs, most frequent first; empty = no GPUs."""
    total_gpus: float
    """Number of healthy GPUs; each counts once."""
    available_gpus: float
    """
    Part of these that can be allocated, in fractions, fragmented or not. Excludes GPUs of drained agents and GPUs used
    by processes that Aliquot did not start.
    """
    allocated_gpus: float
    """Part of these that is held, in fractions."""
    capacity: tuple[SlotCapacity, ...]
    """Capacity by slot."""
    total_queued: int
    """Waiting tasks of the pool; a job array counts its waiting tasks."""
    running: int
    """Sessions and array tasks that hold devices of the pool."""
    order_bound: str
    """
    How much later a session may come and still pass an earlier one, in words, by the policy and the present backlog.
    """


class IdleBehindQuotas(Struct, frozen=True, kw_only=True):
    """Free GPUs that waiting sessions would fit, if quotas did not hold these sessions back."""

    gpus_free: float
    """Free GPUs; shared GPUs count fractionally."""
    sessions_held_back: int
    """Waiting sessions with reason `quota` that request GPUs; a job array counts once."""
    sessions_waiting: int
    """Waiting sessions, without held ones."""
    message: str
    """These numbers as a sentence."""


class Project(Struct, frozen=True, kw_only=True):
    """A project: users whose usage is charged together. Known once it has a session or quota."""

    name: str
    """Name of the project."""
    users: tuple[str, ...]
    """Users with past usage or current sessions in the project."""
    total_queued: int
    """Waiting tasks; a job array counts its waiting tasks."""
    running: int
    """Sessions and array tasks that hold devices."""
    allocated_gpus: float
    """GPUs held by its sessions, in fractions."""
    gpu_hours: float
    """Total usage in hours of a whole device, weighted by the policy's `charges`."""
    gpu_hours_month: float
    """The same for this calendar month, UTC."""
    share: float
    """Share of all usage that counts in fair share now, 0 to 1."""
    usage: tuple[Usage, ...]
    """Usage by user."""
    quota: Quota | None
    """Its quota; null = none."""


class WaitBucket(Struct, frozen=True, kw_only=True):
    """Histogram bucket of waiting times until devices were granted."""

    at_least: float
    """Lower bound in seconds, included."""
    below: float | None
    """Upper bound in seconds, excluded; null = unbounded."""
    count: int
    """Number of sessions."""


class QueueStatistics(Struct, frozen=True, kw_only=True):
    """The queue now, and its throughput in the preceding window. Times are seconds."""

    revision: int
    """Number of the last event included."""
    total_queued: int
    """Waiting tasks; a job array counts its waiting tasks."""
    oldest_wait: float | None
    """Longest wait so far; null if the queue is empty."""
    window: float
    """Length of the window of the fields below: one hour, or less if memory does not cover it."""
    started: int
    """Sessions and array tasks that were granted devices."""
    finished: int
    """Sessions and array tasks that ran and ended."""
    average_wait_time: float | None
    """Of those started; null = none."""
    median_wait_time: float | None
    """Of those started; null = none."""
    throughput: float
    """Jobs per hour: `finished`, scaled to an hour."""
    wait_distribution: tuple[WaitBucket, ...]
    """Waiting times of those started."""
