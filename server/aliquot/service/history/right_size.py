"""Right-size advice: reads what the last runs of a command used, and what the next one needs.

Runs of one user, program and number of GPUs are compared; see `core.right_size`. What an ended run used does not change
any more, so that it is read once and kept.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.model.snapshot import request_of
from aliquot.core.prediction import Workload
from aliquot.core.right_size import RUNS_MIN, NextRequest, PastRun, RequestPart, SizeAdvice, right_size, share_used
from aliquot.core.workloads import ran_ms, workload_of
from aliquot.service.history.ports import HistoryUnavailable
from aliquot.service.history.session_stats import IDLE_PCT, SHORT_S
from aliquot.service.ports import Clock, SessionQuery, Store
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.requests import SessionFilter, SessionOrder
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.resources.slots import MILLI, is_accelerator, is_size
from aliquot_schema.resources.units import format_duration, size_text
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.right_size import RightSizeFigure, RightSizeKind, RightSizeView
from aliquot_schema.views.statistics import GpuStatsView

SESSIONS_MAX: Final = 300
"""Ended sessions of a user that are searched for runs of the command, the newest."""
RUNS_READ: Final = 40
"""Runs of a command whose measurements are read, the newest."""
KEPT_MAX: Final = 5_000
SETTLED_US: Final = 600_000_000
"""Measurements of a session are complete this long after its end."""
WEEK_US: Final = 7 * 86_400_000_000
COMMANDS_MAX: Final = 5
"""Commands in the notice of a week."""
ENDED_BY_ITSELF: Final = (SessionState.COMPLETED, SessionState.FAILED)
Command = tuple[str | None, int]
"""Program, and accelerators of all kernels in milli."""
Gpus = Callable[[SessionId], Awaitable[Sequence[GpuStatsView]]]


class RightSizing:
    """Advice for sessions. Every server gives it."""

    def __init__(self, *, store: Store, clock: Clock, gpus: Gpus) -> None:
        """
        Args:
            gpus: what a session used of its GPUs; raises `HistoryUnavailable`.
        """
        self._store = store
        self._clock = clock
        self._gpus = gpus
        self._kept: OrderedDict[tuple[SessionId, int | None], PastRun] = OrderedDict()
        """By session and end: a session that is retried ends again."""
        self._turn = asyncio.Lock()

    async def advice(self, session: Session) -> RightSizeView | None:
        """Advice for a session like this one, which need not be submitted; None if too few runs are known.

        Raises:
            StoreUnavailable.
        """
        workload = workload_of(session)
        if not _is_named(workload):
            return None
        past = await self._ended(session.owner)
        return await self._view(session, [one for one in past if _is_like(one, workload)])

    async def advice_of(self, session_id: SessionId) -> RightSizeView | None:
        """Advice for the next session like a submitted one; None if it is not stored, or too few runs are known.

        Raises:
            StoreUnavailable.
        """
        for record in await self._store.session_records(session_id):
            if isinstance(record, Session):
                return await self.advice(record)
        return None

    async def weekly(self, user: UserId) -> tuple[str, ...]:
        """What the commands of a user needed that ended in the last week; a sentence each, at most `COMMANDS_MAX`.

        Raises:
            StoreUnavailable.
        """
        since_us = self._clock.now_us() - WEEK_US
        past = await self._ended(user)
        newest: dict[Command, Session] = {}
        for session in reversed(past):
            if (session.ended_us or 0) >= since_us:
                newest.setdefault(_command(workload_of(session)), session)
        found: list[str] = []
        for session in newest.values():
            workload = workload_of(session)
            view = await self._view(session, [one for one in past if _is_like(one, workload)])
            if view is not None and view.figures and len(found) < COMMANDS_MAX:
                found.append(view.message)
        return tuple(found)

    async def _ended(self, owner: UserId) -> list[Session]:
        """The ended sessions of a user, by their end."""
        where = SessionFilter(owners=(owner,), states=ENDED_BY_ITSELF)
        query = SessionQuery(where=where, order=SessionOrder.ENDED_DESC, limit=SESSIONS_MAX)
        found = await self._store.sessions(query)
        return [session for session in reversed(found) if ran_ms(session) is not None]

    async def _view(self, session: Session, past: Sequence[Session]) -> RightSizeView | None:
        workload, is_gang = workload_of(session), session.spec.cluster_size > 1
        async with self._turn:
            runs = [await self._run(one) for one in past[-RUNS_READ:]]
        if not _is_named(workload) or len(runs) < RUNS_MIN:
            return None
        command = f"{workload.program} on {_gpus_text(workload.milli)}"
        figures = tuple(_figure(one, command, is_gang=is_gang) for one in right_size(runs, _wanted(session)))
        said = " ".join(figure.message for figure in figures)
        return RightSizeView(
            command=command,
            runs=len(runs),
            figures=figures,
            message=said or _no_change(runs, command, holds_gpus=workload.milli > 0),
        )

    async def _run(self, session: Session) -> PastRun:
        key = session.id, session.ended_us
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        try:
            gpus, is_settled = await self._gpus(session.id), self._is_settled(session)
        except HistoryUnavailable:
            gpus, is_settled = (), False
        run = replace(_past_run(session, gpus), host_memory_peak=await self._host_memory_peak(session.id))
        if is_settled:
            self._kept[key] = run
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return run

    async def _host_memory_peak(self, session_id: SessionId) -> int | None:
        """Most host memory of a kernel of a session, in bytes; None = not measured."""
        records = await self._store.session_records(session_id)
        uses = [record.host_use for record in records if isinstance(record, Kernel)]
        return max((use.memory_bytes_max for use in uses if use is not None and use.memory_bytes_max), default=None)

    def _is_settled(self, session: Session) -> bool:
        return session.ended_us is not None and self._clock.now_us() - session.ended_us >= SETTLED_US


def _is_named(workload: Workload) -> bool:
    """Whether the program is known; a script that begins with a comment has none."""
    return workload.program is not None and any(sign.isalnum() for sign in workload.program)


def _no_change(runs: Sequence[PastRun], command: str, *, holds_gpus: bool) -> str:
    """What is said where no figure would change."""
    past = f"the last {len(runs)} runs of {command}"
    if holds_gpus and all(run.gpus_used is None for run in runs):
        return f"How much {past} used their GPUs is not known."
    return f"What is requested matches what {past} used."


def _is_like(session: Session, workload: Workload) -> bool:
    return _command(workload_of(session)) == _command(workload)


def _command(workload: Workload) -> Command:
    """What runs of one user are compared by, whatever their time limits are."""
    return workload.program, workload.milli


def _wanted(session: Session) -> NextRequest:
    sizes = {slot: amount for slot, amount in request_of(session) if is_size(slot)}
    memory = [amount for slot, amount in sizes.items() if is_accelerator(slot)]
    return NextRequest(
        milli=workload_of(session).milli,
        memory=max(memory, default=None),
        host_memory=max((amount for slot, amount in sizes.items() if not is_accelerator(slot)), default=None),
        limit_ms=session.spec.time_limit_ms,
    )


def _past_run(session: Session, gpus: Sequence[GpuStatsView]) -> PastRun:
    duration_ms, milli = ran_ms(session) or 0, workload_of(session).milli
    is_cut = session.failure is not None and session.failure.code == "time_limit"
    is_measured = bool(gpus) and all(gpu.utilization is not None for gpu in gpus) and duration_ms >= 1000 * SHORT_S
    if not is_measured:
        return PastRun(duration_ms=duration_ms, is_cut=is_cut, milli=milli)
    # What was measured on a shared GPU includes its other holders.
    whole = [gpu for gpu in gpus if gpu.share == 1 and gpu.memory_peak_gb is not None]
    peaks = [round((gpu.memory_peak_gb or 0.0) * 1e9) for gpu in whole]
    parts = [
        ((gpu.utilization or 0.0) / 100, (gpu.memory_peak_gb or 0.0) / gpu.memory_gb) for gpu in whole if gpu.memory_gb
    ]
    return PastRun(
        duration_ms=duration_ms,
        is_cut=is_cut,
        milli=milli,
        gpus_used=sum((gpu.utilization or 0.0) >= IDLE_PCT for gpu in gpus),
        share_used=share_used(parts) if len(parts) == len(gpus) else None,
        memory_peak=max(peaks) if len(peaks) == len(gpus) else None,
        memory_total=min((round(gpu.memory_gb * 1e9) for gpu in whole if gpu.memory_gb), default=None),
    )


_KINDS: Final = {measure: RightSizeKind(measure.value) for measure in RequestPart}


def _figure(sizing: SizeAdvice, command: str, *, is_gang: bool) -> RightSizeFigure:
    advised, largest = _text(sizing.measure, sizing.amount), _text(sizing.measure, sizing.largest)
    past = f"the last {sizing.runs} runs of {command}"
    words = " ".join((*_sentence(sizing.measure, past, advised, largest, is_gang=is_gang), _hits(sizing)))
    return RightSizeFigure(
        kind=_KINDS[sizing.measure],
        advised=advised,
        largest=largest,
        runs=sizing.runs,
        enough=sizing.enough,
        tested=sizing.tested,
        message=words,
    )


def _sentence(measure: RequestPart, past: str, advised: str, largest: str, *, is_gang: bool) -> Iterator[str]:
    if measure is RequestPart.GPUS:
        how = "in all kernels together" if is_gang else f"(-r gpu={advised})"
        yield f"Of the GPUs of {past}, at most {largest} were used: request {advised} {how}"
    elif measure is RequestPart.SHARE:
        yield f"A share of {advised} would do for {past}, which used at most {largest} of the GPU (-r gpu={advised})"
    elif measure is RequestPart.GPU_MEMORY:
        yield f"{advised} of memory of each GPU would do: {past} used at most {largest}"
    elif measure is RequestPart.MEMORY:
        yield f"{advised} of host memory would do: {past} used at most {largest} each"
    else:
        yield f"The longest of {past} took {largest}: a time limit of {advised} would do"


def _hits(sizing: SizeAdvice) -> str:
    if not sizing.tested:
        return "(not yet tested on later runs)."
    return f"(enough for {sizing.enough} of {sizing.tested} later runs, advised before each)."


def _text(measure: RequestPart, amount: int) -> str:
    if measure is RequestPart.TIME_LIMIT:
        return format_duration(round(amount / 1000) if amount >= 1000 else amount / 1000)
    if measure in (RequestPart.GPU_MEMORY, RequestPart.MEMORY):
        return size_text(amount)
    return f"{amount / MILLI:g}"


def _gpus_text(milli: int) -> str:
    if not milli:
        return "no GPU"
    return f"{milli / MILLI:g} GPU" if milli <= MILLI else f"{milli / MILLI:g} GPUs"
