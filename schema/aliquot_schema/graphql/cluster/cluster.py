"""GraphQL API of the cluster: nodes, GPUs and capacity, pools, projects and queue statistics."""

from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.cluster.agents import Gpu
from aliquot_schema.graphql.cluster.policy import Quota, Usage
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.admin import ClusterPoolView, ProjectView
from aliquot_schema.views.statistics import ClusterView, IdleBehindQuotasView, QueueStatisticsView


@strawberry.type(description="The Ray cluster whose nodes run agents, as seen by the answering server.")
class RayCluster:
    head_node: str = strawberry.field(description="Address of its head, `HOST:PORT`.")
    connected: bool = strawberry.field(description="Whether the server is connected to Ray.")
    version: str | None = strawberry.field(description="Ray's version; null while disconnected.")
    workers: int = strawberry.field(description="Number of nodes with a reachable agent.")
    nodes: int = strawberry.field(description="Number of nodes that Ray reports alive, including its head.")
    reason: str | None = strawberry.field(description="Why it is disconnected, or why nodes have no reachable agent.")


@strawberry.type(
    description="Capacity of a slot on reachable agents. A device shared by several agents counts once; whole devices "
    "that are partly held count by the held share."
)
class SlotCapacity:
    slot: str = strawberry.field(description="Name of the slot.")
    total: str = strawberry.field(description="Total on healthy devices.")
    available: str = strawberry.field(description="Part that is not held, fragmented or not.")
    allocated: str = strawberry.field(description="Part that is held.")


@strawberry.type(description="A host with agents.")
class Node:
    node_id: strawberry.ID = strawberry.field(description="Id of the host, stable over reboots.")
    hostname: str = strawberry.field(description="Name of the host.")
    gpu_count: int = strawberry.field(description="Number of GPUs; each counts once.")
    gpu_type: str = strawberry.field(description="Models of the GPUs, most frequent first; empty = no GPUs.")
    agents: list[strawberry.ID] = strawberry.field(description="Agents on the host.")
    gpus: list[Gpu] = strawberry.field(description="Its GPUs.")


@strawberry.type(
    description="The cluster: hosts, GPUs and capacity. Shared GPUs count fractionally. GPUs of lost agents do not "
    "count, although sessions may still hold them."
)
class Cluster:
    total_gpus: float = strawberry.field(description="Number of healthy GPUs; each counts once.")
    available_gpus: float = strawberry.field(
        description="Part of these that can be allocated, in fractions, fragmented or not. Excludes GPUs of drained "
        "agents and GPUs used by processes that Aliquot did not start."
    )
    allocated_gpus: float = strawberry.field(description="Part of these that is held, in fractions.")
    nodes: list[Node] = strawberry.field(description="Hosts with agents, except lost ones.")
    gpus: list[Gpu] = strawberry.field(description="All GPUs, including unhealthy ones, except those of lost agents.")
    capacity: list[SlotCapacity] = strawberry.field(description="Capacity by slot.")
    ray: RayCluster | None = strawberry.field(description="State of Ray; null if the server does not use it.")


@strawberry.type
class ClusterQueries:
    @root_field(Cluster, "The cluster: hosts, GPUs and capacity.")
    async def cluster(self, info: Info[Context, None]) -> ClusterView:
        context = info.context
        return context.services.queries.cluster(context.caller, context.services.ray())


@strawberry.type(
    description="A pool, a named partition of the cluster's agents, with its content. A device shared by agents of "
    "several pools counts in each of them. GPUs of lost agents do not count, although sessions may still hold them."
)
class ClusterPool:
    name: str = strawberry.field(description="Name of the pool.")
    agents: list[strawberry.ID] = strawberry.field(description="Its agents, except those that left.")
    nodes: list[strawberry.ID] = strawberry.field(description="Hosts of these agents.")
    schedulable: bool = strawberry.field(description="Whether any of its agents accepts new work now.")
    gpu_count: int = strawberry.field(
        description="Number of GPUs on its reachable agents, including unhealthy ones; each counts once."
    )
    gpu_type: str = strawberry.field(description="Models of the GPUs, most frequent first; empty = no GPUs.")
    total_gpus: float = strawberry.field(description="Number of healthy GPUs; each counts once.")
    available_gpus: float = strawberry.field(
        description="Part of these that can be allocated, in fractions, fragmented or not. Excludes GPUs of drained "
        "agents and GPUs used by processes that Aliquot did not start."
    )
    allocated_gpus: float = strawberry.field(description="Part of these that is held, in fractions.")
    capacity: list[SlotCapacity] = strawberry.field(description="Capacity by slot.")
    total_queued: int = strawberry.field(description="Waiting tasks of the pool; a job array counts its waiting tasks.")
    running: int = strawberry.field(description="Sessions and array tasks that hold devices of the pool.")
    order_bound: str = strawberry.field(
        description="How much later a session may come and still pass an earlier one, in words, by the policy and the "
        "present backlog."
    )


@strawberry.type(description="A project: users whose usage is charged together. Known once it has a session or quota.")
class Project:
    name: str = strawberry.field(description="Name of the project.")
    users: list[str] = strawberry.field(description="Users with past usage or current sessions in the project.")
    total_queued: int = strawberry.field(description="Waiting tasks; a job array counts its waiting tasks.")
    running: int = strawberry.field(description="Sessions and array tasks that hold devices.")
    allocated_gpus: float = strawberry.field(description="GPUs held by its sessions, in fractions.")
    gpu_hours: float = strawberry.field(
        description="Total usage in hours of a whole device, weighted by the policy's `charges`."
    )
    gpu_hours_month: float = strawberry.field(description="The same for this calendar month, UTC.")
    share: float = strawberry.field(description="Share of all usage that counts in fair share now, 0 to 1.")
    usage: list[Usage] = strawberry.field(description="Usage by user.")
    quota: Quota | None = strawberry.field(description="Its quota; null = none.")


@strawberry.type
class DivisionQueries:
    """Part of `Query`."""

    @root_field(list[ClusterPool], "The policy's pools with their agents, capacity and load.")
    async def pools(
        self, info: Info[Context, None], name: Annotated[str | None, argument("Only the one of this name.")] = None
    ) -> tuple[ClusterPoolView, ...]:
        return info.context.services.queries.pools(info.context.caller, name=name)

    @root_field(list[Project], "Projects with their users, usage and quotas.")
    async def projects(
        self, info: Info[Context, None], name: Annotated[str | None, argument("Only the one of this name.")] = None
    ) -> tuple[ProjectView, ...]:
        return info.context.services.queries.projects(info.context.caller, name=name)


@strawberry.type(description="Histogram bucket of waiting times until devices were granted.")
class WaitBucket:
    at_least: float = strawberry.field(description="Lower bound in seconds, included.")
    below: float | None = strawberry.field(description="Upper bound in seconds, excluded; null = unbounded.")
    count: int = strawberry.field(description="Number of sessions.")


@strawberry.type(description="The queue now, and its throughput in the preceding window. Times are seconds.")
class QueueStatistics:
    revision: BigInt = strawberry.field(description="Number of the last event included.")
    total_queued: int = strawberry.field(description="Waiting tasks; a job array counts its waiting tasks.")
    oldest_wait: float | None = strawberry.field(description="Longest wait so far; null if the queue is empty.")
    window: float = strawberry.field(
        description="Length of the window of the fields below: one hour, or less if memory does not cover it."
    )
    started: int = strawberry.field(description="Sessions and array tasks that were granted devices.")
    finished: int = strawberry.field(description="Sessions and array tasks that ran and ended.")
    average_wait_time: float | None = strawberry.field(description="Of those started; null = none.")
    median_wait_time: float | None = strawberry.field(description="Of those started; null = none.")
    throughput: float = strawberry.field(description="Jobs per hour: `finished`, scaled to an hour.")
    wait_distribution: list[WaitBucket] = strawberry.field(description="Waiting times of those started.")


@strawberry.type(description="Free GPUs that waiting sessions would fit, if quotas did not hold these sessions back.")
class IdleBehindQuotas:
    gpus_free: float = strawberry.field(description="Free GPUs; shared GPUs count fractionally.")
    sessions_held_back: int = strawberry.field(
        description="Waiting sessions with reason `quota` that request GPUs; a job array counts once."
    )
    sessions_waiting: int = strawberry.field(description="Waiting sessions, without held ones.")
    message: str = strawberry.field(description="These numbers as a sentence.")


@strawberry.type
class StatisticsQueries:
    @root_field(
        IdleBehindQuotas | None,
        "GPUs that are idle while quotas hold waiting sessions back; null if there are none.",
    )
    async def idle_behind_quotas(self, info: Info[Context, None]) -> IdleBehindQuotasView | None:
        return info.context.services.queries.idle_behind_quotas(info.context.caller)

    @root_field(QueueStatistics, "Length of the queue, waiting times and throughput.")
    async def queue_statistics(self, info: Info[Context, None]) -> QueueStatisticsView:
        return info.context.services.queries.queue_statistics(info.context.caller)
