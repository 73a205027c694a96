"""History, as people ask for it. Any server can be asked."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from aliquot.core.allocation.occupancy import budget_cost
from aliquot.service.history.asked import SPAN_US, USAGE_SPAN_US, grid_of, span_of, usage_grid_of
from aliquot.service.history.course import course_of, while_held
from aliquot.service.history.grids import SECOND_US, Curves, Grid
from aliquot.service.history.held import Held, HeldBook
from aliquot.service.history.loads import weigh_all
from aliquot.service.history.measures import WHOLE, Kind
from aliquot.service.history.ports import HistoryStore, HistoryUnavailable, Tended
from aliquot.service.history.projection import device_series, history_view, queue_series, usage_view
from aliquot.service.history.samples import QUEUE_EVERY_S, Sample
from aliquot.service.history.turns import Turns
from aliquot.service.history.usage import UsageSums
from aliquot.service.ports import Clock
from aliquot.service.projection_terms import moment
from aliquot.service.queries import Queries
from aliquot.service.state import State
from aliquot.service.visibility import sight_of
from aliquot_schema.errors import Forbidden, NotFound
from aliquot_schema.history_views import HistorySeriesView, HistoryView, UsageBy, UsageHistoryView
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.privacy import Sight
from aliquot_schema.requests import Caller
from aliquot_schema.slots import MILLI

UNWRITTEN_S_MAX: Final = 320
"""A window of five minutes, and until it is written: for so long at most what was measured is in the memory of the
server that leads, and nowhere else."""
USAGE_AT_ONCE_MAX: Final = 8
"""Questions of usage: one is answered, and holds up to 200,000 grants in memory meanwhile; the others wait."""


class History:
    """Measurements come from their store, which may be missing; usage from the record of what was held."""

    def __init__(
        self, *, state: State, queries: Queries, clock: Clock, leads: Callable[[], bool] = lambda: True
    ) -> None:
        self._leads = leads
        self._state = state
        self._queries = queries
        self._clock = clock
        self._store: HistoryStore | None = None
        self._is_kept = asyncio.Event()
        self._usage_turns = Turns(present_max=USAGE_AT_ONCE_MAX)
        self.book: HeldBook | None = None

    def keep(self, store: HistoryStore | None) -> None:
        """Where measurements are kept from now on; None: nowhere."""
        self._store = store
        if store is None:
            self._is_kept.clear()
        else:
            self._is_kept.set()

    @property
    def is_kept(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    async def until_kept(self) -> None:
        """Wait for one."""
        await self._is_kept.wait()

    @property
    def fault(self) -> str | None:
        """What does not work now, in words."""
        return None if self._store is None else self._store.fault

    def take(self, sample: Sample) -> None:
        """Keep a sample, where anything is kept."""
        if self._store is not None:
            self._store.take(sample)

    async def tend(self) -> Tended:
        """See `HistoryStore.tend`."""
        return await self._stored().tend()

    async def device_history(
        self,
        caller: Caller,
        agent_id: str,
        *,
        device_ids: tuple[str, ...] | None,
        since: datetime | None,
        until: datetime | None,
        points: int,
    ) -> HistoryView:
        """See `Historian`."""
        if AgentId(agent_id) not in self._state.agents:
            raise NotFound(f"there is no agent {agent_id[:80]}", kind="agent", id=agent_id[:80])
        grid = self._grid(since, until, points=points)
        wanted = None if device_ids is None else frozenset(device_ids)
        found = await self._stored().gathered(Kind.DEVICES, agent_id, grid, devices=wanted)
        return history_view(grid, await asyncio.to_thread(_listed, agent_id, found), warning=self._missing(grid))

    async def queue_history(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, points: int
    ) -> HistoryView:
        """See `Historian`."""
        grid = self._grid(since, until, points=points, least_s=2 * QUEUE_EVERY_S)
        found = await self._stored().gathered(Kind.QUEUE, "", grid)
        series = queue_series(found[WHOLE]) if WHOLE in found else iter(())
        return history_view(grid, series, warning=self._missing(grid))

    async def session_history(self, caller: Caller, session_id: str, *, points: int) -> HistoryView:
        """See `Historian`."""
        session = await self._queries.session(caller, session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id[:80]}", kind="session", id=session_id[:80])
        if sight_of(caller, owner=session.owner, project=session.project) < Sight.MEMBER:
            raise Forbidden(f"{session_id} is of {session.owner}; what it did is shown to members of its project alone")
        now_us = self._clock.now_us()
        held = await self._record().of_session(SessionId(session_id), now_us)
        since_us, until_us = course_of(held, now_us=now_us)
        grid = self._grid_of((since_us, until_us), points=points)
        series: list[HistorySeriesView] = []
        for agent_id in dict.fromkeys(one.agent_id for one in held):
            own = [one for one in held if one.agent_id == agent_id]
            wanted = frozenset(one.device_id for one in own)
            found = await self._stored().gathered(Kind.DEVICES, agent_id, grid, devices=wanted)
            series += await asyncio.to_thread(_listed, agent_id, while_held(found, own, grid=grid))
        return history_view(grid, series, warning=self._missing(grid))

    async def usage_history(
        self, caller: Caller, *, by: UsageBy, since: datetime | None, until: datetime | None, step: float | None
    ) -> UsageHistoryView:
        """See `Historian`."""
        now_us = self._clock.now_us()
        grid = usage_grid_of(span_of(since, until, now_us=now_us, usual_us=USAGE_SPAN_US), step=step)
        async with self._usage_turns.one():
            return await self._usage(grid, by, until_us=min(grid.end_us, now_us))

    def _missing(self, grid: Grid) -> str | None:
        """Why something may be missing."""
        if self._leads() or grid.end_us < self._clock.now_us() - UNWRITTEN_S_MAX * SECOND_US:
            return self.fault
        words = (
            f"this server follows: what was measured in the last {UNWRITTEN_S_MAX // 60} minutes may be known to the "
            "server that leads alone"
        )
        return words if self.fault is None else f"{self.fault}; {words}"

    async def _usage(self, grid: Grid, by: UsageBy, *, until_us: int) -> UsageHistoryView:
        sums = UsageSums(grid, key=lambda held: held.owner if by is UsageBy.USER else held.project, share=self._share)
        record = self._record()
        async for page in record.between(grid.start_us, until_us):
            await asyncio.to_thread(sums.add, page)
        told = await self._weighed(sums)
        if grid.start_us < (whole_us := await record.whole_since_us()):
            gone = (
                f"some of what was given back before {moment(whole_us):%Y-%m-%d} was archived or removed; it is missing"
            )
            told = gone if told is None else f"{gone}; {told}"
        return usage_view(grid, await asyncio.to_thread(sums.series), warning=told)

    async def _weighed(self, sums: UsageSums) -> str | None:
        """Let the sums know what the devices did; returns why some of that may be missing."""
        if self._store is None:
            return "this server keeps no measurements: there is no utilization"
        try:
            told = await weigh_all(sums, store=self._store)
        except HistoryUnavailable as error:
            return error.message
        return told or self.fault

    def _grid(self, since: datetime | None, until: datetime | None, *, points: int, least_s: float = 0.0) -> Grid:
        span = span_of(since, until, now_us=self._clock.now_us(), usual_us=SPAN_US)
        return self._grid_of(span, points=points, least_s=least_s)

    def _grid_of(self, span: tuple[int, int], *, points: int, least_s: float = 0.0) -> Grid:
        return grid_of(span, points=points, least_s=max(least_s, self._stored().least_step_s(span[0])))

    def _share(self, held: Held) -> float:
        layout = self._state.layouts.get(held.agent_id)
        device = None if layout is None else layout.devices.get(held.device_id)
        return held.amount * budget_cost(held.slot, device=device) / (MILLI if device is None else device.budget)

    def _stored(self) -> HistoryStore:
        if self._store is None:
            raise HistoryUnavailable("this server keeps no history")
        return self._store

    def _record(self) -> HeldBook:
        if self.book is None:
            raise HistoryUnavailable("this server keeps no record of what was held")
        return self.book


def _listed(agent_id: str, curves: Mapping[str, Curves]) -> list[HistorySeriesView]:
    """All of them; run in a thread, since there may be many numbers."""
    return list(device_series(agent_id, curves))
