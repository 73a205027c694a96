"""GPUs for work that is run outside: at once or not at all."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.decimals import decimal_text
from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ON_CREATE, answer, union
from aliquot_schema.graphql.context import Context, Outsider
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import AllocatedGpu
from aliquot_schema.outside_views import NewOutside, OutsideView

_ON_ALLOCATE: Final = (*ON_CREATE, errors.NotPlaced)
_ON_RELEASE: Final = (errors.NotFound, errors.Forbidden, errors.Unauthenticated, errors.Unavailable)


@strawberry.input(description="GPUs for work that is run outside. The same `job_id` again holds them for longer.")
class AllocateGpusInput:
    job_id: str = strawberry.field(description="What the caller calls it.")
    gpu_count: float = strawberry.field(default=1.0, description="Whole GPUs, or shares of one like 0.25.")
    memory_gb: float | None = strawberry.field(default=None, description="The least memory per GPU, in 10^9 bytes.")
    lease: float | None = strawberry.field(
        default=None, description="Seconds until it has to be called for again; an hour unless given."
    )
    project: str | None = strawberry.field(default=None, description="The project it is charged to.")
    pool: str | None = strawberry.field(default=None, description="The pool of agents.")

    def to_request(self) -> NewOutside:
        """For the service."""
        return NewOutside(
            job_id=self.job_id,
            gpu_count=decimal_text(self.gpu_count),
            memory_gb=None if self.memory_gb is None else decimal_text(self.memory_gb),
            lease=self.lease,
            project=self.project,
            pool=self.pool,
        )


@strawberry.type(description="What a job holds, or has just given back.")
class GpusAllocated:
    job_id: str = strawberry.field(description="What the caller calls it.")
    session_id: strawberry.ID = strawberry.field(description="The session that it is shown as.")
    gpu_ids: list[strawberry.ID] = strawberry.field(description="For CUDA_VISIBLE_DEVICES.")
    gpus: list[AllocatedGpu] = strawberry.field(description="The same, with nodes and shares.")
    expires_at: datetime | None = strawberry.field(
        description="Unless it is called for again before; null when it holds nothing any more."
    )
    renewed: bool = strawberry.field(description="Whether it was held before.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, OutsideView)


AllocateGpusResult: Final = union("AllocateGpusResult", GpusAllocated, *_ON_ALLOCATE)
ReleaseGpusResult: Final = union("ReleaseGpusResult", GpusAllocated, *_ON_RELEASE)


@strawberry.type
class OutsideMutations:
    @root_field(
        AllocateGpusResult,
        "GPUs for work that is run outside: at once, all or nothing, until they are released or not called for again "
        "in time.",
    )
    async def allocate_gpus(
        self, info: Info[Context, None], input: Annotated[AllocateGpusInput, strawberry.argument(description="What.")]
    ) -> OutsideView | errors.Error:
        context = info.context
        return await answer(_outside(context).allocate(context.caller, input.to_request()), _ON_ALLOCATE)

    @root_field(ReleaseGpusResult, "Give back what a job of the caller's holds for work that is run outside.")
    async def release_gpus(
        self,
        info: Info[Context, None],
        job_id: Annotated[str, strawberry.argument(description="What the caller calls it.")],
    ) -> OutsideView | errors.Error:
        context = info.context
        return await answer(_outside(context).release(context.caller, job_id), _ON_RELEASE)


def _outside(context: Context) -> Outsider:
    if context.outside is None:
        raise Unavailable("this server gives nothing to work that is run outside")
    return context.outside
