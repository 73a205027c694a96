"""Views of backtests: the recorded history run again, compared with how it was decided. Durations are seconds."""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedStr

BASE_LABEL: Final = "as it was decided"
"""Label of the run under the policies of the time."""


class BacktestState(DescribedStr):
    """State of a backtest."""

    QUEUED = "queued", "It starts after the backtests before it."
    RUNNING = "running", "It is being computed; `progress` says how far."
    COMPLETED = "completed", "Its result can be read."
    FAILED = "failed", "It ended without a result; `failure` says why."
    CANCELED = "canceled", "An operator stopped it."


class TuneApply(DescribedStr):
    """What becomes of a better policy that a tuning finds."""

    MANUAL = "manual", "An operator applies it."
    AUTO = "auto", "It is applied, and taken back if live waits stay above the forecasts' band."


class BacktestSpread(Struct, frozen=True, kw_only=True):
    """Distribution of a duration over all counted sessions."""

    mean: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class BacktestGroup(Struct, frozen=True, kw_only=True):
    """Figures of one user or project."""

    kind: str
    """`user` or `project`."""
    name: str
    sessions: int
    gpu_hours: float
    wait: float
    """Mean."""
    wait_before: float
    """Mean under the policies of the time."""
    completion: float
    """Mean time from submission to end."""
    slowdown: float
    """Mean bounded slowdown."""


class BacktestMove(Struct, frozen=True, kw_only=True):
    """A session that waits longer or shorter than under the policies of the time."""

    session_id: str
    owner: str
    project: str
    wait_before: float
    wait_after: float


class BacktestRow(Struct, frozen=True, kw_only=True):
    """One run."""

    label: str
    sessions: int
    wait: BacktestSpread
    """Submission to first start."""
    completion: BacktestSpread
    """Submission to end."""
    slowdown: float
    """Mean bounded slowdown: time to completion by run time, at least 1; shorter runs count as 10 s."""
    utilization: float
    """Part of the GPUs that sessions held, 0 to 1, over the time of the record."""
    utilization_queued: float
    """The same while sessions waited."""
    preemptions: int
    lost_gpu_hours: float
    fairness_users: float
    """Jain's index of the users' mean slowdowns: 1 = all equal, 1/n = one of n has all of it."""
    fairness_projects: float
    groups: tuple[BacktestGroup, ...]
    """Users, then projects, by GPU-hours."""
    winners: tuple[BacktestMove, ...]
    """The sessions that gain most."""
    winners_count: int
    losers: tuple[BacktestMove, ...]
    losers_count: int
    utilization_over_time: tuple[float, ...]
    """Means of equal parts of the time of the record, 0 to 1."""
    waiting_over_time: tuple[float, ...]
    """Mean number of waiting sessions."""
    wait_quantiles: tuple[float, ...]
    """The wait of the shortest 0 %, 1 %, ... 100 % of the sessions."""
    assumed: int
    """Sessions whose run time is not recorded; predictions were used."""
    exact: bool
    """Whether every pass was one of the scheduler itself; otherwise of the fast engine, which decides the same."""


class BacktestDifference(Struct, frozen=True, kw_only=True):
    """A session that starts at another time than it did, although the policies of the time decide."""

    session_id: str
    owner: str
    recorded: float
    """Start, seconds after the beginning of the record."""
    simulated: float | None
    """None = it does not start."""
    reason: str


class BacktestReport(Struct, frozen=True, kw_only=True):
    """The result of a backtest."""

    since_us: int
    until_us: int
    sessions: int
    """Sessions that were submitted in the time, started and ended: those that all figures are about."""
    reproduced: int
    """Sessions that start exactly when they did, under the policies of the time."""
    different_count: int
    different: tuple[BacktestDifference, ...]
    """The first ones."""
    notes: tuple[str, ...]
    rows: tuple[BacktestRow, ...]
    """The policies of the time first."""


class TuningChange(Struct, frozen=True, kw_only=True):
    """A weight that a tuning proposes to change."""

    field: str
    """Field of `Weights`."""
    name: str
    """As in `aliquot policy set`: `weights.age`, `weights.short_half`."""
    value: int
    """In the unit of the field."""
    before: str
    after: str


class TuningReport(Struct, frozen=True, kw_only=True):
    """The result of a tuning: weights found on one part of the history, compared on a later part."""

    since_us: int
    split_us: int
    """End of the part that was searched; the later part begins."""
    until_us: int
    base_version: int
    """Version of the policy that it changes."""
    tries: int
    """Policies that were tried."""
    changes: tuple[TuningChange, ...]
    """Empty = nothing better was found."""
    is_better: bool
    """Whether it is proposed: better on the later part, and within the bounds."""
    verdict: str
    """One sentence."""
    searched: tuple[BacktestRow, ...]
    """On the part that was searched: the present policy, and the proposed one."""
    unseen: tuple[BacktestRow, ...]
    """The same on the later part."""
    losers: tuple[BacktestGroup, ...]
    """Users whose sessions of the later part wait longer, those who lose most first."""
    notes: tuple[str, ...] = ()
    """What is missing in the record, of each part."""

    @property
    def split(self) -> datetime:
        """`split_us` as a time."""
        return datetime.fromtimestamp(self.split_us / 1e6, tz=UTC)


class BacktestView(Struct, frozen=True, kw_only=True):
    """A backtest and its progress."""

    id: str
    state: BacktestState
    progress: float
    """0 to 1."""
    created_at: datetime
    created_by: str
    since: datetime
    until: datetime
    labels: tuple[str, ...]
    """Labels of the runs beside the policies of the time."""
    failure: str | None
    """Why it failed."""
    report: BacktestReport | None
    tuning: TuningReport | None = None
    """The result of a tuning."""
    applied_version: int | None = None
    """Version of the policy in which its proposal was applied."""
    superseded: str | None = None
    """Why the policy no longer has that version; None = it still has it, or the proposal was not applied."""
    applies_itself: bool = False
    """Whether a better policy is applied without being asked, see `TuneApply`."""
