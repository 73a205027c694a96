"""Full passes over pending sessions of 40 kinds on the openb cluster, under the policy of a new server.

Times are CPU time: a pass neither reads nor waits, so that other work on the machine changes them little.
"""

import asyncio
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import log
from multiprocessing import get_context
from pathlib import Path
from statistics import linear_regression, median
from typing import Final

from msgspec.structs import replace
from registry import Key, scenario

# The cluster and the queue are shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from aliquot.cli.serve import GcTuning
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot_schema.policies import PolicyDocument
from core_cluster import after
from placement_queue import SECOND_US, Full
from placement_traces import ABSENT, is_present, openb

PENDING: Final = 10_000
NOW_US: Final = 2 * PENDING * SECOND_US
ENDS_S: Final = 5_000
"""Those that run end within this many seconds, one after the other."""
ROUNDS_MAX: Final = 20
SUBMISSIONS: Final = 30
GROWTH_PENDING: Final = (1_000, 10_000, 100_000)
GROWTH_NODES: Final = (100, 1_000, 10_000)


@scenario(
    Key(
        name="decide_10k_s",
        what="a pass over 10,000 pending, all waiting or thousands placed, the worse",
        reach="<= 0.3",
    ),
    Key(name="decide_one_s", what="a pass after one submission to 10,000 that wait", reach="<= 0.005"),
    Key(name="decide_10k_rss_bytes", what="memory of a process that makes these passes", reach="<= 536870912"),
)
async def full_pass() -> dict[str, float]:
    """In a separate process, whose memory is counted."""
    if not is_present():
        print(f"  skipped: {ABSENT}", file=sys.stderr, flush=True)
        return {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:
        found = await asyncio.get_running_loop().run_in_executor(worker, measure)
    print(
        f"  placing {found.placed:,} of {PENDING:,}: {found.placing_s:.3f} s | none fits: {found.waiting_s:.3f} s | "
        f"one more: median {median(found.one_s):.4f} s, worst {max(found.one_s):.4f} s",
        file=sys.stderr,
        flush=True,
    )
    return {
        "decide_10k_s": max(found.placing_s, found.waiting_s),
        "decide_one_s": median(found.one_s),
        "decide_10k_rss_bytes": found.rss_bytes,
    }


@scenario(
    Key(name="decide_100k_s", what="a pass over 100,000 pending on 1,213 nodes", reach="<= 3"),
    Key(name="decide_100k_rss_bytes", what="memory of a process with 100,000 pending rows", reach="<= 400000000"),
    Key(name="placements_per_s_10k_nodes", what="placements on 10,000 nodes, per second", reach=">= 5000"),
    Key(name="scale_time_exponent", what="growth of a pass with the queue or the cluster; 1 = like it", reach="<= 1.1"),
    Key(name="scale_memory_exponent", what="growth of its memory", reach="<= 1.1"),
)
async def growth() -> dict[str, float]:
    """Growth with the queue and with the cluster; the table and the fitted exponents are printed.

    Each size has a process of its own, so that its memory is not that of others as well.
    """
    if not is_present():
        print(f"  skipped: {ABSENT}", file=sys.stderr, flush=True)
        return {}
    sizes = [(pending, None) for pending in GROWTH_PENDING] + [(PENDING, nodes) for nodes in GROWTH_NODES]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as worker:
        loop = asyncio.get_running_loop()
        found = [await loop.run_in_executor(worker, measure_growth, *size) for size in sizes]
    for one in found:
        print(
            f"  {one.pending:>7,} pending, {one.nodes:>6,} nodes: {one.placed:>6,} placed in {one.first_s:.3f} s | "
            f"none fits: {one.again_s:.4f} s | memory {one.rss_bytes / 1e6:.0f} MB",
            file=sys.stderr,
            flush=True,
        )
    exponents = _exponents(found)
    for name, exponent in exponents.items():
        print(f"  {name}: exponent {exponent:.2f}", file=sys.stderr, flush=True)
    most, widest = (next(one for one in found if one.pending == GROWTH_PENDING[-1]), found[-1])
    return {
        "decide_100k_s": most.first_s,
        "decide_100k_rss_bytes": most.rss_bytes,
        "placements_per_s_10k_nodes": widest.placed / widest.first_s,
        "scale_time_exponent": max(value for name, value in exponents.items() if "rss" not in name),
        "scale_memory_exponent": max(value for name, value in exponents.items() if "rss" in name),
    }


def _exponents(found: Sequence["Growth"]) -> dict[str, float]:
    """The slopes of log-log fits of each figure, over the queue and over the cluster."""
    axes = {"pending": found[: len(GROWTH_PENDING)], "nodes": found[len(GROWTH_PENDING) :]}
    return {
        f"{figure} over {axis}": linear_regression(
            [log(getattr(one, axis)) for one in lines], [log(getattr(one, figure)) for one in lines]
        ).slope
        for axis, lines in axes.items()
        for figure in ("first_s", "again_s", "rss_bytes")
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One line of the table."""

    pending: int
    nodes: int
    placed: int
    first_s: float
    """On an empty cluster, without a cache."""
    again_s: float
    """Right after, with the cache: the same sessions still do not fit."""
    rss_bytes: int
    """Memory of the process after these passes."""


def measure_growth(pending: int, nodes: int | None) -> Growth:
    """Fill an empty cluster of that many copies of its nodes (None: the unchanged one) from a queue of that length."""
    full = Full(openb())
    policy = Policy.of(PolicyDocument())
    gc.collect()
    GcTuning().begin()
    base = full.agents
    count = len(base) if nodes is None else nodes
    agents = [replace(base[number % len(base)], id=f"n{number}", node_id=f"n{number}") for number in range(count)]
    rows = full.rows(pending, prefix="first-")
    queue = Queue.of(rows)
    state = Snapshot(revision=1, agents=tuple(agents), used={}, queue=queue, asked=Counter(row.request for row in rows))
    memo = PassCache()
    first_s, plan = _timed(state, policy, memo)
    placed = {placement.session_id for placement in plan.placements}
    left = queue.changed(left=[row for row in queue if row.session_id in placed])
    state = replace(_carried_out(state, plan, left), asked=state.asked)
    _timed(state, policy, memo)
    again_s, _ = _timed(state, policy, memo)
    return Growth(
        pending=pending, nodes=count, placed=len(placed), first_s=first_s, again_s=again_s, rss_bytes=_rss_bytes()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured."""

    placed: int
    placing_s: float
    """On an empty cluster, with an empty cache."""
    waiting_s: float
    """On a cluster where none of them fits, with an empty cache."""
    one_s: Sequence[float]
    """With one more each time, and the cache of the previous pass."""
    rss_bytes: int


def measure() -> Found:
    """Fill the cluster until no session fits, then submit some more, one by one."""
    full = Full(openb())
    policy = Policy.of(PolicyDocument())
    gc.collect()
    GcTuning().begin()  # as a server does after its start
    rows = full.rows(PENDING, prefix="first-")
    empty = Snapshot(
        revision=1,
        agents=full.agents,
        used={},
        queue=Queue.of(rows),
        asked=Counter(row.request for row in rows),
    )
    placing_s, plan = _timed(empty, policy, PassCache())
    state = _full(empty, plan, policy, full.rows(PENDING, prefix="then-", at_us=PENDING * SECOND_US))
    waiting_s, _ = _timed(state, policy, PassCache())
    memo = PassCache()
    decide(state, policy, now_us=NOW_US, seed=0, known=memo)
    one_s = []
    for number, row in enumerate(full.rows(SUBMISSIONS, prefix="last-", at_us=NOW_US)):
        began = time.process_time()
        asked = Counter(state.asked)
        asked[row.request] += 1
        state = replace(state, queue=Queue.of(state.queue).changed(joined=[row]), asked=asked)
        decide(state, policy, now_us=NOW_US + number, seed=0, known=memo)
        one_s.append(time.process_time() - began)
    return Found(
        placed=len(plan.placements), placing_s=placing_s, waiting_s=waiting_s, one_s=one_s, rss_bytes=_rss_bytes()
    )


def _full(empty: Snapshot, plan: Plan, policy: Policy, queue: list[PendingRow]) -> Snapshot:
    """The state after that plan and as many placements of the new queue as fit."""
    state = _carried_out(empty, plan, queue)
    for _ in range(ROUNDS_MAX):
        plan = decide(state, policy, now_us=NOW_US, seed=0)
        if not plan.placements:
            return replace(state, asked=Counter(row.request for row in state.queue))
        placed = {placement.session_id for placement in plan.placements}
        state = _carried_out(state, plan, [row for row in state.queue if row.session_id not in placed])
    raise RuntimeError("the cluster does not fill up")


def _carried_out(before: Snapshot, plan: Plan, queue: Sequence[PendingRow]) -> Snapshot:
    agents = {agent.id: agent for agent in before.agents}
    started = [
        RunningRow.of(
            placement.session_id,
            placement.kernels,
            ends_us=NOW_US + (number * 37 % ENDS_S + 60) * SECOND_US,
            agents=[agents[kernel.agent_id] for kernel in placement.kernels],
        )
        for number, placement in enumerate(plan.placements)
    ]
    state = after(before, plan)
    return replace(state, queue=Queue.of(queue), running=(*before.running, *started))


def _timed(state: Snapshot, policy: Policy, memo: PassCache) -> tuple[float, Plan]:
    began = time.process_time()
    plan = decide(state, policy, now_us=NOW_US, seed=0, known=memo)
    return time.process_time() - began, plan


def _rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this process has no memory")
