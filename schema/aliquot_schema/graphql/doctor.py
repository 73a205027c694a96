"""An examination of the cluster."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.doctor_views import ExaminationView, RescanView
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import Discrepancy
from aliquot_schema.graphql.roots import root_field


@strawberry.type(description="Something that the store, an agent and its devices do not agree about.")
class Difference:
    kind: Discrepancy = strawberry.field(description="What does not agree with what.")
    agent_id: strawberry.ID = strawberry.field(description="The agent that it was seen on.")
    subject: str = strawberry.field(description="The kernel or the device.")
    evidence: str = strawberry.field(description="What was seen.")
    since: datetime | None = strawberry.field(
        description="Since when it is sure; null when it was seen just now, and may be gone with the next message."
    )
    repair: str | None = strawberry.field(description="What the server does about it once it is sure.")


@strawberry.type(description="What was found by asking every agent just now. Nothing was changed.")
class Examination:
    differences: list[Difference] = strawberry.field(description="By agent.")
    asked: list[str] = strawberry.field(description="Agents that answered.")
    silent: list[str] = strawberry.field(description="Agents that could not be asked.")


@strawberry.type(description="The resource specs of one agent, as its files have them. Nothing was changed.")
class RescanSuccess:
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    scanned: int = strawberry.field(description="How many files of kernels that have not ended there are.")
    unreadable: list[strawberry.ID] = strawberry.field(
        description="Kernels of which the file cannot be read; they are left out of the map."
    )
    differences: list[Difference] = strawberry.field(description="Between the files and what was granted.")
    gpu_alloc_map: str = strawberry.field(description="By the files; as of `Agent`, where it is by what was granted.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, RescanView)


_ON_RESCAN: Final = (*ALWAYS, errors.NotFound)
RescanResult: Final = union("RescanResult", RescanSuccess, *_ON_RESCAN)


@strawberry.type
class DoctorMutations:
    @root_field(
        RescanResult,
        "Have an agent read the files again that say what its kernels were given, and compare. For operators.",
    )
    async def rescan_gpu_alloc_maps(
        self, info: Info[Context, None], agent_id: Annotated[str, strawberry.argument(description="The agent.")]
    ) -> RescanView | errors.Error:
        return await answer(info.context.admin.rescan(info.context.caller, agent_id), _ON_RESCAN)


@strawberry.type
class DoctorQueries:
    @root_field(Examination, "Ask every agent now, and tell what does not agree. For operators.")
    async def doctor(self, info: Info[Context, None]) -> ExaminationView:
        return await info.context.admin.examine(info.context.caller)
