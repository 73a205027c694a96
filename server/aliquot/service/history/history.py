"""History queries: device, queue, session and usage series. Every server answers them.

Each query is laid out on a grid of at most `POINTS_MAX` steps. Usage queries need much memory, so one runs at a time
and a bounded number wait.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import numpy as np
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import budget_cost
from aliquot.core.billing.tariffs import PricedDevice
from aliquot.service.access import check_runs, visibility_of
from aliquot.service.billing.estimates import actual
from aliquot.service.history.grids import SECOND_US, Curves, Grid, covering, fitting
from aliquot.service.history.measures import QUEUE_EVERY_S, WHOLE, MeasureKind, Sample
from aliquot.service.history.ports import (
    HeldAmount,
    HistoryStore,
    HistoryUnavailable,
    HoldingRecords,
    MaintenanceResult,
)
from aliquot.service.history.right_size import RightSizing
from aliquot.service.history.series_views import device_series, history_view, queue_series, usage_view
from aliquot.service.history.session_stats import HeldPart, gpu_stats, stats_view
from aliquot.service.history.usage import UsageSums, add_utilization, overlap
from aliquot.service.ports import Clock, Store
from aliquot.service.queries.queries import Queries
from aliquot.service.state.state import State
from aliquot.service.views.terms import microseconds, moment
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound
from aliquot_schema.identity.access import Visibility
from aliquot_schema.ids import AgentId, DeviceId, SessionId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.sessions import DEFAULT_POOL
from aliquot_schema.views.right_size import RightSizeView
from aliquot_schema.views.session_parts import session_label
from aliquot_schema.views.sessions import SessionView
from aliquot_schema.views.statistics import (
    POINTS_MAX,
    GpuStatsView,
    HistorySeriesView,
    HistoryView,
    SessionStatsView,
    UsageBy,
    UsageHistoryView,
)

SPAN_US: Final = 3600 * SECOND_US
"""Default time range."""
USAGE_SPAN_US: Final = 30 * 86_400 * SECOND_US
SPAN_US_MAX: Final = 20 * 365 * 86_400 * SECOND_US
MINUTE_S: Final = 60
STATS_POINTS: Final = 300
HELD_PART_MIN: Final = 0.5

UNWRITTEN_S_MAX: Final = 320
"""Age up to which measurements may be only in the memory of the leader: a window of five minutes, and the time to
write it."""
USAGE_QUERIES_MAX: Final = 8
"""Running and waiting usage queries. The running one holds up to 200,000 grants in memory."""


def span_of(since: datetime | None, until: datetime | None, *, now_us: int, usual_us: int) -> tuple[int, int]:
    """(since, until) in microseconds UTC.

    Raises:
        InvalidRequest: `since` is not before `until`, or the range exceeds 20 years.
    """
    until_us = now_us if until is None else microseconds(until)
    since_us = until_us - usual_us if since is None else microseconds(since)
    if not since_us < until_us:
        raise InvalidRequest("since: give a time before `until`", field="since")
    if until_us - since_us > SPAN_US_MAX or since_us < 0:
        raise InvalidRequest(
            f"since: the range may span at most {SPAN_US_MAX // (365 * 86_400 * SECOND_US)} years", field="since"
        )
    return since_us, until_us


def grid_of(span: tuple[int, int], *, points: int, least_s: float) -> Grid:
    """The finest grid with at most `points` steps.

    Raises:
        InvalidRequest: `points` is out of range.
    """
    if not 2 <= points <= POINTS_MAX:
        raise InvalidRequest(f"points: 2 to {POINTS_MAX}, not {points}", field="points")
    return fitting(*span, points=points, least_s=least_s)


def usage_grid_of(span: tuple[int, int], *, step: float | None) -> Grid:
    """The grid with the requested step in seconds; hours or days by default.

    Raises:
        InvalidRequest: the step is not a number of whole minutes, or makes too many points.
    """
    if step is None:
        return fitting(*span, points=200, least_s=3600.0)
    if not (MINUTE_S <= step <= SPAN_US_MAX / SECOND_US and step % MINUTE_S == 0):
        raise InvalidRequest("step: give whole minutes, in seconds", field="step")
    grid = covering(*span, step_s=round(step))
    if grid.points > POINTS_MAX:
        raise InvalidRequest(
            f"step: this makes {grid.points} points, at most {POINTS_MAX} are allowed; give a longer step", field="step"
        )
    return grid


class QueryLimiter:
    """Semaphore for memory-heavy queries: one runs, a bounded number wait."""

    def __init__(self, *, present_max: int) -> None:
        """
        Args:
            present_max: running and waiting queries together.
        """
        self._present_max = present_max
        self._present = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for the semaphore and hold it.

        Raises:
            HistoryUnavailable: too many queries wait.
        """
        if self._present >= self._present_max:
            raise HistoryUnavailable(
                f"{self._present_max} usage queries are already running or waiting; try again in a moment"
            )
        self._present += 1
        try:
            async with self._lock:
                yield
        finally:
            self._present -= 1


def held_span(held: Sequence[HeldAmount], *, now_us: int) -> tuple[int, int]:
    """From the first grant to the last release; the last minute if nothing was held yet."""
    if not held:
        return now_us - 60 * SECOND_US, now_us
    since_us = min(one.from_us for one in held)
    return since_us, max(since_us + SECOND_US, *(one.ended_us for one in held))


def while_held(
    curves: Mapping[str, Curves], held: Sequence[HeldAmount], *, grid: Grid, now_us: int
) -> dict[str, Curves]:
    """Measurements of the steps in which the device was held. A step longer than a minute needs at least half of its
    time held (of the newest step, of its time until now): otherwise it shows others, or an idle device."""
    found: dict[str, Curves] = {}
    starts = grid.start_us + np.arange(grid.points) * grid.step_us
    part_min = HELD_PART_MIN if grid.step_us > MINUTE_S * SECOND_US else 0.0
    wanted_us = np.minimum(grid.step_us, now_us - starts) * part_min
    for device_id, curve in curves.items():
        held_us = np.zeros(grid.points)
        for one in held:
            if one.device_id == device_id:
                first, overlaps = overlap(grid, one.from_us, one.ended_us)
                held_us[first : first + len(overlaps)] += overlaps
        outside = (held_us == 0) | (held_us < wanted_us)
        found[device_id] = Curves(
            mean=np.where(outside, np.nan, curve.mean), maximum=np.where(outside, np.nan, curve.maximum)
        )
    return found


class History:
    """Series come from the time-series store, which may be missing; usage from the record of holdings."""

    def __init__(
        self,
        *,
        state: State,
        queries: Queries,
        clock: Clock,
        leads: Callable[[], bool] = lambda: True,
        store: HistoryStore | None = None,
        book: HoldingRecords | None = None,
        sessions: Store | None = None,
    ) -> None:
        """
        Args:
            store: of the measurements; None = they are not kept.
            book: the record of holdings; None = there is none.
            sessions: of ended sessions; None = no right-size advice.
        """
        self._leads = leads
        self._state = state
        self._queries = queries
        self._clock = clock
        self._store = store
        self._book = book
        self.sizing: Final = None if sessions is None else RightSizing(store=sessions, clock=clock, gpus=self.gpus_of)
        self._usage_limiter = QueryLimiter(present_max=USAGE_QUERIES_MAX)

    @property
    def is_kept(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    @property
    def fault(self) -> str | None:
        """Why the store does not work now; None = it works."""
        return None if self._store is None else self._store.fault

    def take(self, sample: Sample) -> None:
        """Store a sample, if there is a store."""
        if self._store is not None:
            self._store.take(sample)

    async def maintain(self) -> MaintenanceResult:
        """See `HistoryStore.maintain`."""
        return await self._stored().maintain()

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
        found = await self._stored().gathered(MeasureKind.DEVICES, agent_id, grid, devices=wanted)
        return history_view(grid, await asyncio.to_thread(_series_list, agent_id, found), warning=self._missing(grid))

    async def queue_history(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, points: int
    ) -> HistoryView:
        """See `Historian`."""
        grid = self._grid(since, until, points=points, least_s=2 * QUEUE_EVERY_S)
        found = await self._stored().gathered(MeasureKind.QUEUE, "", grid)
        series = queue_series(found[WHOLE]) if WHOLE in found else iter(())
        return history_view(grid, series, warning=self._missing(grid))

    async def session_history(self, caller: Caller, session_id: str, *, points: int) -> HistoryView:
        """See `Historian`."""
        await self._session_seen(caller, session_id)
        now_us = self._clock.now_us()
        held = await self._record().of_session(SessionId(session_id), now_us)
        grid = self._grid_of(held_span(held, now_us=now_us), points=points)
        series: list[HistorySeriesView] = []
        for agent_id, curves in (await self._measured(held, grid, now_us=now_us)).items():
            series += await asyncio.to_thread(_series_list, agent_id, curves)
        return history_view(grid, series, warning=self._missing(grid))

    async def session_stats(self, caller: Caller, session_id: str) -> SessionStatsView:
        """See `Historian`."""
        session = await self._session_seen(caller, session_id)
        check_runs(session)
        now_us = self._clock.now_us()
        held = await self._record().of_session(SessionId(session_id), now_us)
        parts = [self._part(one) for one in held]
        measured: dict[tuple[AgentId, DeviceId], Curves] = {}
        try:
            grid, measured = await self._measured_parts(held, now_us=now_us)
            warning = self._missing(grid)
        except HistoryUnavailable as error:
            warning = error.message
        gpus = gpu_stats(parts, measured)
        whole = await self._record().spans_of_session(SessionId(session_id), now_us)
        spans = [(from_us / SECOND_US, ended_us / SECOND_US) for from_us, ended_us in whole]
        stats = stats_view(session, parts, gpus, spans=spans, now_s=now_us / SECOND_US, warning=warning)
        credited = min(stats.credited_gpu_hours / stats.gpu_hours, 1.0) if stats.gpu_hours else 0.0
        cost = actual(map(self._priced, held), prices=self._state.policy.prices, credited_part=credited)
        return replace(stats, right_size=await self._right_size(caller, session), cost=cost)

    async def _right_size(self, caller: Caller, session: SessionView) -> RightSizeView | None:
        """Advice from all runs of the owner, which only the owner and operators may see."""
        if self.sizing is None or (caller.user != session.owner and caller.role < Role.OPERATOR):
            return None
        return await self.sizing.advice_of(SessionId(session.id))

    async def gpus_of(self, session_id: SessionId) -> tuple[GpuStatsView, ...]:
        """What a session used of its GPUs.

        Raises:
            HistoryUnavailable: measurements cannot be read.
        """
        now_us = self._clock.now_us()
        held = await self._record().of_session(session_id, now_us)
        _, measured = await self._measured_parts(held, now_us=now_us)
        return gpu_stats([self._part(one) for one in held], measured)

    async def _measured_parts(
        self, held: Sequence[HeldAmount], *, now_us: int
    ) -> tuple[Grid, dict[tuple[AgentId, DeviceId], Curves]]:
        grid = self._grid_of(held_span(held, now_us=now_us), points=STATS_POINTS)
        found: dict[tuple[AgentId, DeviceId], Curves] = {}
        for agent_id, curves in (await self._measured(held, grid, now_us=now_us)).items():
            found |= {(agent_id, DeviceId(device_id)): curve for device_id, curve in curves.items()}
        return grid, found

    async def usage_history(
        self, caller: Caller, *, by: UsageBy, since: datetime | None, until: datetime | None, step: float | None
    ) -> UsageHistoryView:
        """See `Historian`."""
        now_us = self._clock.now_us()
        grid = usage_grid_of(span_of(since, until, now_us=now_us, usual_us=USAGE_SPAN_US), step=step)
        async with self._usage_limiter.slot():
            return await self._usage(grid, by, until_us=min(grid.end_us, now_us))

    async def _session_seen(self, caller: Caller, session_id: str) -> SessionView:
        """A session whose measurements the caller may see."""
        session = await self._queries.session(caller, session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id[:80]}", kind="session", id=session_id[:80])
        if visibility_of(caller, owner=session.owner, project=session.project) < Visibility.MEMBER:
            whose, hint = f"{session_label(session)} belongs to {session.owner}", caller.scope_hint(Role.OPERATOR)
            raise Forbidden(f"{whose}; only members of its project may read its history{hint}")
        return session

    async def _measured(
        self, held: Sequence[HeldAmount], grid: Grid, *, now_us: int
    ) -> dict[AgentId, dict[str, Curves]]:
        """Measurements of devices while they were held, by agent and device."""
        found: dict[AgentId, dict[str, Curves]] = {}
        for agent_id in dict.fromkeys(one.agent_id for one in held):
            own = [one for one in held if one.agent_id == agent_id]
            wanted = frozenset(one.device_id for one in own)
            curves = await self._stored().gathered(MeasureKind.DEVICES, agent_id, grid, devices=wanted)
            found[agent_id] = while_held(curves, own, grid=grid, now_us=now_us)
        return found

    def _part(self, held: HeldAmount) -> HeldPart:
        layout = self._state.layouts.get(held.agent_id)
        device = None if layout is None else layout.devices.get(held.device_id)
        return HeldPart(
            agent_id=held.agent_id,
            device_id=held.device_id,
            share=self._share(held),
            memory_bytes=0 if device is None else device.memory_bytes,
            from_s=held.from_us / SECOND_US,
            held_s=(held.ended_us - held.from_us) / SECOND_US,
        )

    def _priced(self, held: HeldAmount) -> tuple[PricedDevice, int, int]:
        """A held part of a device as it is priced, with the time since when and until when."""
        layout, agent = self._state.layouts.get(held.agent_id), self._state.agents.get(held.agent_id)
        device = None if layout is None else layout.devices.get(held.device_id)
        pool, model = DEFAULT_POOL if agent is None else agent.pool, "" if device is None else device.model
        return PricedDevice(round(self._share(held) * MILLI), model, pool), held.from_us, held.ended_us

    def _missing(self, grid: Grid) -> str | None:
        """Why measurements may be missing; None = they are complete."""
        if self._leads() or grid.end_us < self._clock.now_us() - UNWRITTEN_S_MAX * SECOND_US:
            return self.fault
        words = (
            f"this server follows: measurements of the last {UNWRITTEN_S_MAX // 60} minutes may be known only to the "
            "leader"
        )
        return words if self.fault is None else f"{self.fault}; {words}"

    async def _usage(self, grid: Grid, by: UsageBy, *, until_us: int) -> UsageHistoryView:
        sums = UsageSums(grid, key=lambda held: held.owner if by is UsageBy.USER else held.project, share=self._share)
        record = self._record()
        async for page in record.between(grid.start_us, until_us):
            await asyncio.to_thread(sums.add, page)
        warning = await self._add_utilization(sums)
        if grid.start_us < (whole_us := await record.whole_since_us()):
            removed = f"usage that ended before {moment(whole_us):%Y-%m-%d} may be missing: it was archived or removed"
            warning = removed if warning is None else f"{removed}; {warning}"
        return usage_view(grid, await asyncio.to_thread(sums.series), warning=warning)

    async def _add_utilization(self, sums: UsageSums) -> str | None:
        """Add utilization to the sums; returns why some of it may be missing."""
        if self._store is None:
            return "this server keeps no measurements, so utilization is missing"
        try:
            warning = await add_utilization(sums, store=self._store)
        except HistoryUnavailable as error:
            return error.message
        return warning or self.fault

    def _grid(self, since: datetime | None, until: datetime | None, *, points: int, least_s: float = 0.0) -> Grid:
        span = span_of(since, until, now_us=self._clock.now_us(), usual_us=SPAN_US)
        return self._grid_of(span, points=points, least_s=least_s)

    def _grid_of(self, span: tuple[int, int], *, points: int, least_s: float = 0.0) -> Grid:
        return grid_of(span, points=points, least_s=max(least_s, self._stored().least_step_s(span[0])))

    def _share(self, held: HeldAmount) -> float:
        layout = self._state.layouts.get(held.agent_id)
        device = None if layout is None else layout.devices.get(held.device_id)
        return held.amount * budget_cost(held.slot, device=device) / (MILLI if device is None else device.budget)

    def _stored(self) -> HistoryStore:
        if self._store is None:
            raise HistoryUnavailable("this server keeps no history")
        return self._store

    def _record(self) -> HoldingRecords:
        if self._book is None:
            raise HistoryUnavailable("this server keeps no record of held devices")
        return self._book


def _series_list(agent_id: str, curves: Mapping[str, Curves]) -> list[HistorySeriesView]:
    """All series as a list; called in a thread, because there may be many numbers."""
    return list(device_series(agent_id, curves))
