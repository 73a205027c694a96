"""Random cluster simulations: arrivals, run times and rights of sessions; small enough for many passes."""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, startable
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import ArrayTasks, Priority
from allocation_devices import ask, gpus
from core_cluster import on, row
from core_simulation import ClusterSimulation, Job

SECOND_US: Final = 1_000_000
START_US: Final = 1_793_500_000_000_000
"""In November 2026."""
ASKED: Final[list[dict[str, str]]] = [
    {"cuda_device": "1"},
    {"cuda_device": "2"},
    {"cuda_device": "2"},
    {"cuda_device": "3"},
    {"cuda_shares": "0.5"},
    {"cuda_shares": "0.3"},
]
PARALLEL: Final = 2


@st.composite
def jobs(draw: st.DrawFn, name: str, *, whole: bool = False, plain: bool = False) -> Job:
    """A session; optionally with whole GPUs only, or without arrays and fallbacks."""
    asked = draw(st.sampled_from(ASKED[:4] if whole else ASKED))
    limit_s = draw(st.sampled_from([10, 20, 30, 60]))
    came_s = draw(st.sampled_from([0, 0, 0, 7, 9, 25]))
    plain_row = row(name, at=START_US + came_s * SECOND_US, kernels=draw(st.sampled_from([1, 1, 1, 1, 2])), **asked)
    timed = replace(
        plain_row,
        owner=UserId(draw(st.sampled_from("ab"))),
        project=ProjectId(draw(st.sampled_from("pq"))),
        priority=draw(st.sampled_from(Priority)),
        estimate_ms=draw(st.sampled_from([None, 1000, 40_000])),
        limit_ms=limit_s * 1000,
        is_preemptible=draw(st.booleans()),
    )
    lasts_ms = draw(st.integers(limit_s // 3, limit_s)) * 1000
    if plain or draw(st.integers(0, 2)):
        return Job(row=timed, duration_ms=lasts_ms)
    return draw(st.sampled_from([_array, _shrinking]))(timed, lasts_ms)


@st.composite
def overrunning_jobs(draw: st.DrawFn, name: str) -> Job:
    """A plain session, mostly without a limit, that may run much longer than planned."""
    job = draw(jobs(name, plain=True))
    if draw(st.integers(0, 3)) == 0:
        return job
    came_us = START_US + draw(st.sampled_from([0, 5, 25, 70, 130, 300, 700])) * SECOND_US
    free = replace(job.row, queued_us=came_us, limit_ms=None)
    return Job(row=free, duration_ms=draw(st.sampled_from([2, 9, 30, 65, 100, 250, 800])) * 1000, overruns=True)


@st.composite
def simulations(
    draw: st.DrawFn, policy: Policy, *, whole: bool = False, plain: bool = False, overruns: bool = False
) -> ClusterSimulation:
    """A small cluster of GPUs, and up to nine sessions that arrive within half a minute.

    Args:
        overruns: sessions are plain, arrive within twelve minutes, and may exceed their guards.
    """
    sizes = draw(st.lists(st.sampled_from([2, 3, 4, 4]), min_size=1, max_size=2))
    agents: tuple[AgentRow, ...] = tuple(on(f"x{number}", gpus(size)) for number, size in enumerate(sizes))
    names = [f"s{number}" for number in range(draw(st.integers(4, 9)))]
    return ClusterSimulation(
        agents=agents,
        policy=policy,
        jobs=[draw(overrunning_jobs(name) if overruns else jobs(name, whole=whole, plain=plain)) for name in names],
        now_us=START_US,
        quotas={} if plain or overruns else draw(_quotas()),
        parallel=PARALLEL,
    )


@st.composite
def _quotas(draw: st.DrawFn) -> Mapping[QuotaId, Quota]:
    """None, a user limit, or a project's own amount that others may borrow."""
    slots = ResourceSlot({"cuda.shares": draw(st.sampled_from([1000, 2000, 3000]))})
    user, project = quota_id(QuotaScope.USER, "a"), quota_id(QuotaScope.PROJECT, "p")
    limit = Quota(id=user, scope=QuotaScope.USER, name="a", max_slots=SlotAmounts(slots))
    owned = Quota(id=project, scope=QuotaScope.PROJECT, name="p", own_slots=slots)
    return draw(st.sampled_from([{}, {}, {}, {user: limit}, {project: owned}, {user: limit, project: owned}]))


def _array(plain: PendingRow, lasts_ms: int) -> Job:
    tasks = ArrayTasks(max_parallel=PARALLEL, waiting=Intervals.parse("0-2"))
    return Job(row=replace(plain, tasks=tasks.waiting, tasks_startable=startable(tasks)), duration_ms=lasts_ms)


def _shrinking(plain: PendingRow, lasts_ms: int) -> Job:
    """The row falls back to a whole GPU, and later to a part of one."""
    smaller: tuple[tuple[int, Request], ...] = tuple(
        (plain.queued_us + wait_s * SECOND_US, tuple(ask(cuda_shares=text).items()))
        for wait_s, text in ((7, "1"), (18, "0.3"))
    )
    return Job(row=replace(plain, falls_back_us=smaller[0][0]), duration_ms=lasts_ms, fallbacks=smaller)
