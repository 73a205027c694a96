"""CPU time of one core to compute 32 possible futures of a full queue.

64 GPUs on 8 nodes, the default policy, 30 users, predicted run times; as many sessions arrive as wait.
"""

import random
import sys
from collections.abc import Iterable, Mapping
from time import process_time
from typing import Final

from msgspec.structs import replace
from registry import Key, scenario

from aliquot.core.fairshare import Usage
from aliquot.core.foresight.decided_cluster import DecidedCluster
from aliquot.core.foresight.engine import Arrival, Engine, Future, unsupported
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import order_inputs
from aliquot.core.scheduler.eligibility import filter_eligible
from aliquot.core.scheduler.ordering import in_order, order_named
from aliquot.core.simulation.cluster import nodes
from aliquot.core.simulation.trace import gpu_request
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState

FUTURES: Final = 32
GPUS: Final = 64
USERS: Final = 30
NOW_US: Final = 10**15
DAY_US: Final = 86_400_000_000
KEPT: Final = 2000
HEAD: Final = 100
"""Sessions in the quick answer."""


@scenario(
    Key(name="forecast_200_s", what="32 futures of 200 pending and as many arrivals", reach="<= 0.5"),
    Key(name="forecast_1000_s", what="32 futures of 1,000 pending and as many arrivals", reach="<= 5"),
    Key(
        name="forecast_10k_first_s",
        what="10,000 pending: 32 futures of the first 2,000, until the first 100 have started",
        reach="<= 2",
    ),
)
async def forecasts() -> dict[str, float]:
    """Includes preparation, but not drawing the futures."""
    return {
        "forecast_200_s": _whole_s(200),
        "forecast_1000_s": _whole_s(1000),
        "forecast_10k_first_s": _first_s(10_000),
    }


def _whole_s(pending: int) -> float:
    drawn = _Draw(pending)
    futures = [drawn.future(drawn.snapshot.queue, arrivals=pending) for _ in range(FUTURES)]
    began_s = process_time()
    engine = Engine(drawn.snapshot, drawn.policy, now_us=NOW_US)
    started = [len(engine.starts(future)) for future in futures]
    taken_s = process_time() - began_s
    assert started == [pending] * FUTURES, "every session starts"
    print(f"  {pending:,} pending: {1000 * taken_s / FUTURES:.1f} ms a future", file=sys.stderr, flush=True)
    return taken_s


def _first_s(pending: int) -> float:
    drawn = _Draw(pending)
    kept = _first_in_order(drawn.snapshot, drawn.policy, now_us=NOW_US, count=KEPT)
    futures = [drawn.future(kept.queue, arrivals=0) for _ in range(FUTURES)]
    began_s = process_time()
    kept = _first_in_order(drawn.snapshot, drawn.policy, now_us=NOW_US, count=KEPT)
    head = [row.session_id for row in kept.queue[:HEAD]]
    engine = Engine(kept, drawn.policy, now_us=NOW_US)
    for future in futures:
        assert set(head) <= set(engine.starts(future, wanted=head))
    return process_time() - began_s


def _first_in_order(snapshot: Snapshot, policy: Policy, *, now_us: int, count: int) -> Snapshot:
    """The snapshot with the first `count` eligible sessions of its queue alone, for a quick answer about these.

    The backlog of the whole queue is kept, so the others still count in the unit of age. Their backfill is left out.
    """
    queue, cache = Queue.of(snapshot.queue), PassCache()
    eligible = filter_eligible(snapshot, policy, queue=queue, now_us=now_us, cache=cache.feasibility)
    inputs, peaks = order_inputs(snapshot, policy, queue=queue, ready=eligible.ready, now_us=now_us, cache=cache)
    order = in_order(order_named(policy.order), inputs)
    kept = order[eligible.ready[order] == 1][:count].tolist()
    backlogs = {**snapshot.backlogs, **peaks}
    return replace(snapshot, queue=[queue[position] for position in kept], backlogs=backlogs)


class _Draw:
    """A queue and its futures. Run times are lognormal around a median of each workload."""

    def __init__(self, pending: int) -> None:
        self._dice = random.Random(pending)
        self._median_s: dict[Workload, float] = {}
        self.policy = Policy.of(PolicyDocument())
        rows = [self._row(f"q{number:06}", NOW_US - self._dice.randrange(DAY_US)) for number in range(pending)]
        started = [self._row(f"r{number:06}", NOW_US - 2 * DAY_US) for number in range(GPUS)]
        empty = Snapshot(revision=0, agents=nodes(8, gpus_each=8), used={}, queue=started, usage=Usage())
        assert unsupported(empty, self.policy) is None, "this measures the fast engine"
        begun = self._running(empty)
        self._started = [row.session_id for row in begun.running]
        self.snapshot = replace(begun, queue=rows, run_times=self._run_times())

    def future(self, queue: Iterable[PendingRow], *, arrivals: int) -> Future:
        """One future; arrivals are spread over the queue's duration."""
        run_us = {row.session_id: self._run_us(row) for row in queue}
        milli = {row.session_id: dict(row.request).popitem()[1] * row.cluster_size for row in queue}
        span_us = sum(milli[name] * lasts_us for name, lasts_us in run_us.items()) // GPUS
        times_us = sorted(NOW_US + self._dice.randrange(max(span_us, 1)) for _ in range(arrivals))
        coming = [self._row(f"x{number:06}", at_us) for number, at_us in enumerate(times_us)]
        return Future(
            left_us={name: 1 + self._dice.randrange(7_200_000_000) for name in self._started},
            run_us=run_us,
            arrivals=[Arrival(at_us=row.queued_us, row=row, run_us=self._run_us(row)) for row in coming],
        )

    def _running(self, empty: Snapshot) -> Snapshot:
        """The cluster filled with sessions placed an hour ago."""
        cluster = DecidedCluster(empty, self.policy, seed=0)
        cluster.run(NOW_US - DAY_US // 24)
        return cluster.snapshot()

    def _row(self, name: str, queued_us: int) -> PendingRow:
        dice = self._dice
        number = min(int(dice.paretovariate(0.7)), USERS)
        gpus, kernels = dice.choices([(1, 1), (2, 1), (4, 1), (8, 1), (8, 2)], [0.68, 0.12, 0.1, 0.06, 0.04])[0]
        user = UserId(f"u{number}")
        program = dice.choice(["train.py", "eval.py", None])
        workload = Workload(user=user, program=program, milli=1000 * gpus * kernels, limit_ms=None)
        self._median_s.setdefault(workload, dice.lognormvariate(7.5, 1.2))
        return PendingRow(
            session_id=SessionId(name),
            version=1,
            state=SessionState.QUEUED,
            request=gpu_request(1000 * gpus),
            cluster_size=kernels,
            gpu_memory_bytes=None,
            priority=Priority.NORMAL,
            queued_us=queued_us,
            not_before_us=None,
            excluded_agents=(),
            depends_on=(),
            owner=user,
            project=ProjectId(f"p{number % 4}"),
            workload=workload,
        )

    def _run_us(self, row: PendingRow) -> int:
        assert row.workload is not None, "every row of this benchmark has one"
        return max(int(self._median_s[row.workload] * self._dice.lognormvariate(0, 1) * 1e6), 1_000_000)

    def _run_times(self) -> Mapping[Workload, RunTimes]:
        return {
            workload: RunTimes(max(int(1600 * median_s), 60_000), max(int(1000 * median_s), 60_000))
            for workload, median_s in self._median_s.items()
        }
