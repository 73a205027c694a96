"""The published protocol: jobs arrive one by one and never end; one that does not fit is dropped."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.core.placement.cluster_arrays import ClusterArrays
from aliquot.core.placement.scoreboard import PlacementRequest, Scoreboard
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import RequestClass, RequestMix
from placement_traces import Job, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one replay. Percent are of all accelerators."""

    pct_at_100: float
    """Allocated when 100 % of the capacity had arrived."""
    pct_at_end: float
    placed: int
    seconds: float


def mix_of(trace: Trace) -> RequestMix:
    """Frequency of each class among jobs."""
    return RequestMix.of(Counter(job.request for job in trace.jobs.values()))


def replay(
    trace: Trace, order: Sequence[int], *, strategy: str, seed: int = 0, mix: RequestMix | None = None
) -> Outcome:
    """Replay the jobs in this order; the strategy expects `mix`, by default that of the trace."""
    cluster = ClusterArrays(trace.nodes)
    mix = mix or mix_of(trace)
    board = Scoreboard(cluster, making(strategy)(mix, size_max=int(cluster.dev_size.max())), seed=seed)
    asks = {job: _ask(job, cluster, trace) for job in set(trace.jobs.values())}
    capacity = trace.capacity_milli
    arrived = allocated = placed = 0
    at_100: int | None = None
    began = time.perf_counter()
    for number in order:
        job = trace.jobs[number]
        milli = job.request.devices * job.request.milli
        arrived += milli
        if _put(board, cluster, asks[job]):
            allocated += milli
            placed += 1
        if at_100 is None and arrived >= capacity:
            at_100 = allocated
    seconds = time.perf_counter() - began
    check(cluster, trace, allocated=allocated)
    return Outcome(
        pct_at_100=100 * (allocated if at_100 is None else at_100) / capacity,
        pct_at_end=100 * allocated / capacity,
        placed=placed,
        seconds=seconds,
    )


def columns_for(cluster: ClusterArrays, row: int, request: RequestClass, *, column: int | None) -> list[int]:
    """The devices of a row for a request: the chosen one, or the tightest that suffice."""
    if request.devices == 1 and column is not None:
        return [column]
    free = cluster.dev_free[row]
    fitting = [int(index) for index in np.argsort(free, kind="stable") if free[index] >= request.milli]
    return fitting[: request.devices]


def check(cluster: ClusterArrays, trace: Trace, *, allocated: int) -> None:
    """Nothing was allocated twice, and allocations match the counts."""
    assert (cluster.dev_free >= 0).all()
    assert (cluster.cpu_free >= 0).all()
    assert (cluster.mem_free >= 0).all()
    assert int(cluster.dev_free.sum()) == trace.capacity_milli - allocated


def _ask(job: Job, cluster: ClusterArrays, trace: Trace) -> PlacementRequest:
    if not job.models:
        return PlacementRequest(request=job.request)
    allowed = np.array([trace.model_of[node.name] in job.models for node in cluster.nodes])
    return PlacementRequest(request=job.request, usable=np.broadcast_to(allowed[:, None], cluster.dev_free.shape))


def _put(board: Scoreboard, cluster: ClusterArrays, ask: PlacementRequest) -> bool:
    choice = board.best(ask)
    if choice is None:
        return False
    request = ask.request
    columns = columns_for(cluster, choice.row, request, column=choice.column)
    cluster.take(choice.row, cpu=request.cpu, mem=request.mem, milli=request.milli, columns=columns)
    return True
