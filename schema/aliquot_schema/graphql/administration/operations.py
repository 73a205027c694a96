"""GraphQL API of operations: leadership, pausing placement, database copies and inspection of the cluster."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import Discrepancy, OrchestratorState, ServerRole
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.server import DatabaseCopy, ExaminationView, OrchestratorChanged, OrchestratorView, RescanView


@strawberry.type(description="State of the cluster's servers, as seen by the answering one.")
class Orchestrator:
    role: ServerRole = strawberry.field(description="Role of the answering server.")
    address: str = strawberry.field(description="Address of the answering server.")
    leader_address: str | None = strawberry.field(
        description="Address of the leader; null if no server leads, or the leader has no configured address."
    )
    epoch: BigInt = strawberry.field(
        description="Epoch of the newest term of leadership; agents reject orders of older ones."
    )
    leads_since: datetime | None = strawberry.field(description="Start of that term; null if there was none yet.")
    state: OrchestratorState = strawberry.field(
        description="Whether sessions are placed; shared by all servers and kept over restarts."
    )
    stopped_by: str | None = strawberry.field(description="User who stopped it; null while it runs.")
    stopped_at: datetime | None = strawberry.field(description="When it was stopped; null while it runs.")
    changed_by: str | None = strawberry.field(
        description="User of the last stop or start; null = never changed. `system:settings` = a server setting."
    )
    changed_at: datetime | None = strawberry.field(description="When it was last stopped or started.")
    note: str | None = strawberry.field(description="Reason, in the operator's words.")
    is_demo: bool = strawberry.field(
        description="Whether this is the living demo, whose users, history and load are invented."
    )


@strawberry.type(description="The orchestrator was stopped or started.")
class OrchestratorChangeSuccess:
    orchestrator: Orchestrator = strawberry.field(description="The orchestrator.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, OrchestratorChanged)


OrchestratorChangeResult: Final = union("OrchestratorChangeResult", OrchestratorChangeSuccess, *ALWAYS)
Note = Annotated[str | None, strawberry.argument(description="Reason, shown to users and stored with the event.")]


@strawberry.type
class OrchestratorQueries:
    @root_field(Orchestrator, "State of the servers: which one leads, and whether sessions are placed.")
    async def orchestrator(self, info: Info[Context, None]) -> OrchestratorView:
        return info.context.services.orchestrator()


@strawberry.type
class OrchestratorMutations:
    @root_field(
        OrchestratorChangeResult,
        "Stop placement and preemption on all servers until the orchestrator is started again. Running sessions, the "
        "reaper and submissions continue. For operators.",
    )
    async def orchestrator_stop(
        self, info: Info[Context, None], note: Note = None
    ) -> OrchestratorChanged | errors.Error:
        context = info.context
        change = context.services.administration.pause.stop_orchestrator(context.caller, note)
        return await answer(_changed(context, change), ALWAYS)

    @root_field(OrchestratorChangeResult, "Resume placement. For operators.")
    async def orchestrator_start(
        self, info: Info[Context, None], note: Note = None
    ) -> OrchestratorChanged | errors.Error:
        context = info.context
        change = context.services.administration.pause.start_orchestrator(context.caller, note)
        return await answer(_changed(context, change), ALWAYS)


async def _changed(context: Context, change: Awaitable[int]) -> OrchestratorChanged:
    revision = await change
    return OrchestratorChanged(orchestrator=context.services.orchestrator(), revision=revision)


@strawberry.type(description="The database was copied.")
class CopyDatabaseSuccess:
    path: str = strawberry.field(description="Path of the copy on the server's machine.")
    size_bytes: BigInt = strawberry.field(description="Size of the copy.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, DatabaseCopy)


CopyDatabaseResult: Final = union("CopyDatabaseResult", CopyDatabaseSuccess, *ALWAYS)


@strawberry.type
class CopyMutations:
    @root_field(
        CopyDatabaseResult,
        "Copy the server's SQLite database in its current state to a new file in the same directory. For operators.",
    )
    async def copy_database(self, info: Info[Context, None]) -> DatabaseCopy | errors.Error:
        return await answer(info.context.services.administration.backups.copy_database(info.context.caller), ALWAYS)


@strawberry.type(description="A discrepancy between the server's records, an agent and its devices.")
class Difference:
    kind: Discrepancy = strawberry.field(description="Kind of discrepancy.")
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    subject: str = strawberry.field(description="The kernel or the device.")
    evidence: str = strawberry.field(description="What was observed.")
    since: datetime | None = strawberry.field(
        description="When it was confirmed; null = unconfirmed, and possibly gone with the agent's next report."
    )
    repair: str | None = strawberry.field(description="What the server does about it once it is confirmed.")


@strawberry.type(description="Result of an inspection of all agents. Nothing was changed.")
class Examination:
    differences: list[Difference] = strawberry.field(description="Discrepancies, by agent.")
    asked: list[str] = strawberry.field(description="Agents that answered.")
    silent: list[str] = strawberry.field(description="Agents that could not be reached.")


@strawberry.type(description="Resource specs according to the files of one agent or all. Nothing was changed.")
class RescanSuccess:
    agent_id: strawberry.ID | None = strawberry.field(description="The agent; null if all were asked.")
    agents: list[strawberry.ID] = strawberry.field(description="Agents whose files were read.")
    silent: list[strawberry.ID] = strawberry.field(description="Agents that did not answer.")
    scanned: int = strawberry.field(description="Number of files of kernels that have not ended.")
    unreadable: list[strawberry.ID] = strawberry.field(
        description="Kernels with an unreadable file; they are not in the map."
    )
    differences: list[Difference] = strawberry.field(description="Differences between the files and the grants.")
    gpu_alloc_map: str = strawberry.field(
        description="As in `Agent`, but according to the files, and of this agent's kernels alone."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, RescanView)


_ON_RESCAN: Final = (*ALWAYS, errors.NotFound)
RescanResult: Final = union("RescanResult", RescanSuccess, *_ON_RESCAN)


@strawberry.type
class DoctorMutations:
    @root_field(
        RescanResult,
        "Re-read the files in which agents record their kernels' allocations, and compare them with the grants. For "
        "operators.",
    )
    async def rescan_gpu_alloc_maps(
        self,
        info: Info[Context, None],
        agent_id: Annotated[str | None, strawberry.argument(description="The agent; null = all agents.")] = None,
    ) -> RescanView | errors.Error:
        return await answer(
            info.context.services.administration.doctor.rescan(info.context.caller, agent_id), _ON_RESCAN
        )


@strawberry.type
class DoctorQueries:
    @root_field(Examination, "Inspect all agents now and report discrepancies. For operators.")
    async def doctor(self, info: Info[Context, None]) -> ExaminationView:
        return await info.context.services.administration.doctor.examine(info.context.caller)
