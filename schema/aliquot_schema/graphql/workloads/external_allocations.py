"""GraphQL API of external allocations: GPUs for processes that Aliquot does not start, granted immediately or not."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context, ExternalAllocationsPort
from aliquot_schema.graphql.errors import ON_CREATE, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.workloads.sessions import AllocatedGpu
from aliquot_schema.resources.units import decimal_text
from aliquot_schema.views.preview import ExternalAllocationView, NewExternalAllocation

_ON_ALLOCATE: Final = (*ON_CREATE, errors.NotPlaced)
_ON_RELEASE: Final = (errors.NotFound, errors.Forbidden, errors.Unauthenticated, errors.Unavailable)


@strawberry.input(
    description="A request for GPUs for processes that Aliquot does not start. Repeating it with the same `job_id` "
    "renews the lease."
)
class AllocateGpusInput:
    job_id: str = strawberry.field(description="The caller's id of the allocation.")
    gpu_count: float = strawberry.field(default=1.0, description="Number of whole GPUs, or a share of one like 0.25.")
    memory_gb: float | None = strawberry.field(default=None, description="Minimum memory per GPU, in 10^9 bytes.")
    lease: float | None = strawberry.field(
        default=None, description="Lease time in seconds, until which it has to be renewed; null = one hour."
    )
    time_limit: float | None = strawberry.field(
        default=None,
        description="Seconds after the grant at which it ends, however often it is renewed; null = no limit. With it, "
        "the allocation may use GPUs that are reserved for a session that starts later.",
    )
    project: str | None = strawberry.field(default=None, description="Project to charge; null = the default project.")
    pool: str | None = strawberry.field(default=None, description="Pool of agents; null = the default pool.")

    def to_request(self) -> NewExternalAllocation:
        """The input as a request."""
        return NewExternalAllocation(
            job_id=self.job_id,
            gpu_count=decimal_text(self.gpu_count),
            memory_gb=None if self.memory_gb is None else decimal_text(self.memory_gb),
            lease=self.lease,
            time_limit=self.time_limit,
            project=self.project,
            pool=self.pool,
        )


@strawberry.type(description="An external allocation, after it was granted, renewed or released.")
class GpusAllocated:
    job_id: str = strawberry.field(description="The caller's id of the allocation.")
    session_id: strawberry.ID = strawberry.field(description="The session that represents it.")
    gpu_ids: list[strawberry.ID] = strawberry.field(description="Ids for `CUDA_VISIBLE_DEVICES`.")
    gpus: list[AllocatedGpu] = strawberry.field(description="The GPUs with their nodes and shares.")
    expires_at: datetime | None = strawberry.field(
        description="End of the lease unless it is renewed; null = released."
    )
    renewed: bool = strawberry.field(
        description="Whether another call had allocated the GPUs: an earlier one, whose lease this call renews, or one "
        "at the same moment."
    )
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ExternalAllocationView)


AllocateGpusResult: Final = union("AllocateGpusResult", GpusAllocated, *_ON_ALLOCATE)
ReleaseGpusResult: Final = union("ReleaseGpusResult", GpusAllocated, *_ON_RELEASE)


@strawberry.type
class ExternalAllocationMutations:
    @root_field(
        AllocateGpusResult,
        "Allocate GPUs for processes that Aliquot does not start: immediately, all or nothing, until they are "
        "released or the lease expires.",
    )
    async def allocate_gpus(
        self,
        info: Info[Context, None],
        input: Annotated[AllocateGpusInput, strawberry.argument(description="The allocation.")],
    ) -> ExternalAllocationView | errors.Error:
        context = info.context
        return await answer(_port(context).allocate(context.caller, input.to_request()), _ON_ALLOCATE)

    @root_field(ReleaseGpusResult, "Release an external allocation of the caller.")
    async def release_gpus(
        self,
        info: Info[Context, None],
        job_id: Annotated[str, strawberry.argument(description="The caller's id of the allocation.")],
    ) -> ExternalAllocationView | errors.Error:
        context = info.context
        return await answer(_port(context).release(context.caller, job_id), _ON_RELEASE)


def _port(context: Context) -> ExternalAllocationsPort:
    if context.services.external_allocations is None:
        raise Unavailable("external allocations are disabled on this server")
    return context.services.external_allocations
