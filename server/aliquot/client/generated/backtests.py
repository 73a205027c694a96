"""Backtests.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import BacktestState, TuneApply
from aliquot.client.generated.policy_inputs import SetQuotaInput, UpdatePolicyInput


class BacktestDifference(Struct, frozen=True, kw_only=True):
    """A session that the policies of the time start at another time than it started."""

    session_id: str
    """The session."""
    owner: str
    """Its owner."""
    recorded: float
    """When it started, in seconds after the beginning of the record."""
    simulated: float | None
    """When it starts in the run; null = never."""
    reason: str
    """Why, as far as it is known."""


class BacktestSpread(Struct, frozen=True, kw_only=True):
    """Distribution of a duration in seconds."""

    mean: float
    """Mean."""
    p95: float
    """95th percentile."""
    max: float
    """Maximum."""


class BacktestGroup(Struct, frozen=True, kw_only=True):
    """Figures of one user or project in a run."""

    kind: str
    """`user` or `project`."""
    name: str
    """Its name."""
    sessions: int
    """Number of sessions."""
    gpu_hours: float
    """GPU-hours of their runs."""
    wait: float
    """Mean wait in seconds."""
    wait_before: float
    """The same under the policies of the time."""
    completion: float
    """Mean seconds from submission to end."""
    slowdown: float
    """Mean bounded slowdown."""


class BacktestMove(Struct, frozen=True, kw_only=True):
    """A session that waits longer or shorter in a run than under the policies of the time."""

    session_id: str
    """The session."""
    owner: str
    """Its owner."""
    project: str
    """Its project."""
    wait_before: float
    """Wait in seconds under the policies of the time."""
    wait_after: float
    """Wait in seconds in this run."""


class BacktestRow(Struct, frozen=True, kw_only=True):
    """One run of a backtest."""

    label: str
    """Its label."""
    sessions: int
    """Sessions that the figures are about."""
    wait: BacktestSpread
    """From submission to the first start."""
    completion: BacktestSpread
    """From submission to the end."""
    slowdown: float
    """Mean bounded slowdown: completion by run time, at least 1; shorter runs count as 10 s."""
    utilization: float
    """Part of the GPUs that sessions held, 0 to 1."""
    utilization_queued: float
    """The same while sessions waited."""
    preemptions: int
    """Number of preemptions."""
    lost_gpu_hours: float
    """GPU-hours lost by preemption."""
    fairness_users: float
    """Jain's index of the users' mean slowdowns: 1 = all equal, 1/n = one of n has all of it."""
    fairness_projects: float
    """The same of projects."""
    groups: tuple[BacktestGroup, ...]
    """Users, then projects, by GPU-hours."""
    winners: tuple[BacktestMove, ...]
    """The sessions that gain most, at most 20."""
    winners_count: int
    """Sessions that wait at least a minute less."""
    losers: tuple[BacktestMove, ...]
    """The sessions that lose most, at most 20."""
    losers_count: int
    """Sessions that wait at least a minute more."""
    utilization_over_time: tuple[float, ...]
    """Means of 100 equal parts of the time, 0 to 1."""
    waiting_over_time: tuple[float, ...]
    """Mean number of waiting sessions in these parts."""
    wait_quantiles: tuple[float, ...]
    """101 waits in seconds: of the shortest 0 %, 1 %, up to 100 % of the sessions."""
    assumed: int
    """Sessions whose run time is not recorded; predictions were used. They are not counted."""
    exact: bool
    """Whether every pass was one of the scheduler itself, and not of the fast engine."""


class BacktestReport(Struct, frozen=True, kw_only=True):
    """The result of a backtest."""

    sessions: int
    """Sessions submitted in the time that started and ended."""
    reproduced: int
    """Sessions that start exactly when they did under the policies of the time."""
    different_count: int
    """Sessions that do not."""
    different: tuple[BacktestDifference, ...]
    """The first of these, at most 20."""
    notes: tuple[str, ...]
    """What is missing in the record."""
    rows: tuple[BacktestRow, ...]
    """The runs; the policies of the time first."""


class TuningChange(Struct, frozen=True, kw_only=True):
    """A weight that a tuning proposes to change."""

    name: str
    """As in `aliquot policy set`, like `weights.age`."""
    before: str
    """Its present value; durations as text."""
    after: str
    """The proposed value."""


class Tuning(Struct, frozen=True, kw_only=True):
    """
    The result of a tuning: weights searched on the first part of the time, and compared with the present policy on the
    later part, which the search has not seen.
    """

    split: datetime
    """End of the part that was searched."""
    base_version: int
    """Version of the policy that the proposal changes."""
    tries: int
    """Policies that were tried."""
    changes: tuple[TuningChange, ...]
    """The proposal; empty if nothing better was found."""
    is_better: bool
    """
    Whether it is better on the later part without a longer wait, less fairness or less use of GPUs than allowed. Only
    then can it be applied.
    """
    verdict: str
    """One sentence."""
    searched: tuple[BacktestRow, ...]
    """The present and the proposed policy on the part that was searched."""
    unseen: tuple[BacktestRow, ...]
    """The same on the later part: the evidence."""
    losers: tuple[BacktestGroup, ...]
    """Users who wait longer on the later part, those who lose most first."""
    notes: tuple[str, ...]
    """What is missing in the record, of each part."""


class Backtest(Struct, frozen=True, kw_only=True):
    """A backtest: a job of a server. The newest 50 are kept."""

    id: str
    """Its id."""
    state: BacktestState
    """Its state."""
    progress: float
    """0 to 1."""
    created_at: datetime
    """When it was started."""
    created_by: str
    """Who started it."""
    since: datetime
    """Sessions submitted from then on are counted."""
    until: datetime
    """End of the time."""
    labels: tuple[str, ...]
    """Labels of the runs beside the policies of the time."""
    failure: str | None
    """Why it failed."""
    report: BacktestReport | None
    """The result; null in lists, and until it is there."""
    tuning: Tuning | None
    """The result of a tuning; null as for `report`."""
    applies_itself: bool
    """Whether a better policy of this tuning is applied by itself."""
    applied_version: int | None
    """Version of the policy in which the proposal was applied; null = it was not."""
    superseded: str | None
    """
    Why the policy no longer has that version, as when the proposal was taken back; null = it still has it, or the
    proposal was not applied.
    """


class BacktestRunInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run of a backtest: another policy, another cluster, or both."""

    label: str | None = None
    """Its label; null = its number."""
    policy: UpdatePolicyInput | None = None
    """Changes of the present policy, as for `update_policy`; null = the policies of the time."""
    like: str | None = None
    """An agent; agents like it are added, each on a node of its own."""
    count: int = 1
    """How many agents are added, at most 64."""
    without: Sequence[str] = []
    """Agents that are left out."""
    quotas: Sequence[SetQuotaInput] = []
    """
    Quotas that hold all the time instead of those of the same subjects, at most 64, as for `set_quota`; their versions
    are ignored.
    """


class BacktestInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A backtest to start."""

    runs: Sequence[BacktestRunInput]
    """1 to 8 runs."""
    since: datetime | None = None
    """Begin of the time; null = seven days before its end."""
    until: datetime | None = None
    """End of the time; null = now."""


class TuningInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tuning of the policy's weights to start."""

    since: datetime | None = None
    """Begin of the time; null = 28 days before its end."""
    split: datetime | None = None
    """End of the part that is searched; null = two thirds of the time."""
    until: datetime | None = None
    """End of the time; null = now."""
    tries: int = 24
    """Policies that are tried, at most 200."""
    seed: int = 0
    """One seed is one search."""
    apply: TuneApply = TuneApply.MANUAL
    """
    `auto` applies a better policy, and takes it back if more than a quarter of the waiting sessions start after the P90
    of their forecast for six hours.
    """
