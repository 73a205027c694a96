"""Administration: the policy, quotas and agents. Changes are for operators."""

from typing import Annotated, Any, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.admin_views import AgentChanged, PolicyChanged, PolicyView, QuotaChanged, QuotaView, UsageView
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.administration_inputs import (
    DrainAgentInput,
    LabelAgentInput,
    RemoveQuotaInput,
    SetAgentSchedulableInput,
    SetQuotaInput,
    UpdatePolicyInput,
)
from aliquot_schema.graphql.administration_types import Policy, Quota, Usage
from aliquot_schema.graphql.agents import Agent
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt

_ON_POLICY: Final = (*ALWAYS, errors.StateConflict, errors.VersionConflict)
_ON_QUOTA: Final = (
    *ALWAYS,
    errors.InvalidAmount,
    errors.UnknownSlot,
    errors.NotFound,
    errors.VersionConflict,
)
_ON_AGENT: Final = (*ALWAYS, errors.NotFound, errors.StateConflict)

AgentId = Annotated[strawberry.ID, strawberry.argument(description="The agent.")]


@strawberry.type(description="The policy is as it says here, from the next pass on.")
class PolicyChangeSuccess:
    policy: Policy = strawberry.field(description="The policy.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, PolicyChanged)


@strawberry.type(description="The quota is as it says here; one without limits was removed.")
class QuotaChangeSuccess:
    quota: Quota = strawberry.field(description="The quota.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, QuotaChanged)


@strawberry.type(description="The agent is as it says here.")
class AgentChangeSuccess:
    agent: Agent = strawberry.field(description="The agent.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, AgentChanged)


PolicyChangeResult = union("PolicyChangeResult", PolicyChangeSuccess, *_ON_POLICY)
QuotaChangeResult = union("QuotaChangeResult", QuotaChangeSuccess, *_ON_QUOTA)
AgentChangeResult = union("AgentChangeResult", AgentChangeSuccess, *_ON_AGENT)


def _input(description: str) -> Any:
    return strawberry.argument(description=description)


@strawberry.type
class AdministrationQueries:
    """Part of `Query`."""

    @root_field(Policy, "What the allocator decides by.")
    async def policy(self, info: Info[Context, None]) -> PolicyView:
        return info.context.admin.policy(info.context.caller)

    @root_field(list[Quota], "All quotas.")
    async def quotas(self, info: Info[Context, None]) -> tuple[QuotaView, ...]:
        return info.context.admin.quotas(info.context.caller)

    @root_field(list[Usage], "What users have used within projects.")
    async def usage(
        self,
        info: Info[Context, None],
        user: Annotated[str | None, _input("Of this user alone.")] = None,
        project: Annotated[str | None, _input("Within this project alone.")] = None,
    ) -> tuple[UsageView, ...]:
        return info.context.admin.usage(info.context.caller, user=user, project=project)


@strawberry.type
class AdministrationMutations:
    """Part of `Mutation`."""

    @root_field(PolicyChangeResult, "Change the policy.")
    async def update_policy(
        self, info: Info[Context, None], input: Annotated[UpdatePolicyInput, _input("What changes.")]
    ) -> PolicyChanged | errors.Error:
        async def change() -> PolicyChanged:
            context = info.context
            return await context.admin.update_policy(context.caller, input.to_changes(), input.expected_version)

        return await answer(change(), _ON_POLICY)

    @root_field(QuotaChangeResult, "Give a user, a project or the cluster a quota.")
    async def set_quota(
        self, info: Info[Context, None], input: Annotated[SetQuotaInput, _input("The quota.")]
    ) -> QuotaChanged | errors.Error:
        context = info.context
        return await answer(
            context.admin.set_quota(context.caller, input.to_request(), input.expected_version), _ON_QUOTA
        )

    @root_field(QuotaChangeResult, "Take a quota away.")
    async def remove_quota(
        self, info: Info[Context, None], input: Annotated[RemoveQuotaInput, _input("Which one.")]
    ) -> QuotaChanged | errors.Error:
        context = info.context
        return await answer(
            context.admin.remove_quota(context.caller, input.scope, input.name, input.expected_version), _ON_QUOTA
        )

    @root_field(AgentChangeResult, "Put nothing new on an agent.")
    async def drain_agent(
        self, info: Info[Context, None], input: Annotated[DrainAgentInput, _input("Which one, and how.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.admin.drain_agent(context.caller, input.id, note=input.note, evicts=input.evict), _ON_AGENT
        )

    @root_field(AgentChangeResult, "Take back a drain.")
    async def resume_agent(self, info: Info[Context, None], id: AgentId) -> AgentChanged | errors.Error:
        return await answer(info.context.admin.resume_agent(info.context.caller, id), _ON_AGENT)

    @root_field(AgentChangeResult, "Say whether an agent is given something new.")
    async def set_agent_schedulable(
        self, info: Info[Context, None], input: Annotated[SetAgentSchedulableInput, _input("Which one, and whether.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.admin.set_agent_schedulable(
                context.caller, input.id, schedulable=input.schedulable, note=input.note
            ),
            _ON_AGENT,
        )

    @root_field(AgentChangeResult, "Give an agent labels, in place of those that it has.")
    async def label_agent(
        self, info: Info[Context, None], input: Annotated[LabelAgentInput, _input("Which one, and the labels.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(context.admin.label_agent(context.caller, input.id, input.pairs()), _ON_AGENT)

    @root_field(AgentChangeResult, "Move an agent to a pool; what runs there stays.")
    async def assign_agent_pool(
        self, info: Info[Context, None], id: AgentId, pool: Annotated[str, _input("A pool of the policy.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(context.admin.assign_agent_pool(context.caller, id, pool), _ON_AGENT)

    @root_field(AgentChangeResult, "Say that the processes of a lost agent are gone: its devices become free.")
    async def release_lost_agent(self, info: Info[Context, None], id: AgentId) -> AgentChanged | errors.Error:
        return await answer(info.context.admin.release_lost_agent(info.context.caller, id), _ON_AGENT)
