"""The cluster: its GPUs, and GPUs for work that is run outside."""

from typing import Final

from msgspec import Struct

from aliquot.api.rest.operations import Ask, Operation
from aliquot.api.rest.requests import AllocateGpus, ReleaseGpus
from aliquot_schema.decimals import decimal_text
from aliquot_schema.outside_views import NewOutside, OutsideView
from aliquot_schema.ray_views import RayView
from aliquot_schema.statistics_views import GpuView, NodeView


class ClusterStatus(Struct, kw_only=True):
    """All GPUs. A shared one counts by its parts: with 0.3 of one held, 0.7 of it is available."""

    total_gpus: float
    available_gpus: float
    allocated_gpus: float
    nodes: tuple[NodeView, ...]
    gpus: tuple[GpuView, ...]
    ray: RayView | None


async def gpu_status(ask: Ask) -> ClusterStatus:
    """What there is, and who has it."""
    context = ask.context
    cluster = context.reader.cluster(context.caller, context.ray())
    seen = cluster.look()
    return ClusterStatus(
        total_gpus=seen.total_gpus,
        available_gpus=seen.available_gpus,
        allocated_gpus=seen.allocated_gpus,
        nodes=seen.nodes,
        gpus=seen.gpus,
        ray=cluster.ray,
    )


async def gpu_allocate(ask: Ask) -> OutsideView:
    """See `Outside.allocate`."""
    body: AllocateGpus = ask.body
    asked = NewOutside(
        job_id=body.job_id,
        gpu_count=decimal_text(body.gpu_count),
        memory_gb=None if body.memory_gb is None else decimal_text(body.memory_gb),
        lease=body.lease,
        project=body.project,
        pool=body.pool,
    )
    return await ask.outside.allocate(ask.context.caller, asked)


async def gpu_release(ask: Ask) -> OutsideView:
    """See `Outside.release`."""
    body: ReleaseGpus = ask.body
    return await ask.outside.release(ask.context.caller, body.job_id)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/cluster/gpu-status",
        name="gpu_status",
        cost=200,
        summary="GPUs and nodes, who has them, and Ray where it is used.",
        handler=gpu_status,
        answer=ClusterStatus,
    ),
    Operation(
        method="POST",
        path="/cluster/gpu-allocate",
        name="gpu_allocate",
        summary="GPUs for work that is run outside: at once, all or nothing, until they are released or not called "
        "for again in time. 409 says who is in the way and, where it is known, until when.",
        handler=gpu_allocate,
        answer=OutsideView,
        body=AllocateGpus,
        problems=(409,),
    ),
    Operation(
        method="POST",
        path="/cluster/gpu-release",
        name="gpu_release",
        summary="Give back what a job holds.",
        handler=gpu_release,
        answer=OutsideView,
        body=ReleaseGpus,
        problems=(404,),
    ),
)
