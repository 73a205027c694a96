"""Backtests in memory instead of a database."""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from aliquot.clock import RandomIds
from aliquot.service.backtests.ports import (
    KEPT_MAX,
    OPEN,
    BacktestOrder,
    BacktestRunner,
    BacktestSources,
    StoredBacktest,
)
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.views.backtests import BacktestView


@dataclass
class MemoryBacktests:
    """Implements `BacktestRecords`. Servers whose records share `kept` use one database."""

    kept: dict[str, StoredBacktest] = field(default_factory=dict)
    is_away: bool = False
    """Whether the database cannot be reached."""
    is_unconfirmed: bool = False
    """Whether the connection ends after a write before its answer comes."""
    damaged: set[str] = field(default_factory=set)
    """Backtests whose results or orders cannot be read."""
    refused: int = 0
    """Calls that failed."""
    times_max: int = 0
    """Most times of the last save that a call looked for."""

    async def begin(self, view: BacktestView, order: BacktestOrder, *, now_us: int) -> None:
        try:
            await self.save(view, now_us=now_us)
        finally:
            if view.id in self.kept:
                self.kept[view.id] = replace(self.kept[view.id], order=order)

    async def save(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        self._reach()
        if known_us and (view.id not in self.kept or self.kept[view.id].saved_us not in known_us):
            return False
        self.kept[view.id] = StoredBacktest(view=view, saved_us=now_us)
        for name in sorted(self.kept)[:-KEPT_MAX]:
            del self.kept[name]
        self._confirm()
        return True

    async def update(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        self.times_max = max(self.times_max, len(known_us))
        self._reach()
        known = self.kept.get(view.id)
        if known is None or known.view.state not in OPEN or (known_us and known.saved_us not in known_us):
            return False
        self.kept[view.id] = replace(known, view=view, saved_us=now_us)
        self._confirm()
        return True

    async def take(self, view: BacktestView, order: BacktestOrder, *, now_us: int, known_us: int) -> bool:
        is_taken = await self.update(view, now_us=now_us, known_us=(known_us,))
        if is_taken:
            self.kept[view.id] = replace(self.kept[view.id], order=order)
        return is_taken

    async def find(self, name: str) -> StoredBacktest | None:
        self._reach()
        if name in self.damaged:
            raise zlib.error("incorrect header check")
        return self.kept.get(name)

    async def newest(self) -> Sequence[StoredBacktest]:
        self._reach()
        return [
            replace(one, view=replace(one.view, report=None, tuning=None), order=None)
            for _, one in sorted(self.kept.items(), reverse=True)
        ]

    def _reach(self) -> None:
        if self.is_away:
            self.refused += 1
            raise StoreUnavailable("the database cannot be reached")

    def _confirm(self) -> None:
        if self.is_unconfirmed:
            self.refused += 1
            raise StoreUnavailable("the connection ended before the answer came")


def sources(
    runner: BacktestRunner, records: MemoryBacktests | None = None, *, is_shared: bool = True
) -> BacktestSources:
    """The sources of backtests that a runner runs."""
    return BacktestSources(ids=RandomIds(), runner=runner, records=records or MemoryBacktests(), is_shared=is_shared)
