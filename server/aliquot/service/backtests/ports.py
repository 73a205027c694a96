"""Ports of backtests: the order of one, what runs it, and where the results are kept."""

from collections.abc import AsyncIterator, Collection, Sequence
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
LOST_S: Final = 30.0
"""A server saves its backtests every few seconds until they end. One not saved for longer was left by its server."""
OPEN: Final = (BacktestState.QUEUED, BacktestState.RUNNING)
INTERRUPTIONS_MAX: Final = 3
"""A backtest whose servers were killed this often is not run again: it may be the reason."""
INTERRUPTED: Final = "its server was stopped; start it again"
KILLED: Final = (
    f"its server was killed {INTERRUPTIONS_MAX} times while it ran, as by a lack of memory; use a shorter time"
)


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
    interruptions: int = 0
    """How often a server was killed while it ran."""


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
    """By the clock of that server; 0 = it was stopped in order."""
    order: BacktestOrder | None = None
    """What to run until it has ended; only `find` reads it. None = an earlier release began it."""

    def is_left(self, *, is_silent: bool) -> bool:
        """Whether its server stopped before its end, so that another one takes it over; this server does not run it.

        Args:
            is_silent: whether no server can be running it without having saved it.
        """
        return self.view.state in OPEN and (is_silent or self.saved_us == 0)


class BacktestRecords(Protocol):
    """The newest `KEPT_MAX` backtests of all servers. Every method may raise `StoreUnavailable`."""

    async def begin(self, view: BacktestView, order: BacktestOrder, *, now_us: int) -> None:
        """Add one that is to be run, and remove the oldest ones."""

    async def save(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        """Save one that has ended, with its result.

        Args:
            known_us: save it only if it was saved last at one of these times; empty = in any case: add or replace it,
                and remove the oldest ones.
        Returns:
            Whether it did; False = another server has ended it or taken it over, or it is not there.
        """

    async def update(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        """Replace the state and the progress of one that has not ended.

        Args:
            known_us: update it only if it was saved last at one of these times; empty = in any case.
        Returns:
            Whether it did; False = it has ended, is not there, or another server has taken it over.
        """

    async def take(self, view: BacktestView, order: BacktestOrder, *, now_us: int, known_us: int) -> bool:
        """Take over one that is left; False = it was saved since `known_us`, or has ended."""

    async def find(self, name: str) -> StoredBacktest | None:
        """One with its result."""

    async def newest(self) -> Sequence[StoredBacktest]:
        """All that can be read, without their results, newest first."""


class BacktestSources(Struct, frozen=True, kw_only=True):
    """What backtests need beyond the state."""

    ids: Ids
    runner: BacktestRunner
    records: BacktestRecords
    is_shared: bool
    """Whether other servers use the database of the records."""


def requeued(view: BacktestView) -> BacktestView:
    """A backtest whose server was stopped: it is run again from its beginning."""
    return replace(view, state=BacktestState.QUEUED, progress=0.0)
