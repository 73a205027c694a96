"""The store of history, as the event loop sees it: samples in, curves out; the rest is a thread's."""

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aliquot.service.history.grids import Curves, Grid
from aliquot.service.history.measures import Kind
from aliquot.service.history.ports import HistoryUnavailable, Tended
from aliquot.service.history.samples import Sample
from aliquot.store.history.keeper import Keeper
from aliquot.store.history.thread import LoopThread
from aliquot.store.history.tiers import SECOND_US, STEP_US, Kept
from aliquot.store.store import Database

T = TypeVar("T")

WAITING_MAX: Final = 20_000
"""Samples that nobody looked at yet: what 1,000 agents say in 40 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlan:
    """What a store of history is made of."""

    make_database: Callable[[], Database]
    """Called, and used, in its thread."""
    kept: Kept
    interval_s: float
    """Between two readings of a device."""
    now_us: Callable[[], int]
    wall_us: Callable[[], int]
    """The clock by which something is too old."""


class KeptHistory:
    """`HistoryStore`; what its methods promise is said there."""

    def __init__(self, plan: HistoryPlan) -> None:
        self._plan = plan
        self._waiting: deque[Sample] = deque(maxlen=WAITING_MAX)
        self._thread = LoopThread("history")
        self._keeper: Keeper | None = None

    async def open(self) -> None:
        """Begin. A database that cannot be opened is told of, and tried again."""
        self._thread.start()
        await self._thread.run(self._begin)

    async def close(self) -> None:
        """Write what is in memory, and let go. Harmless when it was not opened."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await self._thread.run(keeper.end)
        await self._thread.stop()

    def take(self, sample: Sample) -> None:
        self._waiting.append(sample)

    async def gathered(
        self, kind: Kind, name: str, grid: Grid, *, devices: frozenset[str] | None = None
    ) -> dict[str, Curves]:
        return await self._run(lambda keeper: keeper.gathered(kind, name, grid, devices))

    async def tend(self) -> Tended:
        return await self._run(Keeper.tend)

    async def flush(self) -> None:
        """Write everything that was taken, whole windows or not."""
        await self._run(Keeper.flush)

    def least_step_s(self, since_us: int) -> float:
        tier = self._plan.kept.finest(since_us, now_us=self._plan.now_us())
        # Twice the time between readings, so that one that comes late leaves no hole.
        return max(2 * self._plan.interval_s, STEP_US[tier] / SECOND_US if tier in STEP_US else 0.0)

    @property
    def fault(self) -> str | None:
        return None if self._keeper is None else self._keeper.fault

    async def _begin(self) -> None:
        plan = self._plan
        self._keeper = Keeper(
            plan.make_database(), waiting=self._waiting, kept=plan.kept, now_us=plan.now_us, wall_us=plan.wall_us
        )
        await self._keeper.begin()

    async def _run(self, work: Callable[[Keeper], Coroutine[Any, Any, T]]) -> T:
        keeper = self._keeper
        if keeper is None:
            raise HistoryUnavailable("history is not open")
        return await self._thread.run(lambda: work(keeper))
