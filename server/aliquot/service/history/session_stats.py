"""Session statistics: what a session used of what it held, and one line of advice for the next one like it.

GPUs come from the time series of their devices; CPU and host memory from what agents measured of the processes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from aliquot.service.history.grids import Curves, Floats
from aliquot.service.history.measures import MeasureKind, index_of
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.resources.slots import parse_amount
from aliquot_schema.resources.units import format_duration, size_text
from aliquot_schema.states import SessionState
from aliquot_schema.views.sessions import KernelView, SessionView
from aliquot_schema.views.statistics import GpuStatsView, HostStatsView, SessionStatsView

IDLE_PCT: Final = 5.0
"""A GPU with a lower mean use was not used."""
LOW_PCT: Final = 40.0
"""Below this mean use, a GPU could be shared."""
SMALL_SHARE: Final = 0.5
"""Of the memory held: a smaller peak fits half of it."""
LARGE_SHARE: Final = 0.95
LIMIT_PARTS: Final = 3
"""A run shorter than this part of its time limit could have a shorter one."""
MEMORY_SMALL_BYTES: Final = 1 << 30
"""Less host memory than this is not worth a word."""
MEMORY_MARGIN: Final = 1.2
"""Of the most memory in use, as advice: a peak between two measurements is missed."""
BUSY_SHARE: Final = 0.9
"""Of the CPUs held: a higher mean leaves none to wait for."""
SHORT_S: Final = 300.0
"""Shorter runs are not judged."""
KEEPING: Final = frozenset(
    {SessionState.RUNNING, SessionState.PREEMPTING, SessionState.COMPLETED, SessionState.CANCELED}
)
"""States in which the newest attempt has lost no work."""
_USE: Final = index_of(MeasureKind.DEVICES, "utilization")
_MEMORY: Final = index_of(MeasureKind.DEVICES, "memory_used")


Span = tuple[float, float]
"""(from, until) in seconds since the epoch."""


class HeldPart(Struct, frozen=True, kw_only=True):
    """A part of a device that a session held."""

    agent_id: AgentId
    device_id: DeviceId
    share: float
    """Of the device, 0 to 1."""
    memory_bytes: int
    """Of the whole device; 0 = unknown."""
    from_s: float
    """Since the epoch."""
    held_s: float


def held_s(parts: Iterable[HeldPart]) -> float:
    """Time in which at least one of the parts was held."""
    return _covered_s((part.from_s, part.from_s + part.held_s) for part in parts)


def _covered_s(spans: Iterable[Span]) -> float:
    total, until_s = 0.0, -math.inf
    for from_s, ends_s in sorted(spans):
        total += max(ends_s - max(from_s, until_s), 0.0)
        until_s = max(until_s, ends_s)
    return total


def waited_s(session: SessionView, spans: Iterable[Span], *, now_s: float) -> float:
    """Time from the submission to the newest start or now, less the time in which earlier attempts held devices."""
    until = session.started_at or session.scheduled_at or session.ended_at
    until_s = now_s if until is None else until.timestamp()
    granted_s = until_s if session.scheduled_at is None else session.scheduled_at.timestamp()
    queued_s = session.queued_at.timestamp()  # of a retried session, the time of the retry
    ran_s = _covered_s((from_s, min(ends_s, granted_s)) for from_s, ends_s in spans if queued_s <= from_s < granted_s)
    return max(until_s - queued_s - ran_s, 0.0)


def productive_s(session: SessionView, *, now_s: float) -> float:
    """Run time of a session whose work is not lost.

    While the newest attempt runs, and when it completed or was canceled, all of its run time counts, and the work that
    it continued. After any other end, only what the last acknowledged checkpoint holds.
    """
    if session.state not in KEEPING or session.started_at is None:
        return session.kept
    ended_s = now_s if session.ended_at is None else session.ended_at.timestamp()
    return session.kept_at_start + max(ended_s - session.started_at.timestamp(), 0.0)


def gpu_stats(parts: Sequence[HeldPart], curves: Mapping[tuple[AgentId, DeviceId], Curves]) -> tuple[GpuStatsView, ...]:
    """Use of each device while the session held it; of several grants of one device the largest share counts.

    Args:
        curves: measurements of the devices while they were held.
    """
    found: dict[tuple[AgentId, DeviceId], HeldPart] = {}
    for part in parts:
        key = part.agent_id, part.device_id
        if key not in found or part.share > found[key].share:
            found[key] = part
    return tuple(_gpu(part, curves.get(key)) for key, part in found.items())


def _gpu(part: HeldPart, curve: Curves | None) -> GpuStatsView:
    memory_gb = part.memory_bytes * part.share / 1e9 if part.memory_bytes else None
    use = memory = peak = None
    if curve is not None:
        use = _reduced(curve.mean[_USE], np.nanmean)
        peak = _reduced(curve.maximum[_USE], np.nanmax)
        memory = _reduced(curve.maximum[_MEMORY], np.nanmax)
    return GpuStatsView(
        agent_id=part.agent_id,
        device_id=part.device_id,
        share=part.share,
        utilization=use,
        utilization_max=peak,
        memory_gb=None if memory_gb is None else round(memory_gb, 3),
        memory_peak_gb=None if memory is None else round(memory / 1e9, 3),
    )


def _reduced(values: Floats, reduce: Callable[[Floats], Any]) -> float | None:
    return None if np.isnan(values).all() else round(float(reduce(values)), 2)


def host_stats(kernels: Iterable[KernelView], *, now_s: float) -> tuple[HostStatsView, ...]:
    """CPU and host memory of each kernel that was measured.

    Args:
        now_s: seconds since the epoch.
    """
    measured = ((kernel, kernel.host_use) for kernel in kernels)
    return tuple(_host(kernel, use, now_s=now_s) for kernel, use in measured if use is not None)


def _host(kernel: KernelView, use: HostUse, *, now_s: float) -> HostStatsView:
    ended_s = now_s if kernel.ended_at is None else kernel.ended_at.timestamp()
    ran_s = 0.0 if kernel.started_at is None else ended_s - kernel.started_at.timestamp()
    runs = kernel.ended_at is None
    cpu_held, memory_held = _held(kernel, "cpu"), _held(kernel, "mem")
    return HostStatsView(
        rank=kernel.rank,
        agent_id=kernel.agent_id,
        cpu=_cpus(use.cpu_milli) if runs else None,
        cpu_mean=round(use.cpu_ms / 1000 / ran_s, 3) if ran_s > 0 else None,
        cpu_max=_cpus(use.cpu_milli_max),
        cpu_held=float(cpu_held) if cpu_held else None,
        cpu_seconds=use.cpu_ms / 1000,
        memory=use.memory_bytes if runs else None,
        memory_peak=use.memory_bytes_max,
        memory_held=memory_held or None,
    )


def _cpus(milli: int | None) -> float | None:
    return None if milli is None else milli / 1000


def _held(kernel: KernelView, slot: str) -> int:
    """CPUs, or bytes of memory, of a kernel's lease; 0 = none."""
    amounts = (part.amount for grant in kernel.resource_spec if grant.slot == slot for part in grant.devices)
    parsed = (parse_amount(slot, amount) for amount in amounts)
    return sum(amount for amount in parsed if isinstance(amount, int))


def stats_view(
    session: SessionView,
    parts: Sequence[HeldPart],
    gpus: tuple[GpuStatsView, ...],
    *,
    spans: Iterable[Span],
    now_s: float,
    warning: str | None,
) -> SessionStatsView:
    """The statistics of a session so far.

    Args:
        spans: when it held devices of any kind.
        now_s: seconds since the epoch.
    """
    began = session.started_at or session.scheduled_at
    ended_s = now_s if session.ended_at is None else session.ended_at.timestamp()
    ran_s = None if began is None else max(ended_s - began.timestamp(), 0.0)
    hosts = host_stats(session.kernels, now_s=now_s)
    held, productive = held_s(parts), productive_s(session, now_s=now_s)
    return SessionStatsView(
        session_id=session.id,
        state=session.state,
        wait=waited_s(session, spans, now_s=now_s),
        ran=ran_s,
        time_limit=session.time_limit,
        gpu_hours=round(sum(part.share * part.held_s for part in parts) / 3600, 4),
        lost_gpu_hours=0.0 if session.work is None else round(session.work.lost_gpu_seconds / 3600, 4),
        credited_gpu_hours=0.0 if session.work is None else round(session.work.credited_gpu_seconds / 3600, 4),
        held=round(held, 3),
        productive=round(min(productive, held), 3),
        ettr=round(min(productive / held, 1.0), 4) if held else None,
        gpus=gpus,
        hosts=hosts,
        advice=advice(session, gpus, hosts, ran_s=ran_s),
        warning=warning,
    )


def advice(
    session: SessionView, gpus: Sequence[GpuStatsView], hosts: Sequence[HostStatsView], *, ran_s: float | None
) -> str:
    """One line for the next session like this one; the most valuable first."""
    if ran_s is None:
        return "It has not run yet."
    if ran_s < SHORT_S:
        return f"It ran for less than {format_duration(SHORT_S)}, too short to judge."
    found = _gpu_advice(session, gpus, hosts) or _host_advice(hosts)
    if found is not None:
        return found
    has_finished = session.state is SessionState.COMPLETED  # what failed or was canceled may need longer
    if session.time_limit is not None and has_finished and ran_s * LIMIT_PARTS < session.time_limit:
        limit, ran = format_duration(session.time_limit), format_duration(round(ran_s))
        return f"It ran {ran} of its limit of {limit}: a shorter --time-limit lets it start in smaller gaps."
    if gpus and all(gpu.utilization is None for gpu in gpus):
        return "Its GPUs were not measured."
    return "What it used matches what it requested."


def _gpu_advice(session: SessionView, gpus: Sequence[GpuStatsView], hosts: Sequence[HostStatsView]) -> str | None:
    measured = [gpu for gpu in gpus if gpu.utilization is not None]
    idle = [gpu for gpu in measured if (gpu.utilization or 0.0) < IDLE_PCT]
    if measured and len(idle) == len(gpus):
        return "Its GPUs were hardly used: request none, or check that the program finds them."
    if idle:
        return _idle_advice(session, len(gpus), len(gpus) - len(idle))
    if any(_part_of_memory(gpu) > LARGE_SHARE for gpu in gpus):
        return "It used nearly all of its GPU memory: request no less, and expect that a larger input does not fit."
    slow = [gpu for gpu in measured if (gpu.utilization or 0.0) < LOW_PCT]
    if slow and len(slow) == len(gpus) and (busy := next(filter(_uses_all_cpus, hosts), None)) is not None:
        wanted = math.ceil(2 * (busy.cpu_held or 0))
        return f"Its GPUs waited while all of its CPUs were in use: request more CPUs (-r cpu={wanted})."
    if measured and len(measured) == len(gpus) and _fits_half(measured):
        return "Half of each GPU would do: it used less than half of the memory and of the time (-r gpu=0.5)."
    return None


def _idle_advice(session: SessionView, count: int, used: int) -> str:
    """About a session that used only some of the GPUs of all its kernels and attempts."""
    words = f"{count - used} of its {count} GPUs were hardly used"
    if session.attempt > 1:
        return f"{words}, counted over its {session.attempt} attempts."
    if session.cluster_size == 1:
        return f"{words}: {used} would do (-r gpu={used})."
    if count == session.cluster_size:
        return f"{words}: --cluster-size {used} would do."
    return f"{words}."


def _host_advice(hosts: Sequence[HostStatsView]) -> str | None:
    """About the rank that used the most: every rank holds as much as the others."""
    memory = max((host.memory_peak for host in hosts if host.memory_peak is not None), default=None)
    memory_held = max((host.memory_held or 0 for host in hosts), default=0)
    if memory is not None and memory > LARGE_SHARE * memory_held > 0:
        return f"It used {size_text(memory)} of its {size_text(memory_held)} of memory: request more (-r mem=SIZE)."
    cpus = max((host.cpu_max for host in hosts if host.cpu_max is not None), default=None)
    cpu_held = max((host.cpu_held or 0.0 for host in hosts), default=0.0)
    if cpus is not None and cpu_held > 1 and cpus < SMALL_SHARE * cpu_held:
        wanted = max(math.ceil(cpus), 1)
        return f"It used at most {cpus:.1f} of its {cpu_held:g} CPUs: request fewer (-r cpu={wanted})."
    if memory is not None and memory < SMALL_SHARE * memory_held and memory_held > MEMORY_SMALL_BYTES:
        used, wanted = size_text(memory), math.ceil(memory * MEMORY_MARGIN / (1 << 30))
        return f"It used at most {used} of its {size_text(memory_held)} of memory: request less (-r mem={wanted}g)."
    return None


def _uses_all_cpus(host: HostStatsView) -> bool:
    return host.cpu_held is not None and host.cpu_mean is not None and host.cpu_mean > BUSY_SHARE * host.cpu_held


def _part_of_memory(gpu: GpuStatsView) -> float:
    """The most memory in use, of what it held; 0 where it is unknown, as on a GPU shared with other sessions."""
    if not gpu.memory_gb or gpu.memory_peak_gb is None or gpu.share < 1:
        return 0.0
    return gpu.memory_peak_gb / gpu.memory_gb


def _fits_half(gpus: Iterable[GpuStatsView]) -> bool:
    """Whether whole GPUs were used so little that halves would do."""
    return all(
        gpu.share == 1
        and gpu.utilization is not None
        and gpu.utilization < LOW_PCT
        and gpu.memory_peak_gb is not None
        and 0 < _part_of_memory(gpu) < SMALL_SHARE
        for gpu in gpus
    )
