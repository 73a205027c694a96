"""Engine: when every waiting session starts in one possible future, under the real policy.

A future says how long each session runs, which sessions arrive, and which are canceled. The engine runs the cluster
event by event: each time at which a session ends, arrives or leaves the queue is one pass over the queue.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from msgspec import Struct, field

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.foresight.bucket_walk import SCORED
from aliquot.core.foresight.decided_cluster import Cluster, DecidedCluster, SessionStart
from aliquot.core.foresight.fast_cluster import FastCluster, SimulationContext
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.placement.cluster_arrays import WHOLE_MILLI
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import RequestMix
from aliquot_schema.ids import DeviceId, NodeId, SessionId
from aliquot_schema.policies import Backfill, PreemptScope


class Arrival(Struct, frozen=True, kw_only=True):
    """A session that is submitted in a possible future."""

    at_us: int
    row: PendingRow
    """Its `queued_us` is `at_us`."""
    run_us: int
    """How long it runs once started, >= 1."""


class Future(Struct, frozen=True, kw_only=True):
    """One possible future. Times are microseconds."""

    left_us: Mapping[SessionId, int]
    """How much longer each running session runs from now, >= 1. One that is missing never ends."""
    run_us: Mapping[SessionId, int]
    """How long each waiting session runs once started, >= 1."""
    task_run_us: Callable[[PendingRow, SessionId], int] | None = None
    """How long a task of a waiting job array runs, by the row of the array and the id of the task; None = as the array
    in `run_us`."""
    arrivals: Sequence[Arrival] = ()
    """Sorted by `at_us`."""
    cancels_us: Mapping[SessionId, int] = field(default_factory=dict)
    """When waiting sessions leave the queue unstarted; started ones are not affected."""


class SimulatedStart(NamedTuple):
    """When a session starts and ends, microseconds UTC."""

    at_us: int
    ends_us: int


def unsupported(snapshot: Snapshot, policy: Policy) -> str | None:
    """Why the fast engine cannot run this state exactly, in words; None if it can."""
    if snapshot.bookings:
        return "bookings"
    return next((why for why in (*_of_policy(snapshot, policy), *_of_agents(snapshot), *_of_rows(snapshot))), None)


def _of_policy(snapshot: Snapshot, policy: Policy) -> Iterator[str]:
    preempt = policy.preemption.preempt
    if policy.order not in SCORED:
        yield f"the order {policy.order}"
    if policy.weights.wait_bound_ms:
        yield "a bound on waits"
    if policy.backfill is Backfill.CONSERVATIVE:
        yield "conservative backfill"
    if making(policy.placement)(RequestMix.of({}), size_max=WHOLE_MILLI).is_random:
        yield "random placement"
    if preempt is not PreemptScope.NONE:
        if policy.order == "priority":
            yield "preemption by priority"
        if any(quota.own_slots for quota in snapshot.quotas.values()):
            yield "quotas with owned devices, which may be reclaimed"
    if any((quota.gpu_hours_per_month, quota.budget) != (None, None) for quota in snapshot.quotas.values()):
        yield "quotas by the month"


def _of_agents(snapshot: Snapshot) -> Iterator[str]:
    nodes = [agent.node_id for agent in snapshot.agents]
    if len(set(nodes)) < len(nodes):
        yield "several agents on one node"
    if any(agent.is_spot or agent.until_us is not None for agent in snapshot.agents):
        yield "spot nodes, or nodes that leave at a known time"
    for agent in snapshot.agents:
        used = snapshot.used.get(agent.node_id, {})
        if any(amount and device not in agent.layout.devices for device, amount in used.items()):
            yield "held devices that no longer exist"
        if any(used.get(name, 0) > device.budget for name, device in agent.layout.devices.items()):
            yield "devices of which more is held than there is"
    if _holds_more(snapshot):
        yield "sessions that hold devices which are not counted as held"


def _holds_more(snapshot: Snapshot) -> bool:
    """Whether running sessions hold more of a device than is counted."""
    layouts = {agent.id: agent.layout for agent in snapshot.agents}
    held: dict[tuple[NodeId, DeviceId], int] = {}
    for kernel in (kernel for row in snapshot.running for kernel in row.kernels):
        layout = layouts.get(kernel.agent_id)
        for device, amount in occupancy_on((kernel.spec,), layout.devices if layout is not None else {}).items():
            held[kernel.node_id, device] = held.get((kernel.node_id, device), 0) + amount
    return any(amount > snapshot.used.get(node, {}).get(device, 0) for (node, device), amount in held.items())


def _of_rows(snapshot: Snapshot) -> Iterator[str]:
    for row in snapshot.queue:
        if row.falls_back_us is not None:
            yield "fallbacks"
        if row.is_immediate:
            yield "external allocations"
        if row.kernels_max is not None:
            yield "elastic gangs"
        if row.preempted_for is not None:
            yield "sessions queued behind the one that they were preempted for"


def starts(
    snapshot: Snapshot,
    policy: Policy,
    future: Future,
    *,
    now_us: int,
    seed: int = 0,
    until_us: int | None = None,
    wanted: Collection[SessionId] | None = None,
    exact: bool = False,
) -> Mapping[SessionId, SimulatedStart]:
    """When every waiting session starts in one future; see `Engine`."""
    engine = Engine(snapshot, policy, now_us=now_us, seed=seed, exact=exact)
    return engine.starts(future, until_us=until_us, wanted=wanted)


def cluster_of(snapshot: Snapshot, policy: Policy, *, seed: int = 0, exact: bool = False) -> Cluster:
    """A simulated cluster in the state of a snapshot: the fast one, or the one of `decide` where that is unsupported.

    Args:
        seed: of the random placement strategy.
        exact: whether it is the one of `decide` in any case. Rows that join later must be supported too, or be
            elastic gangs.
    """
    if exact or unsupported(snapshot, policy) is not None:
        return DecidedCluster(snapshot, policy, seed=seed)
    return FastCluster(SimulationContext(snapshot, policy, seed=seed))


class Engine:
    """Runs many futures of one snapshot.

    What is known at the snapshot stays as it is: sessions that end in a future teach the predictor nothing, and
    arrivals do not change the mix of requests that placement goes by. The rows of arrivals are predicted by the
    snapshot's `run_times` too. Preempted sessions leave for good, and fallbacks that become due are not taken.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy, *, now_us: int, seed: int = 0, exact: bool = False) -> None:
        """
        Args:
            now_us: time of the first pass, microseconds UTC.
            seed: of the random placement strategy.
            exact: whether every pass is one of `decide`, even where the fast engine would give the same result.
        """
        self._now_us: Final = now_us
        self._waiting: Final = {row.session_id: row for row in snapshot.queue}
        self._running: Final = [row.session_id for row in snapshot.running]
        self._cluster: Final = cluster_of(snapshot, policy, seed=seed, exact=exact)

    def starts(
        self, future: Future, *, until_us: int | None = None, wanted: Collection[SessionId] | None = None
    ) -> Mapping[SessionId, SimulatedStart]:
        """When sessions that wait in the snapshot start in a future.

        Args:
            until_us: the last time of interest; None = no limit.
            wanted: the run stops when these have started or left; None = all waiting ones.
        Returns:
            Starts of sessions that waited in the snapshot; those that do not start in time are missing. A job array is
            present with its first task, a preempted session with its first start.
        """
        run = _FutureRun(
            self._cluster.copy(), future, now_us=self._now_us, running=self._running, waiting=self._waiting
        )
        return run.run(until_us=until_us, wanted=self._waiting if wanted is None else wanted)


class _FutureRun:
    """One future, event by event. All events of one time come before its pass: ends, arrivals, cancellations."""

    def __init__(
        self,
        cluster: Cluster,
        future: Future,
        *,
        now_us: int,
        running: Iterable[SessionId],
        waiting: Mapping[SessionId, PendingRow],
    ) -> None:
        self._cluster = cluster
        self._now_us = now_us
        self._future = future
        self._rows: Final = dict(waiting)
        self._ends_us = {name: now_us + future.left_us[name] for name in running if name in future.left_us}
        self._ends = [(at_us, name) for name, at_us in self._ends_us.items()]
        heapify(self._ends)
        self._arrived = 0
        self._arrivals_us: dict[SessionId, int] = {}
        self._cancels = sorted(((at_us, name) for name, at_us in future.cancels_us.items()), reverse=True)
        self._wake_us: int | None = None
        self._started: Final[dict[SessionId, SimulatedStart]] = {}

    def run(self, *, until_us: int | None, wanted: Collection[SessionId]) -> Mapping[SessionId, SimulatedStart]:
        asked = dict.fromkeys(wanted)
        known = frozenset(self._rows)
        while True:
            self._end_due()
            self._arrive()
            for name in self._cancel_due():
                asked.pop(name, None)
            for name in self._pass():
                asked.pop(name, None)
            now_us = self._next_us()
            if not asked or now_us is None or (until_us is not None and now_us > until_us):
                break
            self._now_us = now_us
        return {name: started for name, started in self._started.items() if name in known}

    def _next_us(self) -> int | None:
        """Time of the next event; None if there is none."""
        while self._ends and self._ends_us.get(self._ends[0][1]) != self._ends[0][0]:
            heappop(self._ends)
        arrivals = self._future.arrivals
        times = [self._ends[0][0]] if self._ends else []
        times += [arrivals[self._arrived].at_us] if self._arrived < len(arrivals) else []
        times += [self._cancels[-1][0]] if self._cancels else []
        times += [self._wake_us] if self._wake_us is not None else []
        return max(min(times), self._now_us) if times else None

    def _end_due(self) -> None:
        while self._ends and self._ends[0][0] <= self._now_us:
            at_us, name = heappop(self._ends)
            if self._ends_us.get(name) == at_us:
                del self._ends_us[name]
                self._cluster.end(name, now_us=self._now_us)

    def _arrive(self) -> None:
        arrivals = self._future.arrivals
        while self._arrived < len(arrivals) and arrivals[self._arrived].at_us <= self._now_us:
            arrival = arrivals[self._arrived]
            self._arrived += 1
            self._rows[arrival.row.session_id] = arrival.row
            self._arrivals_us[arrival.row.session_id] = arrival.run_us
            self._cluster.join(arrival.row)

    def _cancel_due(self) -> Iterator[SessionId]:
        while self._cancels and self._cancels[-1][0] <= self._now_us:
            name = self._cancels.pop()[1]
            if self._cluster.leave(name):
                yield name

    def _pass(self) -> Iterator[SessionId]:
        """Run a pass; gives the sessions that have started or can never start."""
        found = self._cluster.run(self._now_us)
        self._wake_us = found.wake_us
        for start in found.starts:
            name, ends_us = start.name, self._now_us + self._run_us(start)
            self._ends_us[start.run_id] = ends_us
            heappush(self._ends, (ends_us, start.run_id))
            self._started.setdefault(name, SimulatedStart(self._now_us, ends_us))
            yield name
        yield from found.failures
        for eviction in found.evictions:
            ends_us = min(self._now_us + eviction.grace_ms * 1000, self._ends_us.get(eviction.session_id, self._now_us))
            self._cluster.evict(eviction.session_id, ends_us=ends_us)
            self._ends_us[eviction.session_id] = ends_us
            heappush(self._ends, (ends_us, eviction.session_id))

    def _run_us(self, start: SessionStart) -> int:
        name, run_us, of_task = start.name, self._future.run_us, self._future.task_run_us
        if name not in run_us:
            return self._arrivals_us[name]
        return run_us[name] if of_task is None or start.run_id == name else of_task(self._rows[name], start.run_id)
