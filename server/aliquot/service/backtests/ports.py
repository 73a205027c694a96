"""Ports of backtests: the order of one, what runs it, and where the results are kept."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from aliquot.service.ports import Ids
from aliquot_schema.ids import AgentId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Quota
from aliquot_schema.views.backtests import BacktestReport, BacktestState, BacktestView, TuningReport

KEPT_MAX: Final = 50
"""Backtests that are kept, the newest."""
LOST_US: Final = 30_000_000
"""A server saves its backtests every few seconds until they end. One not saved for longer has ended with it."""
OPEN: Final = (BacktestState.QUEUED, BacktestState.RUNNING)
INTERRUPTED: Final = "the server was restarted; start it again"


class OrderedRun(Struct, frozen=True, kw_only=True):
    """One run beside the policies of the time; see `core.simulation.backtest.Variant`."""

    label: str
    policy: PolicyDocument | None = None
    like: AgentId | None = None
    count: int = 0
    without: tuple[AgentId, ...] = ()
    quotas: tuple[Quota, ...] = ()


class TuningOrder(Struct, frozen=True, kw_only=True):
    """A search of the policy's weights; see `core.simulation.tuning`."""

    document: PolicyDocument
    split_us: int | None = None
    """End of the part that is searched; None = after two thirds of the recorded time."""
    tries: int
    seed: int = 0


class BacktestOrder(Struct, frozen=True, kw_only=True):
    """What a backtest is to run. Times are microseconds UTC."""

    since_us: int
    until_us: int
    runs: tuple[OrderedRun, ...] = ()
    tuning: TuningOrder | None = None
    """A search instead of runs."""


class BacktestNews(Struct, frozen=True, kw_only=True):
    """What a running backtest says; exactly one of the fields is set."""

    progress: float | None = None
    """0 to 1."""
    report: BacktestReport | None = None
    """The result; nothing follows it."""
    tuning: TuningReport | None = None
    """The result of a tuning; nothing follows it."""
    failure: str | None = None
    """Why there is no result; nothing follows it."""


class BacktestRunner(Protocol):
    """Runs backtests outside of the server's process."""

    def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
        """Run one; closing the iterator stops it."""


class StoredBacktest(Struct, frozen=True, kw_only=True):
    """A backtest in the database, as the server that runs it saved it last."""

    view: BacktestView
    saved_us: int

    def as_of(self, now_us: int, *, is_shared: bool) -> BacktestView:
        """The backtest as of now; this server does not run it. One that has not ended was interrupted if no other
        server uses the database, or if it was not saved for `LOST_US`.

        Args:
            is_shared: whether other servers use the database.
        """
        if self.view.state in OPEN and (now_us - self.saved_us > LOST_US or not is_shared):
            return interrupted(self.view)
        return self.view


class BacktestRecords(Protocol):
    """The newest `KEPT_MAX` backtests of all servers. Every method may raise `StoreUnavailable`."""

    async def save(self, view: BacktestView, *, now_us: int) -> None:
        """Add or replace one, and remove the oldest ones."""

    async def update(self, view: BacktestView, *, now_us: int) -> bool:
        """Replace the state and the progress of one that has not ended; False = it has ended, or is not there."""

    async def find(self, name: str) -> StoredBacktest | None:
        """One with its result."""

    async def newest(self) -> Sequence[StoredBacktest]:
        """All without their results, newest first."""


class BacktestSources(Struct, frozen=True, kw_only=True):
    """What backtests need beyond the state."""

    ids: Ids
    runner: BacktestRunner
    records: BacktestRecords
    is_shared: bool
    """Whether other servers use the database of the records."""


def interrupted(view: BacktestView) -> BacktestView:
    """A backtest whose server was stopped."""
    return replace(view, state=BacktestState.FAILED, failure=INTERRUPTED)
