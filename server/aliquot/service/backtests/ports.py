"""Ports of backtests: the order of one, and what runs it."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from aliquot_schema.ids import AgentId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Quota
from aliquot_schema.views.backtests import BacktestReport, TuningReport


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
