"""GraphQL API of explanations: why a session waits, what would help, and what changes would mean."""

from datetime import datetime
from typing import Annotated

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema import requests
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.cluster.policy_inputs import UpdatePolicyInput
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import RemedyKind, SessionState
from aliquot_schema.graphql.errors import ON_CREATE, answer, union
from aliquot_schema.graphql.fields import optional, root_field
from aliquot_schema.graphql.inputs import CreateSessionInput
from aliquot_schema.graphql.scalars import BigInt, SlotAmount
from aliquot_schema.graphql.workloads.previews import SessionPreview
from aliquot_schema.graphql.workloads.sessions import Verdict
from aliquot_schema.views import explanations


@strawberry.type(description="Another session, with the fields that every user may see.")
class OtherSession:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    owner: str = strawberry.field(description="Its owner.")
    name: str | None = strawberry.field(description="Its name.")
    state: SessionState = strawberry.field(description="Its state.")
    gpus: float = strawberry.field(description="GPUs that it holds, or requests while it waits.")
    until: datetime | None = strawberry.field(
        description="Its expected end; for a waiting session, its latest start; null if unknown."
    )
    is_overdue: bool = strawberry.field(description="Whether it has run longer than planned.")
    preemptible: bool = strawberry.field(description="Whether it may be preempted.")


@strawberry.type(description="A session that would start later.")
class SessionDelay:
    session: OtherSession = strawberry.field(description="The session.")
    before: datetime | None = strawberry.field(description="Its latest start without the change; null if unknown.")
    after: datetime | None = strawberry.field(description="With the change; null if unknown.")


@strawberry.type(description="Changes of a session's request, as `update_session` takes them; null = unchanged.")
class SessionTerms:
    slots: list[SlotAmount] | None = strawberry.field(description="New GPUs per kernel.")
    cluster_size: int | None = strawberry.field(description="Number of kernels.")
    time_limit: float | None = strawberry.field(description="Wall-time limit in seconds.")
    preemptible: bool | None = strawberry.field(description="Whether it may be preempted.")
    priority: str | None = strawberry.field(description="Priority.")
    project: str | None = strawberry.field(description="Project to charge.")
    pool: str | None = strawberry.field(description="Pool of agents to run in.")
    models: list[str] | None = strawberry.field(description="Allowed accelerator models; empty = any.")


@strawberry.type(
    description="A change with which the session starts, as tried in the scheduler on the present state, or, with "
    "`p50_earlier`, is forecast to start earlier."
)
class Remedy:
    kind: RemedyKind = strawberry.field(description="What changes.")
    summary: str = strawberry.field(description="What changes, as the end of a sentence.")
    starts_now: bool = strawberry.field(description="Whether it would start with the next scheduling pass.")
    starts_at: datetime = strawberry.field(
        description="Now, or when the sessions it waits for have ended. With `p50_earlier`, P50 of the start."
    )
    applies: bool = strawberry.field(description="Whether the caller may apply it.")
    command: str | None = strawberry.field(description="The command that applies it; null if nothing is to be done.")
    change: SessionTerms | None = strawberry.field(description="For `update_session`; null for other kinds.")
    sessions: list[OtherSession] = strawberry.field(description="Sessions that have to end or to give way first.")
    delays: list[SessionDelay] = strawberry.field(description="Sessions that would start later because of it.")
    p50_earlier: float | None = strawberry.field(
        description="Seconds by which P50 of its start is earlier; null if it starts at `starts_at`, as tried in the "
        "scheduler."
    )


@strawberry.type(
    description="Why a session waits, which sessions are ahead of it, and with which changes it would start."
)
class SessionExplanation:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Number of the last event included.")
    at: datetime = strawberry.field(description="When it was computed.")
    waits: Verdict | None = strawberry.field(
        description="The reason; null if it does not wait, or starts with the next scheduling pass."
    )
    position: int | None = strawberry.field(description="Position in the queue, from 1.")
    ahead: list[OtherSession] = strawberry.field(description="Sessions ahead of it, the next one first; at most 10.")
    in_the_way: list[OtherSession] = strawberry.field(
        description="Sessions that hold what it needs, that it depends on, or that devices are reserved for."
    )
    expected_start: datetime | None = strawberry.field(description="Latest start by a reservation; null if unknown.")
    remedies: list[Remedy] = strawberry.field(
        description="The cheapest change of each kind with which it starts, then changes with which it is forecast to "
        "start earlier. None if nothing helps."
    )
    is_forecasting: bool = strawberry.field(
        description="Whether more changes are being forecast: ask again in a few seconds."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, explanations.ExplanationView)


@strawberry.input(description="Changes of the present state to ask about, alone or combined. Nothing is changed.")
class WhatIfInput:
    session: CreateSessionInput | None = optional("One more session.")
    drain: strawberry.ID | None = optional("An agent that takes nothing new.")
    evict: bool = strawberry.field(
        default=False, description="Whether the sessions on that agent are preempted and queued again."
    )
    policy: UpdatePolicyInput | None = optional("Changed fields of the policy, as for `update_policy`.")
    like: strawberry.ID | None = optional("An agent; agents like it are added, each on a node of its own.")
    count: int = strawberry.field(default=1, description="How many agents are added, at most 64.")

    def to_request(self) -> requests.WhatIf:
        """The input as a request."""
        return requests.WhatIf(
            session=None if self.session is None else self.session.to_request(),
            drain=self.drain,
            evict=self.evict,
            policy=None if self.policy is None else self.policy.to_changes(),
            like=self.like,
            count=self.count,
        )


@strawberry.type(
    description="What changes would mean for waiting sessions. Later starts are those of the real policy if all "
    "sessions run for their planned durations. They compare the two states, and are no forecast."
)
class WhatIf:
    revision: BigInt = strawberry.field(description="Number of the last event included.")
    at: datetime = strawberry.field(description="When it was computed.")
    starts: list[OtherSession] = strawberry.field(
        description="Waiting sessions that would start now, and would not otherwise; at most 20."
    )
    displaced: list[OtherSession] = strawberry.field(description="Running sessions that would be preempted.")
    restarts: list[SessionDelay] = strawberry.field(
        description="The same sessions: `after` is when each would run again, null if unknown; `before` is null."
    )
    later: list[SessionDelay] = strawberry.field(description="The sessions with the largest delays, at most 20.")
    later_count: int = strawberry.field(description="Number of sessions that would start later.")
    sooner: list[SessionDelay] = strawberry.field(description="The sessions that gain most, at most 20.")
    sooner_count: int = strawberry.field(description="Number of sessions that would start sooner.")
    wait_before: float | None = strawberry.field(
        description="Mean seconds until the start of the sessions that wait; null if unknown."
    )
    wait_after: float | None = strawberry.field(description="The same with the changes.")
    note: str | None = strawberry.field(description="Why later starts are unknown, or nothing starts; null = neither.")
    session: SessionPreview | None = strawberry.field(description="Preview of the added session.")
    session_start: datetime | None = strawberry.field(
        description="Start of the added session, if all sessions run for their planned durations; null if unknown."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, explanations.WhatIfView)


WhatIfResult = union("WhatIfResult", WhatIf, *dict.fromkeys((*ON_CREATE, errors.NotFound)))


@strawberry.type
class ExplanationQueries:
    @root_field(
        WhatIfResult,
        "What one more session, a drained agent, another policy or more agents would mean for waiting sessions.",
    )
    async def what_if(
        self,
        info: Info[Context, None],
        input: Annotated[WhatIfInput, strawberry.argument(description="The changes.")],
    ) -> explanations.WhatIfView | errors.Error:
        context = info.context
        asked = context.services.queries.what_if(context.caller, input.to_request())
        return await answer(asked, (*ON_CREATE, errors.NotFound))

    @root_field(
        SessionExplanation | None,
        "Why a session waits, and what would help, as far as the caller may do it; null if there is no such session, "
        "or it ended long ago.",
    )
    async def session_why(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session's id.")],
    ) -> explanations.ExplanationView | None:
        context = info.context
        return await context.services.queries.session_why(context.caller, id)
