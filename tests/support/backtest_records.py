"""Backtests in memory instead of a database."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from aliquot.clock import RandomIds
from aliquot.service.backtests.ports import KEPT_MAX, OPEN, BacktestRunner, BacktestSources, StoredBacktest
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.views.backtests import BacktestView


@dataclass
class MemoryBacktests:
    """Implements `BacktestRecords`."""

    kept: dict[str, StoredBacktest] = field(default_factory=dict)
    is_away: bool = False
    """Whether the database cannot be reached."""

    async def save(self, view: BacktestView, *, now_us: int) -> None:
        if self.is_away:
            raise StoreUnavailable("the database cannot be reached")
        self.kept[view.id] = StoredBacktest(view=view, saved_us=now_us)
        for name in sorted(self.kept)[:-KEPT_MAX]:
            del self.kept[name]

    async def update(self, view: BacktestView, *, now_us: int) -> bool:
        if view.id not in self.kept or self.kept[view.id].view.state not in OPEN:
            return False
        await self.save(view, now_us=now_us)
        return True

    async def find(self, name: str) -> StoredBacktest | None:
        return self.kept.get(name)

    async def newest(self) -> Sequence[StoredBacktest]:
        return [
            replace(one, view=replace(one.view, report=None, tuning=None))
            for _, one in sorted(self.kept.items(), reverse=True)
        ]


def sources(
    runner: BacktestRunner, records: MemoryBacktests | None = None, *, is_shared: bool = True
) -> BacktestSources:
    """The sources of backtests that a runner runs."""
    return BacktestSources(ids=RandomIds(), runner=runner, records=records or MemoryBacktests(), is_shared=is_shared)
