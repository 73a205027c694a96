"""Random cluster states and futures: nodes and pools, shares and gangs, quotas, every order."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on
from aliquot.core.fairshare import Usage, rate_milli
from aliquot.core.foresight.engine import Arrival, Future
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, PlacementConstraints, RunningRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.decide import decide
from aliquot.core.simulation.cluster import Machine, machines, nodes, pool
from aliquot.core.simulation.trace import gpu_request
from aliquot_schema.ids import NodeId, PoolId, ProjectId, QuotaId, SessionId, SlotName, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill, PolicyDocument
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.sessions import DEFAULT_POOL, Dependency, DependencyCondition, Priority, Topology
from aliquot_schema.states import SessionState

HOUR_US: Final = 3_600_000_000
NOW_US: Final = 10**15
STRATEGIES: Final = ("least_waste", "fgd", "best_fit", "pack", "spread", "first_fit", "dot_product")
IMAGES: Final = ("aliquot.image.a", "aliquot.image.b")
"""Implicit labels of agents that hold an image."""
ORDERS: Final = ("fair_share", "fair_share", "relative_age", "fcfs", "sjf", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomForecastCase:
    """A state and a future of it."""

    snapshot: Snapshot
    policy: Policy
    future: Future
    now_us: int


def random_case(seed: int) -> RandomForecastCase:
    """The scene of a seed."""
    return _CaseGenerator(seed).case()


class _CaseGenerator:
    def __init__(self, seed: int) -> None:
        self._dice = dice = random.Random(seed)
        self._now_us = NOW_US + dice.randrange(10**9)
        self._step_us = dice.choice([1, 1000, 60_000_000])
        """Coarse times make many events coincide."""
        self._users = [UserId(f"u{number}") for number in range(dice.choice([1, 2, 5]))]
        self._has_models = dice.random() < 0.3
        self._has_shares, self._has_splits = dice.random() < 0.4, dice.random() < 0.3
        self._switch_dice = random.Random(-1_000_000 - seed)
        self._agents = self._with_switches(self._cluster())
        self._array_dice = random.Random(-1 - seed)
        self._image_dice = random.Random(-2_000_000 - seed)
        self._array_part = self._array_dice.choice([0, 0.1, 0.5])
        """Share of sessions that are job arrays."""
        self._kept_dice = random.Random(-3_000_000 - seed)

    def case(self) -> RandomForecastCase:
        """Everything together."""
        dice, now_us = self._dice, self._now_us
        policy = self._policy()
        rows = [self._row(number, now_us - self._time(10)) for number in range(dice.choice([5, 15, 40]))]
        times = sorted(now_us + self._time(20) for _ in range(dice.choice([0, 10, 30])))
        coming = [self._row(len(rows) + number, at_us) for number, at_us in enumerate(times)]
        used, running, usage = self._running(policy)
        rows, coming = [*map(self._array, rows)], [*map(self._array, coming)]
        rows, coming = [*map(self._image, rows)], [*map(self._image, coming)]
        rows = [*map(self._preempted, rows)]
        running = self._tasks(running, rows)
        everyone = [*rows, *coming]
        workloads = dict.fromkeys(row.workload for row in everyone if row.workload is not None)
        waited_for = dict.fromkeys(link.session_id for row in everyone for link in row.depends_on)
        asked: dict[tuple[tuple[SlotName, int], ...], int] = {}
        for row in rows:
            asked[row.request] = asked.get(row.request, 0) + 1
        snapshot = Snapshot(
            revision=0,
            agents=self._with_images(),
            used=used,
            queue=rows,
            running=running,
            usage=usage,
            quotas=self._quotas(),
            run_times={one: RunTimes(self._ms(), self._ms()) for one in workloads if dice.random() < 0.7},
            dependencies={name: SessionState.QUEUED for name in waited_for if dice.random() < 0.9},
            asked=asked if dice.random() < 0.8 else {},
        )
        future = Future(
            left_us={row.session_id: self._time(5) for row in running if dice.random() < 0.95},
            run_us={row.session_id: self._time(3) for row in rows},
            arrivals=[Arrival(at_us=row.queued_us, row=row, run_us=self._time(3)) for row in coming],
            cancels_us={row.session_id: now_us + self._time(10) for row in everyone if dice.random() < 0.05},
        )
        return RandomForecastCase(snapshot=snapshot, policy=policy, future=future, now_us=now_us)

    def _cluster(self) -> tuple[AgentRow, ...]:
        dice = self._dice
        kind = dice.choice(["nodes", "nodes", "pool", "machines", "pools"])
        if kind == "pool":
            return pool(dice.choice([4, 16, 40]))
        if kind == "nodes":
            return nodes(dice.choice([1, 2, 4]), gpus_each=dice.choice([2, 4, 8]))
        if kind == "machines":
            sizes = [
                (dice.choice([0, 16]), dice.choice([1, 4, 8]), dice.choice("ab")) for _ in range(dice.choice([2, 4]))
            ]
            return machines(
                Machine(name=f"n{number}", cores=cores, mem_bytes=0, gpus=gpus, model=model)
                for number, (cores, gpus, model) in enumerate(sizes)
            )
        return tuple(
            replace(agent, pool=dice.choice([DEFAULT_POOL, PoolId("other")]), is_open=dice.random() < 0.9)
            for agent in nodes(4, gpus_each=4)
        )

    def _with_switches(self, agents: tuple[AgentRow, ...]) -> tuple[AgentRow, ...]:
        """The agents, in half of all scenes on two or three switches."""
        dice = self._switch_dice
        names = dice.choice([(), (), ("s1", "s2"), ("s1", "s2", "")])
        if not names:
            return agents
        return tuple(replace(agent, labels={**agent.labels, "switch": dice.choice(names)}) for agent in agents)

    def _policy(self) -> Policy:
        dice = self._dice
        policy = Policy.of(
            PolicyDocument(
                order=dice.choice(ORDERS),
                backfill=dice.choice([Backfill.EASY] * 4 + [Backfill.NONE]),
                placement=dice.choice(STRATEGIES),
                allow_fragmentation=dice.random() < 0.1,
            )
        )
        return replace(policy, preemption=Policy().preemption) if policy.order == "priority" else policy

    def _row(self, number: int, queued_us: int) -> PendingRow:
        dice, gpus = self._dice, self._dice.choice([1, 1, 1, 2, 4, 8])
        is_share = self._has_shares and dice.random() < 0.6
        request = gpu_request(dice.choice([100, 300, 500, 700]) if is_share else gpus * 1000)
        if self._has_splits and dice.random() < 0.1:
            request = ((SlotName("cuda.shares"), dice.choice([1500, 2500])),)
        size, user = dice.choice([1] * 8 + [2, 3, 5]), dice.choice(self._users)
        workload = Workload(user=user, program=dice.choice(["a", None]), milli=gpus * 1000 * size, limit_ms=None)
        row = PendingRow(
            session_id=SessionId(f"s{number:04}"),
            version=1,
            state=SessionState.HELD if dice.random() < 0.03 else SessionState.QUEUED,
            request=request,
            cluster_size=size,
            gpu_memory_bytes=None,
            priority=dice.choice([Priority.NORMAL] * 4 + [Priority.HIGH]),
            queued_us=queued_us,
            not_before_us=queued_us + self._time(3) if dice.random() < 0.05 else None,
            excluded_agents=(),
            depends_on=(),
            owner=user,
            project=ProjectId(dice.choice("pq")),
            estimate_ms=dice.choice([None, 600_000, 3_600_000]),
            limit_ms=dice.choice([None, None, 7_200_000, 900_000]),
            workload=workload if dice.random() < 0.5 else None,
            where=self._where(),
        )
        if size > 1 and self._switch_dice.random() < 0.3:
            row = replace(row, where=replace(row.where, topology=Topology.REQUIRE))
        return replace(row, depends_on=self._links(number)) if number and dice.random() < 0.04 else row

    def _preempted(self, row: PendingRow) -> PendingRow:
        """The row, or one that kept some of its work when it was preempted."""
        kept_ms = self._kept_dice.choice([0] * 8 + [300_000, 5_000_000])
        return row if row.tasks is not None else replace(row, kept_ms=kept_ms)

    def _array(self, row: PendingRow) -> PendingRow:
        """The row, or a job array of it, with or without a limit on parallel tasks."""
        dice = self._array_dice
        if dice.random() >= self._array_part:
            return row
        indices = Intervals.of(dice.sample(range(12), dice.choice([1, 2, 5])))
        startable = len(indices) if dice.random() < 0.7 else dice.randrange(len(indices) + 1)
        return replace(row, tasks=indices, tasks_startable=startable)

    def _image(self, row: PendingRow) -> PendingRow:
        """The row, or one with an image that some agents hold."""
        dice = self._image_dice
        return row if dice.random() < 0.7 else replace(row, where=replace(row.where, image=dice.choice(IMAGES)))

    def _with_images(self) -> tuple[AgentRow, ...]:
        dice, held = self._image_dice, [{}, {IMAGES[0]: "yes"}, dict.fromkeys(IMAGES, "yes")]
        return tuple(replace(agent, labels={**agent.labels, **dice.choice(held)}) for agent in self._agents)

    def _tasks(self, running: Sequence[RunningRow], rows: Sequence[PendingRow]) -> tuple[RunningRow, ...]:
        """Running sessions, some of them as tasks of waiting job arrays."""
        dice, arrays = self._array_dice, [row.session_id for row in rows if row.tasks is not None]
        return tuple(
            replace(row, array_id=dice.choice(arrays)) if arrays and dice.random() < 0.5 else row for row in running
        )

    def _links(self, number: int) -> tuple[Dependency, ...]:
        other = SessionId(f"s{self._dice.randrange(number):04}")
        return (Dependency(session_id=other, condition=self._dice.choice(list(DependencyCondition))),)

    def _where(self) -> PlacementConstraints:
        dice = self._dice
        more: dict[str, Any] = {}
        if self._has_models and dice.random() < 0.4:
            more[dice.choice(["models", "preferred_models"])] = (dice.choice("ab"),)
        return PlacementConstraints(pool=dice.choice(self._agents).pool, **more)

    def _running(self, policy: Policy) -> tuple[dict[NodeId, Occupancy], tuple[RunningRow, ...], Usage]:
        """Sessions placed by `decide`; some amounts are held by no session."""
        dice, now_us = self._dice, self._now_us
        before = [self._row(9000 + number, now_us - 11 * HOUR_US) for number in range(dice.choice([0, 10, 20]))]
        before = [replace(row, depends_on=(), not_before_us=None, state=SessionState.QUEUED) for row in before]
        state = Snapshot(revision=0, agents=self._agents, used={}, queue=before)
        layouts = {agent.id: agent.layout for agent in self._agents}
        rows = {row.session_id: row for row in before}
        used: dict[NodeId, Occupancy] = {}
        running: list[RunningRow] = []
        usage = Usage()
        for placement in decide(state, Policy(), now_us=now_us - 5 * HOUR_US, seed=0).placements:
            row, is_known = rows[placement.session_id], dice.random() < 0.7
            for kernel in placement.kernels:
                devices = layouts[kernel.agent_id].devices
                used[kernel.node_id] = added(used.get(kernel.node_id, {}), occupancy_on((kernel.spec,), devices))
                rate = rate_milli(kernel.spec, devices=devices, charges=policy.charges) if is_known else 0
                usage = usage.held(rate, user=row.owner, project=row.project, now_us=now_us - 6 * HOUR_US)
            if is_known:
                running.append(self._running_row(row, placement.kernels))
        return used, tuple(running), usage

    def _running_row(self, row: PendingRow, kernels: Any) -> RunningRow:
        dice, now_us = self._dice, self._now_us
        ends_us = now_us + dice.choice([-1, 1, 1]) * self._time(3)
        return replace(
            RunningRow.of(row.session_id, kernels, ends_us=ends_us, agents=self._agents),
            started_us=None if dice.random() < 0.2 else now_us - self._time(5),
            owner=row.owner,
            project=row.project,
            estimate_ms=dice.choice([None, 600_000, 10_000_000]),
            is_leaving=dice.random() < 0.05,
        )

    def _quotas(self) -> Mapping[QuotaId, Quota]:
        dice, found = self._dice, dict[QuotaId, Quota]()
        if dice.random() < 0.3:
            for scope, name in ((QuotaScope.USER, self._users[0]), (QuotaScope.PROJECT, "p")):
                most = SlotAmounts({SlotName("cuda.shares"): dice.choice([1000, 4000, 9000])})
                identity = quota_id(scope, name)
                found[identity] = Quota(id=identity, scope=scope, name=name, max_slots=most)
        return found

    def _time(self, hours: int) -> int:
        """A duration of up to some hours, >= 1."""
        return max(self._dice.randrange(hours * HOUR_US) // self._step_us * self._step_us, 1)

    def _ms(self) -> int:
        return self._dice.randrange(60_000, 10**7)


def plain_rows(count: int, *, seed: int) -> list[PendingRow]:
    """Sessions of whole GPUs, some in gangs, that arrive some hours from `NOW_US` on."""
    dice = random.Random(seed)
    return [
        PendingRow(
            session_id=SessionId(f"s{number:04}"),
            version=1,
            state=SessionState.QUEUED,
            request=gpu_request(1000 * dice.choice([1, 1, 1, 2, 4])),
            cluster_size=dice.choice([1] * 6 + [2, 3]),
            gpu_memory_bytes=None,
            priority=Priority.NORMAL,
            queued_us=NOW_US + number * dice.randrange(120_000_000),
            not_before_us=None,
            excluded_agents=(),
            depends_on=(),
            owner=UserId(dice.choice("abc")),
            project=ProjectId(dice.choice("pq")),
        )
        for number in range(count)
    ]
