"""REST operations on the cluster: GPU status, and external allocations."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from aliquot.api.rest.framework import Operation, RestRequest
from aliquot.api.rest.requests import AllocateGpus, ReleaseGpus
from aliquot_schema.resources.units import decimal_text, duration_seconds
from aliquot_schema.views.preview import ExternalAllocationView, NewExternalAllocation
from aliquot_schema.views.server import RayView
from aliquot_schema.views.sessions import AllocatedGpuView
from aliquot_schema.views.statistics import GpuView, NodeView


class ClusterStatus(Struct, kw_only=True):
    """All GPUs, except those of lost agents, which sessions may still hold. A shared GPU counts by its shares: with 0.3
    of it held, 0.7 is available.
    """

    total_gpus: float
    available_gpus: float
    allocated_gpus: float
    nodes: tuple[NodeView, ...]
    gpus: tuple[GpuView, ...]
    ray: RayView | None


async def gpu_status(ask: RestRequest) -> ClusterStatus:
    """GPUs, nodes and holders."""
    context = ask.context
    cluster = context.services.queries.cluster(context.caller, context.services.ray())
    seen = cluster.look()
    return ClusterStatus(
        total_gpus=seen.total_gpus,
        available_gpus=seen.available_gpus,
        allocated_gpus=seen.allocated_gpus,
        nodes=seen.nodes,
        gpus=seen.gpus,
        ray=cluster.ray,
    )


async def gpu_allocate(ask: RestRequest) -> ExternalAllocationView:
    """See `ExternalAllocations.allocate`."""
    body: AllocateGpus = ask.body
    asked = NewExternalAllocation(
        job_id=body.job_id,
        gpu_count=decimal_text(body.gpu_count),
        memory_gb=None if body.memory_gb is None else decimal_text(body.memory_gb),
        lease=duration_seconds(body.lease, field="lease"),
        time_limit=duration_seconds(body.time_limit, field="time_limit"),
        project=body.project,
        pool=body.pool,
    )
    return await ask.external_allocations.allocate(ask.context.caller, asked)


class ReleasedGpus(Struct, kw_only=True):
    """The GPUs that the external allocation held until now."""

    job_id: str
    session_id: str
    released_gpus: float
    """Their number; 0.25 is a quarter of one."""
    gpu_ids: tuple[str, ...]
    gpus: tuple[AllocatedGpuView, ...]
    expires_at: datetime | None = None
    """Always null."""
    renewed: bool = False
    """Always false: a release renews nothing."""
    revision: int


async def gpu_release(ask: RestRequest) -> ReleasedGpus:
    """See `ExternalAllocations.release`."""
    body: ReleaseGpus = ask.body
    done = await ask.external_allocations.release(ask.context.caller, body.job_id)
    return ReleasedGpus(
        job_id=done.job_id,
        session_id=done.session_id,
        released_gpus=round(sum(gpu.share for gpu in done.gpus), 3),
        gpu_ids=done.gpu_ids,
        gpus=done.gpus,
        revision=done.revision,
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/cluster/gpu-status",
        name="gpu_status",
        cost=200,
        summary="GPUs and nodes, their holders, and Ray where it is used. Those of lost agents are left out.",
        handler=gpu_status,
    ),
    Operation(
        method="POST",
        path="/cluster/gpu-allocate",
        name="gpu_allocate",
        summary="Allocate GPUs for work that you start yourself: immediately, all or nothing, until they are released "
        "or not renewed in time. 409 names the holders and, where known, until when they hold them.",
        handler=gpu_allocate,
        body=AllocateGpus,
        problems=(409,),
    ),
    Operation(
        method="POST",
        path="/cluster/gpu-release",
        name="gpu_release",
        summary="Release the GPUs of an external allocation; the answer names them.",
        handler=gpu_release,
        body=ReleaseGpus,
        problems=(404,),
    ),
)
