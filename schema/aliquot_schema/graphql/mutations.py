"""Mutations of sessions, and the `Mutation` type. Expected errors are members of the result's union."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.administration.accounts import AccountMutations
from aliquot_schema.graphql.administration.alerts import NoticeMutations
from aliquot_schema.graphql.administration.backtests import BacktestMutations
from aliquot_schema.graphql.administration.operations import CopyMutations, DoctorMutations, OrchestratorMutations
from aliquot_schema.graphql.administration.secrets import SecretMutations
from aliquot_schema.graphql.cluster.policy import AdministrationMutations
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.errors import ALWAYS, ON_CREATE, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.inputs import (
    CancelSessionInput,
    ChangeSessionInput,
    CreateSessionInput,
    CreateSessionsInput,
    UpdateSessionInput,
    UpdateSessionPrioritiesInput,
    UpdateSessionPriorityInput,
)
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.workloads.bookings import BookingMutations
from aliquot_schema.graphql.workloads.bulk_changes import BulkChangeMutations
from aliquot_schema.graphql.workloads.external_allocations import ExternalAllocationMutations
from aliquot_schema.graphql.workloads.sessions import Session
from aliquot_schema.graphql.workloads.templates import TemplateMutations
from aliquot_schema.requests import SessionChanged, SessionsChanged, SessionsCreated

_ON_CHANGE: Final[tuple[type[errors.Error], ...]] = (
    *ALWAYS,
    errors.NotFound,
    errors.StateConflict,
    errors.VersionConflict,
)

_ON_UPDATE: Final[tuple[type[errors.Error], ...]] = tuple(dict.fromkeys((*ON_CREATE, *_ON_CHANGE)))


@strawberry.type
class _OfSessionChanged:
    """Fields of a changed session. The value is the service's read model, which is not an instance of the type."""

    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SessionChanged)


@strawberry.type(description="The session was accepted and stored.")
class CreateSessionSuccess(_OfSessionChanged):
    created: bool = strawberry.field(description="False if the idempotency key matched an existing session.")


@strawberry.type(description="The session was canceled. Its devices stay held until its processes are gone.")
class CancelSessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="The priority was changed.")
class UpdateSessionPrioritySuccess(_OfSessionChanged): ...


@strawberry.type(description="All of the sessions have the priority.")
class UpdateSessionPrioritiesSuccess:
    changed: int = strawberry.field(description="How many had another priority before.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SessionsChanged)


@strawberry.type(description="The request of the session was changed.")
class UpdateSessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="A session of a batch.")
class CreatedSession:
    session: Session = strawberry.field(description="The session.")
    created: bool = strawberry.field(description="False if its idempotency key matched an existing session.")


@strawberry.type(description="All sessions were accepted and stored.")
class CreateSessionsSuccess:
    results: list[CreateSessionSuccess] = strawberry.field(description="In the order of the request.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SessionsCreated)


@strawberry.type(description="The session is held.")
class HoldSessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="The session is queued again at its original place.")
class ReleaseSessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="The session is queued to run again.")
class RetrySessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="The running session has a later time limit.")
class ExtendSessionSuccess(_OfSessionChanged): ...


@strawberry.type(description="The session is still needed; it keeps its GPUs for the time that the policy allows.")
class KeepSessionSuccess(_OfSessionChanged): ...


CreateSessionResult = union("CreateSessionResult", CreateSessionSuccess, *ON_CREATE)
CreateSessionsResult = union("CreateSessionsResult", CreateSessionsSuccess, *ON_CREATE)
HoldSessionResult = union("HoldSessionResult", HoldSessionSuccess, *_ON_CHANGE)
ReleaseSessionResult = union("ReleaseSessionResult", ReleaseSessionSuccess, *_ON_CHANGE)
RetrySessionResult = union("RetrySessionResult", RetrySessionSuccess, *_ON_CHANGE)
KeepSessionResult = union("KeepSessionResult", KeepSessionSuccess, *_ON_CHANGE)
ExtendSessionResult = union("ExtendSessionResult", ExtendSessionSuccess, *_ON_CHANGE)
CancelSessionResult = union("CancelSessionResult", CancelSessionSuccess, *_ON_CHANGE)
UpdateSessionPriorityResult = union("UpdateSessionPriorityResult", UpdateSessionPrioritySuccess, *_ON_CHANGE)
UpdateSessionPrioritiesResult = union("UpdateSessionPrioritiesResult", UpdateSessionPrioritiesSuccess, *_ON_CHANGE)
UpdateSessionResult = union("UpdateSessionResult", UpdateSessionSuccess, *_ON_UPDATE)


@strawberry.type(
    description="Operations that change state. Each returns after the change is stored; expected errors are members of "
    "its result."
)
class Mutation(
    AccountMutations,
    AdministrationMutations,
    BacktestMutations,
    BookingMutations,
    BulkChangeMutations,
    CopyMutations,
    DoctorMutations,
    NoticeMutations,
    OrchestratorMutations,
    ExternalAllocationMutations,
    SecretMutations,
    TemplateMutations,
):
    @root_field(CreateSessionResult, "Submit a session.")
    async def create_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="The session to submit.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.services.sessions.create_session(context.caller, input.to_request()), ON_CREATE)

    @root_field(CreateSessionsResult, "Submit several sessions that may depend on each other, all or none.")
    async def create_sessions(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionsInput, strawberry.argument(description="The sessions to submit.")],
    ) -> SessionsCreated | errors.Error:
        context = info.context
        requests = [item.to_request() for item in input.sessions]
        return await answer(context.services.sessions.create_sessions(context.caller, requests), ON_CREATE)

    @root_field(HoldSessionResult, "Hold a waiting session: it is not started until it is released.")
    async def hold_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="The session.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.sessions.hold_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

    @root_field(ReleaseSessionResult, "Release a held session.")
    async def release_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="The session.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.sessions.release_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

    @root_field(
        RetrySessionResult,
        "Run an ended session again. For a job array: the tasks that failed or were canceled, or all if there are "
        "none.",
    )
    async def retry_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="The session.")],
        from_checkpoint: Annotated[
            bool,
            strawberry.argument(
                description="Start from its last acknowledged checkpoint, copied from the shared folder if the session "
                "starts on another agent; fails with StateConflict if there is none."
            ),
        ] = False,
    ) -> SessionChanged | errors.Error:
        context = info.context
        retried = context.services.sessions.retry_session(
            context.caller, input.id, input.expected_version, from_checkpoint=from_checkpoint
        )
        return await answer(retried, _ON_CHANGE)

    @root_field(
        ExtendSessionResult,
        "Add time to the limit of a running session. Granted if no other user's session and no booking would start "
        "later for it; else StateConflict says which would.",
    )
    async def extend_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="The session.")],
        seconds: Annotated[float, strawberry.argument(description="Seconds to add to its time limit.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        extended = context.services.sessions.extend_session(context.caller, input.id, seconds, input.expected_version)
        return await answer(extended, _ON_CHANGE)

    @root_field(
        KeepSessionResult,
        "State that a session is still needed although it does not use its GPUs. The steps of the policy stop for "
        "`preemption.idle.keep`.",
    )
    async def keep_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="The session.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.sessions.keep_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

    @root_field(CancelSessionResult, "Cancel a session that has not ended; for a job array, all of its tasks.")
    async def cancel_session(
        self,
        info: Info[Context, None],
        input: Annotated[CancelSessionInput, strawberry.argument(description="The session.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.sessions.cancel_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

    @root_field(UpdateSessionPriorityResult, "Change the priority of a session.")
    async def update_session_priority(
        self,
        info: Info[Context, None],
        input: Annotated[
            UpdateSessionPriorityInput, strawberry.argument(description="The session and its new priority.")
        ],
    ) -> SessionChanged | errors.Error:
        context = info.context
        priority = input.priority.name.lower()
        return await answer(
            context.services.sessions.update_session_priority(
                context.caller, input.id, priority, input.expected_version
            ),
            _ON_CHANGE,
        )

    @root_field(
        UpdateSessionPrioritiesResult,
        "Change the priority of several sessions, of all of them or none: a refusal names the first session that it is "
        "about.",
    )
    async def update_session_priorities(
        self,
        info: Info[Context, None],
        input: Annotated[
            UpdateSessionPrioritiesInput, strawberry.argument(description="The sessions and their new priority.")
        ],
    ) -> SessionsChanged | errors.Error:
        context = info.context
        priority = input.priority.name.lower()
        return await answer(
            context.services.sessions.update_session_priorities(context.caller, input.ids, priority), _ON_CHANGE
        )

    @root_field(
        UpdateSessionResult,
        "Change the request of a waiting session; it keeps its place in the queue. For a job array: of the tasks that "
        "have not started. Its fallbacks are dropped when slots, kernels or pool change.",
    )
    async def update_session(
        self,
        info: Info[Context, None],
        input: Annotated[UpdateSessionInput, strawberry.argument(description="The session and what changes.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.sessions.update_session(
                context.caller, input.id, input.to_amendment(), input.expected_version
            ),
            _ON_UPDATE,
        )
