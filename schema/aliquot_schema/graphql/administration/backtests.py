"""GraphQL API of backtests: the recorded history run again under other policies or on another cluster."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema import requests
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.cluster.policy_inputs import SetQuotaInput, UpdatePolicyInput
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import BacktestState, TuneApply
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import optional, root_field
from aliquot_schema.views import backtests


@strawberry.type(description="Distribution of a duration in seconds.")
class BacktestSpread:
    mean: float = strawberry.field(description="Mean.")
    p95: float = strawberry.field(description="95th percentile.")
    max: float = strawberry.field(description="Maximum.")


@strawberry.type(description="Figures of one user or project in a run.")
class BacktestGroup:
    kind: str = strawberry.field(description="`user` or `project`.")
    name: str = strawberry.field(description="Its name.")
    sessions: int = strawberry.field(description="Number of sessions.")
    gpu_hours: float = strawberry.field(description="GPU-hours of their runs.")
    wait: float = strawberry.field(description="Mean wait in seconds.")
    wait_before: float = strawberry.field(description="The same under the policies of the time.")
    completion: float = strawberry.field(description="Mean seconds from submission to end.")
    slowdown: float = strawberry.field(description="Mean bounded slowdown.")


@strawberry.type(description="A session that waits longer or shorter in a run than under the policies of the time.")
class BacktestMove:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    owner: str = strawberry.field(description="Its owner.")
    project: str = strawberry.field(description="Its project.")
    wait_before: float = strawberry.field(description="Wait in seconds under the policies of the time.")
    wait_after: float = strawberry.field(description="Wait in seconds in this run.")


@strawberry.type(description="One run of a backtest.")
class BacktestRow:
    label: str = strawberry.field(description="Its label.")
    sessions: int = strawberry.field(description="Sessions that the figures are about.")
    wait: BacktestSpread = strawberry.field(description="From submission to the first start.")
    completion: BacktestSpread = strawberry.field(description="From submission to the end.")
    slowdown: float = strawberry.field(
        description="Mean bounded slowdown: completion by run time, at least 1; shorter runs count as 10 s."
    )
    utilization: float = strawberry.field(description="Part of the GPUs that sessions held, 0 to 1.")
    utilization_queued: float = strawberry.field(description="The same while sessions waited.")
    preemptions: int = strawberry.field(description="Number of preemptions.")
    lost_gpu_hours: float = strawberry.field(description="GPU-hours lost by preemption.")
    fairness_users: float = strawberry.field(
        description="Jain's index of the users' mean slowdowns: 1 = all equal, 1/n = one of n has all of it."
    )
    fairness_projects: float = strawberry.field(description="The same of projects.")
    groups: list[BacktestGroup] = strawberry.field(description="Users, then projects, by GPU-hours.")
    winners: list[BacktestMove] = strawberry.field(description="The sessions that gain most, at most 20.")
    winners_count: int = strawberry.field(description="Sessions that wait at least a minute less.")
    losers: list[BacktestMove] = strawberry.field(description="The sessions that lose most, at most 20.")
    losers_count: int = strawberry.field(description="Sessions that wait at least a minute more.")
    utilization_over_time: list[float] = strawberry.field(description="Means of 100 equal parts of the time, 0 to 1.")
    waiting_over_time: list[float] = strawberry.field(description="Mean number of waiting sessions in these parts.")
    wait_quantiles: list[float] = strawberry.field(
        description="101 waits in seconds: of the shortest 0 %, 1 %, up to 100 % of the sessions."
    )
    assumed: int = strawberry.field(
        description="Sessions whose run time is not recorded; predictions were used. They are not counted."
    )
    exact: bool = strawberry.field(
        description="Whether every pass was one of the scheduler itself, and not of the fast engine."
    )


@strawberry.type(description="A session that the policies of the time start at another time than it started.")
class BacktestDifference:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    owner: str = strawberry.field(description="Its owner.")
    recorded: float = strawberry.field(description="When it started, in seconds after the beginning of the record.")
    simulated: float | None = strawberry.field(description="When it starts in the run; null = never.")
    reason: str = strawberry.field(description="Why, as far as it is known.")


@strawberry.type(description="The result of a backtest.")
class BacktestReport:
    sessions: int = strawberry.field(description="Sessions submitted in the time that started and ended.")
    reproduced: int = strawberry.field(
        description="Sessions that start exactly when they did under the policies of the time."
    )
    different_count: int = strawberry.field(description="Sessions that do not.")
    different: list[BacktestDifference] = strawberry.field(description="The first of these, at most 20.")
    notes: list[str] = strawberry.field(description="What is missing in the record.")
    rows: list[BacktestRow] = strawberry.field(description="The runs; the policies of the time first.")


@strawberry.type(description="A weight that a tuning proposes to change.")
class TuningChange:
    name: str = strawberry.field(description="As in `aliquot policy set`, like `weights.age`.")
    before: str = strawberry.field(description="Its present value; durations as text.")
    after: str = strawberry.field(description="The proposed value.")


@strawberry.type(
    description="The result of a tuning: weights searched on the first part of the time, and compared with the present "
    "policy on the later part, which the search has not seen."
)
class Tuning:
    split: datetime = strawberry.field(description="End of the part that was searched.")
    base_version: int = strawberry.field(description="Version of the policy that the proposal changes.")
    tries: int = strawberry.field(description="Policies that were tried.")
    changes: list[TuningChange] = strawberry.field(description="The proposal; empty if nothing better was found.")
    is_better: bool = strawberry.field(
        description="Whether it is better on the later part without a longer wait, less fairness or less use of GPUs "
        "than allowed. Only then can it be applied."
    )
    verdict: str = strawberry.field(description="One sentence.")
    searched: list[BacktestRow] = strawberry.field(
        description="The present and the proposed policy on the part that was searched."
    )
    unseen: list[BacktestRow] = strawberry.field(description="The same on the later part: the evidence.")
    losers: list[BacktestGroup] = strawberry.field(
        description="Users who wait longer on the later part, those who lose most first."
    )
    notes: list[str] = strawberry.field(description="What is missing in the record, of each part.")


@strawberry.type(description="A backtest: a job of a server. The newest 50 are kept.")
class Backtest:
    id: strawberry.ID = strawberry.field(description="Its id.")
    state: BacktestState = strawberry.field(description="Its state.")
    progress: float = strawberry.field(description="0 to 1.")
    created_at: datetime = strawberry.field(description="When it was started.")
    created_by: str = strawberry.field(description="Who started it.")
    since: datetime = strawberry.field(description="Sessions submitted from then on are counted.")
    until: datetime = strawberry.field(description="End of the time.")
    labels: list[str] = strawberry.field(description="Labels of the runs beside the policies of the time.")
    failure: str | None = strawberry.field(description="Why it failed.")
    report: BacktestReport | None = strawberry.field(description="The result; null in lists, and until it is there.")
    tuning: Tuning | None = strawberry.field(description="The result of a tuning; null as for `report`.")
    applies_itself: bool = strawberry.field(description="Whether a better policy of this tuning is applied by itself.")
    applied_version: int | None = strawberry.field(
        description="Version of the policy in which the proposal was applied; null = it was not."
    )
    superseded: str | None = strawberry.field(
        description="Why the policy no longer has that version, as when the proposal was taken back; null = it still "
        "has it, or the proposal was not applied."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, backtests.BacktestView)


@strawberry.input(description="One run of a backtest: another policy, another cluster, or both.")
class BacktestRunInput:
    label: str | None = optional("Its label; null = its number.")
    policy: UpdatePolicyInput | None = optional(
        "Changes of the present policy, as for `update_policy`; null = the policies of the time."
    )
    like: strawberry.ID | None = optional("An agent; agents like it are added, each on a node of its own.")
    count: int = strawberry.field(default=1, description="How many agents are added, at most 64.")
    without: list[strawberry.ID] = strawberry.field(default_factory=list, description="Agents that are left out.")
    quotas: list[SetQuotaInput] = strawberry.field(
        default_factory=list,
        description="Quotas that hold all the time instead of those of the same subjects, at most 64, as for "
        "`set_quota`; their versions are ignored.",
    )


@strawberry.input(description="A backtest to start.")
class BacktestInput:
    runs: list[BacktestRunInput] = strawberry.field(description="1 to 8 runs.")
    since: datetime | None = optional("Begin of the time; null = seven days before its end.")
    until: datetime | None = optional("End of the time; null = now.")

    def to_request(self) -> requests.NewBacktest:
        """The input as a request."""
        return requests.NewBacktest(
            runs=tuple(
                requests.NewBacktestRun(
                    label=run.label,
                    policy=None if run.policy is None else run.policy.to_changes(),
                    like=run.like,
                    count=run.count,
                    without=tuple(run.without),
                    quotas=tuple(quota.to_request() for quota in run.quotas),
                )
                for run in self.runs
            ),
            since=self.since,
            until=self.until,
        )


@strawberry.input(description="A tuning of the policy's weights to start.")
class TuningInput:
    since: datetime | None = optional("Begin of the time; null = 28 days before its end.")
    split: datetime | None = optional("End of the part that is searched; null = two thirds of the time.")
    until: datetime | None = optional("End of the time; null = now.")
    tries: int = strawberry.field(default=24, description="Policies that are tried, at most 200.")
    seed: int = strawberry.field(default=0, description="One seed is one search.")
    apply: TuneApply = strawberry.field(
        default=TuneApply.MANUAL,
        description="`auto` applies a better policy, and takes it back if more than a quarter of the waiting sessions "
        "start after the P90 of their forecast for six hours.",
    )

    def to_request(self) -> requests.NewTuning:
        """The input as a request."""
        return requests.NewTuning(
            since=self.since, split=self.split, until=self.until, tries=self.tries, seed=self.seed, apply=self.apply
        )


_ON_START: Final[tuple[type[errors.Error], ...]] = tuple(dict.fromkeys((*ALWAYS, errors.StateConflict)))
_ON_CANCEL: Final[tuple[type[errors.Error], ...]] = tuple(dict.fromkeys((*ALWAYS, errors.NotFound)))
StartBacktestResult: Final = union("StartBacktestResult", Backtest, *_ON_START)
_ON_APPLY: Final[tuple[type[errors.Error], ...]] = tuple(
    dict.fromkeys((*ALWAYS, errors.NotFound, errors.StateConflict, errors.VersionConflict))
)
StartTuningResult: Final = union("StartTuningResult", Backtest, *_ON_START)
ApplyTuningResult: Final = union("ApplyTuningResult", Backtest, *_ON_APPLY)
CancelBacktestResult: Final = union("CancelBacktestResult", Backtest, *_ON_CANCEL)
Id = Annotated[strawberry.ID, strawberry.argument(description="The backtest's id.")]


@strawberry.type
class BacktestQueries:
    @root_field(Backtest | None, "A backtest; null if there is none of this id any more. For operators.")
    async def backtest(self, info: Info[Context, None], id: Id) -> backtests.BacktestView | None:
        context = info.context
        return await context.services.administration.backtests.backtest(context.caller, id)

    @root_field(list[Backtest], "The newest 50 backtests, the newest first, without results. For operators.")
    async def backtests(self, info: Info[Context, None]) -> list[backtests.BacktestView]:
        context = info.context
        return list(await context.services.administration.backtests.backtests(context.caller))


@strawberry.type
class BacktestMutations:
    @root_field(
        StartBacktestResult,
        "Run the recorded history again under other policies or on another cluster, in the background. One backtest "
        "runs at a time, at most 4 wait. For operators.",
    )
    async def start_backtest(
        self,
        info: Info[Context, None],
        input: Annotated[BacktestInput, strawberry.argument(description="What to run.")],
    ) -> backtests.BacktestView | errors.Error:
        async def start() -> backtests.BacktestView:
            context = info.context
            return await context.services.administration.backtests.start_backtest(context.caller, input.to_request())

        return await answer(start(), _ON_START)

    @root_field(CancelBacktestResult, "Stop a backtest. For operators.")
    async def cancel_backtest(self, info: Info[Context, None], id: Id) -> backtests.BacktestView | errors.Error:
        context = info.context
        return await answer(context.services.administration.backtests.cancel_backtest(context.caller, id), _ON_CANCEL)

    @root_field(
        StartTuningResult,
        "Search better weights for the policy on the recorded history, in the background, as one of the backtests. For "
        "operators.",
    )
    async def start_tuning(
        self,
        info: Info[Context, None],
        input: Annotated[TuningInput, strawberry.argument(description="What to search.")],
    ) -> backtests.BacktestView | errors.Error:
        async def start() -> backtests.BacktestView:
            context = info.context
            return await context.services.administration.backtests.start_tuning(context.caller, input.to_request())

        return await answer(start(), _ON_START)

    @root_field(
        ApplyTuningResult,
        "Change the policy as a tuning proposes, unless the policy has changed since the tuning began. For operators.",
    )
    async def apply_tuning(self, info: Info[Context, None], id: Id) -> backtests.BacktestView | errors.Error:
        context = info.context
        return await answer(context.services.administration.backtests.apply_tuning(context.caller, id), _ON_APPLY)
