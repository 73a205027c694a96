"""GraphQL API of the policy, quotas, usage and the administration of agents. Durations are seconds."""

from datetime import datetime
from typing import Annotated, Any, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.cluster.agents import Agent
from aliquot_schema.graphql.cluster.billing import PricesType
from aliquot_schema.graphql.cluster.policy_inputs import (
    DrainAgentInput,
    LabelAgentInput,
    RemoveQuotaInput,
    SetAgentSchedulableInput,
    SetQuotaInput,
    UpdatePolicyInput,
)
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import Backfill, IdleAction, PreemptScope, QuotaScope, Victims
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.scalars import AnyPriority, BigInt, SlotAmount
from aliquot_schema.policies import AGE_UNIT_DEPRECATION, WAS_VICTIMS
from aliquot_schema.views.admin import (
    AgentChanged,
    PolicyChanged,
    PolicyView,
    ProjectDeleted,
    QuotaChanged,
    QuotaUseView,
    QuotaView,
    UsageView,
)


@strawberry.type(description="Weights of the order policies; only their ratios matter.")
class Weights:
    age: int = strawberry.field(
        description="fair_share, relative_age: weight per unit of age waited, which is an hour and the pool's backlog."
    )
    age_unit: float = strawberry.field(description="Stored, without effect.", deprecation_reason=AGE_UNIT_DEPRECATION)
    fair: int = strawberry.field(description="fair_share: weight for an owner and a project without usage.")
    short: int = strawberry.field(description="fair_share, relative_age: weight for a session of zero length.")
    short_half: float = strawberry.field(
        description="fair_share, relative_age: length of a session that gets half of `short`, in seconds."
    )
    priority: int = strawberry.field(
        description="fair_share, relative_age: weight per priority level above the lowest."
    )
    level: float = strawberry.field(description="priority: waiting time worth one priority level, in seconds.")
    sjf_age_pct: int = strawberry.field(description="sjf: percentage of its wait subtracted from a session's estimate.")
    wait_bound: float = strawberry.field(
        description="Every order: wait within which a session is to start, in seconds. A session that would wait "
        "longer is promoted to the front of the queue. 0 = none."
    )


@strawberry.type(description="Charge for a whole device of a model.")
class ModelCharge:
    model: str = strawberry.field(description="Name of the model.")
    milli: int = strawberry.field(description="Charge in milli of a device.")


@strawberry.type(description="Charges for held resources, in milli of a device.")
class Charges:
    accelerators: list[ModelCharge] = strawberry.field(description="Per whole device, by model; 1000 for other models.")
    cpu_milli: int = strawberry.field(description="Per core.")
    mem_gib_milli: int = strawberry.field(description="Per GiB of memory.")


@strawberry.type(description="A named partition of the cluster's agents that sessions select.")
class Pool:
    name: str = strawberry.field(description="Name of the pool.")
    default_limit: float | None = strawberry.field(
        description="Planned duration of sessions without a time limit, in seconds. Used for reservations; never stops "
        "a session."
    )
    cpu_per_gpu: int | None = strawberry.field(
        description="CPUs per GPU of sessions that request GPUs but no CPUs; null = none."
    )
    mem_per_gpu: str | None = strawberry.field(
        description="Memory per GPU of sessions that request GPUs but no memory; null = none."
    )
    idle: IdleAction | None = strawberry.field(
        description="What happens to its sessions that do not use their GPUs; null = as `preemption.idle.action` says."
    )


@strawberry.type(description="What happens to sessions of a project that do not use their GPUs.")
class ProjectIdle:
    project: str = strawberry.field(description="The project.")
    action: IdleAction = strawberry.field(description="What happens; takes precedence over the pool's action.")


@strawberry.type(description="Steps before a session that does not use its GPUs loses them.")
class IdleRules:
    action: IdleAction = strawberry.field(description="What happens, unless the pool or the project says otherwise.")
    tell: float = strawberry.field(description="Idle seconds after which the owner is told.")
    again: float = strawberry.field(description="Further idle seconds after which the owner is told again.")
    act: float = strawberry.field(description="Further idle seconds after which the session may lose its GPUs.")
    keep: float = strawberry.field(description="Seconds for which `keep_session` stops the steps.")
    projects: list[ProjectIdle] = strawberry.field(description="Projects with an action of their own.")


@strawberry.type(description="Preemption rules.")
class PreemptionRules:
    preempt: PreemptScope = strawberry.field(description="Which sessions may be preempted.")
    victims: Victims = strawberry.field(
        description="`preempt` in its old words.", deprecation_reason=WAS_VICTIMS.reason
    )
    run_min: float = strawberry.field(description="Minimum run time before a preemption, in seconds.")
    preemptions_max: int = strawberry.field(description="Maximum number of preemptions of one session.")
    grace: float = strawberry.field(
        description="Seconds from the checkpoint signal to the stop, for sessions without their own grace period."
    )
    restart: float = strawberry.field(
        description="las, srtf: time that a preempted session is expected to need until it works again, in seconds."
    )
    idle: IdleRules = strawberry.field(description="Sessions that do not use their GPUs.")


@strawberry.type(description="Retries after infrastructure failures, like a failed launch or a lost agent.")
class Retries:
    tries_min: int = strawberry.field(description="Minimum number of retries, even if the session requested fewer.")
    wait_first: float = strawberry.field(
        description="Wait before the first retry, in seconds; doubled for each further one."
    )
    wait_max: float = strawberry.field(description="Longest wait, in seconds.")
    jitter_pct: int = strawberry.field(
        description="Percentage by which each wait is varied randomly in either direction."
    )


@strawberry.type(description="The scheduling policy.")
class Policy:
    version: int = strawberry.field(description="Incremented by every change; 0 = never changed.")
    order: str = strawberry.field(
        description="Order policy: fair_share, relative_age, priority, fcfs, sjf, gang, las or srtf."
    )
    backfill: Backfill = strawberry.field(description="Which sessions may overtake the head of the queue.")
    backfill_depth: int = strawberry.field(description="conservative: maximum number of sessions with a reservation.")
    placement: str = strawberry.field(description="Placement strategy.")
    allocation: str = strawberry.field(description="How an amount is split over devices: evenly or fill.")
    allow_fragmentation: bool = strawberry.field(
        description="Whether shares that fit on one empty device may be split over several."
    )
    numa: str = strawberry.field(description="Choice of devices by NUMA node: prefer (one node) or interleave.")
    weights: Weights = strawberry.field(description="Weights of the order policies.")
    half_life: float = strawberry.field(description="Half-life of usage in fair share, in seconds.")
    charges: Charges = strawberry.field(description="Charges for held resources.")
    pools: list[Pool] = strawberry.field(description="Pools of the cluster.")
    preemption: PreemptionRules = strawberry.field(description="Preemption rules.")
    retries: Retries = strawberry.field(description="Retries after infrastructure failures.")
    prices: PricesType = strawberry.field(description="Prices of accelerators.")
    user_priority_max: AnyPriority = strawberry.field(description="Highest priority users may request.")
    changed_at: datetime | None = strawberry.field(description="When it was last changed.")


@strawberry.type(description="Limits of a user, a project or the cluster. Missing limits do not apply.")
class Quota:
    scope: QuotaScope = strawberry.field(description="What it applies to.")
    name: str = strawberry.field(description="The user, the project or the id of the API key; empty for the cluster.")
    version: int = strawberry.field(description="Incremented by every change.")
    max_slots: list[SlotAmount] = strawberry.field(description="Maximum held at one time; 0 = none.")
    own_slots: list[SlotAmount] = strawberry.field(
        description="Guaranteed amounts; idle parts are lent to others and reclaimed when needed."
    )
    max_queued: int | None = strawberry.field(description="Maximum number of waiting tasks.")
    gpu_hours_per_month: int | None = strawberry.field(description="Maximum GPU-hours per calendar month, UTC.")
    weight: int | None = strawberry.field(description="Fair-share weight among its siblings.")
    budget: float | None = strawberry.field(
        description="Maximum price of a calendar month, UTC, by the policy's prices."
    )
    changed_at: datetime = strawberry.field(description="When it was last changed.")


@strawberry.type(description="What a user, a project or the cluster holds, queues and has used, as quotas count it.")
class QuotaUse:
    scope: QuotaScope = strawberry.field(description="What it is about.")
    name: str = strawberry.field(description="The user, the project or the id of the API key; empty for the cluster.")
    held: list[SlotAmount] = strawberry.field(
        description="Amounts held; devices of one kind count together, as shares: 1.50 `cuda.shares`."
    )
    waiting: int = strawberry.field(description="Waiting tasks.")
    gpu_hours_month: float = strawberry.field(description="GPU-hours in this calendar month, UTC.")
    cost_month: float = strawberry.field(
        description="Price of this calendar month so far, with what is held now; 0 without prices."
    )


@strawberry.type(
    description="Usage of a user in a project. Hours of a whole device, weighted by the policy's `charges`."
)
class Usage:
    project: str = strawberry.field(description="The project.")
    user: str = strawberry.field(description="The user.")
    gpu_hours: float = strawberry.field(description="Total.")
    gpu_hours_month: float = strawberry.field(description="Usage in this calendar month, UTC.")
    gpu_hours_decayed: float = strawberry.field(description="Decayed usage, which counts in fair share.")
    share: float = strawberry.field(description="Share of all decayed usage, 0 to 1.")


_ON_POLICY: Final = (*ALWAYS, errors.StateConflict, errors.VersionConflict)
_ON_QUOTA: Final = (
    *ALWAYS,
    errors.InvalidAmount,
    errors.UnknownSlot,
    errors.NotFound,
    errors.VersionConflict,
)
_ON_PROJECT: Final = (*ALWAYS, errors.NotFound, errors.StateConflict)
_ON_AGENT: Final = (*ALWAYS, errors.NotFound, errors.StateConflict)

AgentId = Annotated[strawberry.ID, strawberry.argument(description="The agent.")]


@strawberry.type(description="The policy was changed, with effect from the next scheduling pass.")
class PolicyChangeSuccess:
    policy: Policy = strawberry.field(description="The policy.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, PolicyChanged)


@strawberry.type(description="The quota was changed, or removed if it has no limits.")
class QuotaChangeSuccess:
    quota: Quota = strawberry.field(description="The quota.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, QuotaChanged)


@strawberry.type(description="The project was deleted. Its past sessions and its usage stay.")
class ProjectDeleteSuccess:
    name: str = strawberry.field(description="The project.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ProjectDeleted)


@strawberry.type(description="The agent was changed.")
class AgentChangeSuccess:
    agent: Agent = strawberry.field(description="The agent.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, AgentChanged)


PolicyChangeResult = union("PolicyChangeResult", PolicyChangeSuccess, *_ON_POLICY)
QuotaChangeResult = union("QuotaChangeResult", QuotaChangeSuccess, *_ON_QUOTA)
ProjectDeleteResult = union("ProjectDeleteResult", ProjectDeleteSuccess, *_ON_PROJECT)
AgentChangeResult = union("AgentChangeResult", AgentChangeSuccess, *_ON_AGENT)


def _input(description: str) -> Any:
    return strawberry.argument(description=description)


@strawberry.type
class AdministrationQueries:
    """Part of `Query`."""

    @root_field(Policy, "The scheduling policy.")
    async def policy(self, info: Info[Context, None]) -> PolicyView:
        return info.context.services.administration.policy.policy(info.context.caller)

    @root_field(list[Quota], "All quotas.")
    async def quotas(self, info: Info[Context, None]) -> tuple[QuotaView, ...]:
        return info.context.services.administration.quotas.quotas(info.context.caller)

    @root_field(
        list[QuotaUse],
        "What quotas limit, as it is now: of the cluster, and of each user and project that holds, queues or has used "
        "something.",
    )
    async def quota_use(self, info: Info[Context, None]) -> tuple[QuotaUseView, ...]:
        return info.context.services.administration.quotas.quota_use(info.context.caller)

    @root_field(list[Usage], "Usage by project and user.")
    async def usage(
        self,
        info: Info[Context, None],
        user: Annotated[str | None, _input("Only usage of this user.")] = None,
        project: Annotated[str | None, _input("Only usage in this project.")] = None,
    ) -> tuple[UsageView, ...]:
        return info.context.services.administration.quotas.usage(info.context.caller, user=user, project=project)


@strawberry.type
class AdministrationMutations:
    """Part of `Mutation`."""

    @root_field(PolicyChangeResult, "Change the scheduling policy. For operators.")
    async def update_policy(
        self, info: Info[Context, None], input: Annotated[UpdatePolicyInput, _input("The changes.")]
    ) -> PolicyChanged | errors.Error:
        async def change() -> PolicyChanged:
            context = info.context
            return await context.services.administration.policy.update_policy(
                context.caller, input.to_changes(), input.expected_version
            )

        return await answer(change(), _ON_POLICY)

    @root_field(QuotaChangeResult, "Set the quota of a user, a project or the cluster. For operators.")
    async def set_quota(
        self, info: Info[Context, None], input: Annotated[SetQuotaInput, _input("The quota.")]
    ) -> QuotaChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.quotas.set_quota(
                context.caller, input.to_request(), input.expected_version
            ),
            _ON_QUOTA,
        )

    @root_field(QuotaChangeResult, "Remove a quota. For operators.")
    async def remove_quota(
        self, info: Info[Context, None], input: Annotated[RemoveQuotaInput, _input("The quota.")]
    ) -> QuotaChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.quotas.remove_quota(
                context.caller, input.scope, input.name, input.expected_version
            ),
            _ON_QUOTA,
        )

    @root_field(
        ProjectDeleteResult,
        "Delete a project without members, quota, and sessions that wait or run. It can be created again. For admins.",
    )
    async def delete_project(
        self, info: Info[Context, None], name: Annotated[str, _input("The project.")]
    ) -> ProjectDeleted | errors.Error:
        context = info.context
        return await answer(context.services.administration.quotas.delete_project(context.caller, name), _ON_PROJECT)

    @root_field(AgentChangeResult, "Drain an agent: nothing new is placed on it. For operators.")
    async def drain_agent(
        self, info: Info[Context, None], input: Annotated[DrainAgentInput, _input("The agent, and whether to preempt.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.agents.drain_agent(
                context.caller, input.id, note=input.note, evicts=input.evict
            ),
            _ON_AGENT,
        )

    @root_field(AgentChangeResult, "End the drain of an agent. For operators.")
    async def resume_agent(self, info: Info[Context, None], id: AgentId) -> AgentChanged | errors.Error:
        return await answer(
            info.context.services.administration.agents.resume_agent(info.context.caller, id), _ON_AGENT
        )

    @root_field(AgentChangeResult, "Set whether an agent accepts new work. For operators.")
    async def set_agent_schedulable(
        self,
        info: Info[Context, None],
        input: Annotated[SetAgentSchedulableInput, _input("The agent and the setting.")],
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.agents.set_agent_schedulable(
                context.caller, input.id, schedulable=input.schedulable, note=input.note
            ),
            _ON_AGENT,
        )

    @root_field(AgentChangeResult, "Replace the labels of an agent. For operators.")
    async def label_agent(
        self, info: Info[Context, None], input: Annotated[LabelAgentInput, _input("The agent and its labels.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.agents.label_agent(context.caller, input.id, input.pairs()), _ON_AGENT
        )

    @root_field(AgentChangeResult, "Move an agent to another pool. Its running sessions continue. For operators.")
    async def assign_agent_pool(
        self, info: Info[Context, None], id: AgentId, pool: Annotated[str, _input("Name of a pool in the policy.")]
    ) -> AgentChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.agents.assign_agent_pool(context.caller, id, pool), _ON_AGENT
        )

    @root_field(
        AgentChangeResult,
        "Confirm that the processes of a lost agent are gone, which frees its devices. For operators.",
    )
    async def release_lost_agent(self, info: Info[Context, None], id: AgentId) -> AgentChanged | errors.Error:
        return await answer(
            info.context.services.administration.agents.release_lost_agent(info.context.caller, id), _ON_AGENT
        )
