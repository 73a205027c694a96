"""The fast engine gives the plan of `decide` in every pass, and reports the states it leaves to it."""

import os
import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.foresight.decided_cluster import DecidedCluster
from aliquot.core.foresight.engine import (
    Arrival,
    Engine,
    Future,
    SimulatedStart,
    cluster_of,
    starts,
    unsupported,
)
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.simulation.cluster import nodes, pool
from aliquot.core.simulation.trace import gpu_request
from aliquot_schema.ids import ProjectId, SessionId, UserId, task_id
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill, PolicyDocument
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Dependency, DependencyCondition
from aliquot_schema.states import SessionState
from foresight_states import HOUR_US, NOW_US, RandomForecastCase, plain_rows, random_case

STATES = 10_000 if os.environ.get("ALIQUOT_TESTS_LONG") else 100
PART = 50


@pytest.mark.parametrize("first", range(0, STATES, PART))
def test_the_fast_engine_gives_the_starts_of_decide(first: int) -> None:
    for seed in range(first, first + PART):
        drawn = random_case(seed)
        assert unsupported(drawn.snapshot, drawn.policy) is None, seed
        assert _written(drawn, exact=False) == _written(drawn, exact=True), f"seed {seed}"


def test_the_tested_states_have_immediate_later_and_missing_starts() -> None:
    """Sessions start now, later, and never."""
    at_once = later = never = 0
    for drawn in map(random_case, range(PART)):
        found = _found(drawn, exact=False)
        at_once += sum(one.at_us == drawn.now_us for one in found.values())
        later += sum(one.at_us > drawn.now_us for one in found.values())
        never += len(drawn.snapshot.queue) - len(found)
    assert min(at_once, later, never) > PART


@pytest.mark.parametrize("seed", [1, 16, 41, 45, 55, 64, 67, 73])
def test_elastic_gangs_that_arrive_take_as_many_kernels_as_decide_gives_them(seed: int) -> None:
    drawn, dice = random_case(seed), random.Random(seed)
    coming = []
    for one in drawn.future.arrivals:
        wider = replace(one.row, kernels_max=one.row.cluster_size + dice.choice([1, 2, 5]), tasks=None)
        coming.append(replace(one, row=replace(wider, tasks_startable=1)) if dice.random() < 0.5 else one)
    future = replace(drawn.future, arrivals=coming)
    elastic = RandomForecastCase(snapshot=drawn.snapshot, policy=drawn.policy, future=future, now_us=drawn.now_us)
    assert _written(elastic, exact=False) == _written(elastic, exact=True)


def test_an_engine_runs_many_futures_of_one_snapshot() -> None:
    drawn = random_case(7)
    engine = Engine(drawn.snapshot, drawn.policy, now_us=drawn.now_us)
    longer = replace(drawn.future, run_us={name: 2 * run_us for name, run_us in drawn.future.run_us.items()})
    first = engine.starts(drawn.future)
    assert engine.starts(longer) != first
    assert engine.starts(drawn.future) == first


def test_a_run_stops_when_the_wanted_sessions_have_started() -> None:
    drawn = random_case(7)
    everything = _found(drawn, exact=False)
    name = next(iter(everything))
    found = starts(drawn.snapshot, drawn.policy, drawn.future, now_us=drawn.now_us, wanted=[name])
    assert found[name] == everything[name]
    assert len(found) < len(everything)


def test_a_run_stops_at_the_given_time() -> None:
    drawn = random_case(7)
    everything = _found(drawn, exact=False)
    until_us = sorted(one.at_us for one in everything.values())[len(everything) // 2]
    found = starts(drawn.snapshot, drawn.policy, drawn.future, now_us=drawn.now_us, until_us=until_us)
    assert found == {name: one for name, one in everything.items() if one.at_us <= until_us}


@pytest.mark.parametrize("order", ["fair_share", "relative_age", "fcfs", "sjf"])
@pytest.mark.parametrize(("seed", "longest_h"), [(0, 4), (1, 4), (2, 4), (3, 480), (4, 480)])
def test_the_fast_engine_agrees_with_decide_on_long_queues_of_many_users(order: str, seed: int, longest_h: int) -> None:
    """Usage differs by user, and one GPU is never free. The longer runs span several half-lives."""
    dice = random.Random(f"{order} {seed}")
    rows = [
        replace(
            row,
            owner=UserId(f"u{min(int(dice.paretovariate(0.7)), 15)}"),
            project=ProjectId(dice.choice("pqr")),
            request=gpu_request(1000 * dice.choice([1, 1, 1, 2, 4])),
            cluster_size=dice.choice([1] * 6 + [2, 3]),
            queued_us=NOW_US - 8 * HOUR_US + number * dice.randrange(600_000_000),
            estimate_ms=dice.choice([None, 600_000, 3_600_000, 9_000_000]),
        )
        for number, row in enumerate(plain_rows(70, seed=seed))
    ]
    waiting = [row for row in rows if row.queued_us <= NOW_US]
    coming = sorted((row for row in rows if row.queued_us > NOW_US), key=lambda row: row.queued_us)
    usage = Usage()
    for number in range(0, 15, 2):
        user, project = UserId(f"u{number}"), ProjectId("pqr"[number % 3])
        for milli, hours in ((1000 * number, 9), (-1000 * number, 2)):
            usage = usage.held(milli, user=user, project=project, now_us=NOW_US - hours * HOUR_US)
    agents = nodes(3, gpus_each=4)
    held = {device: 1000 for device in list(agents[0].layout.devices)[:1]}
    snapshot = Snapshot(revision=0, agents=agents, used={agents[0].node_id: held}, queue=waiting, usage=usage)
    future = Future(
        left_us={},
        run_us={row.session_id: dice.randrange(60_000_000, longest_h * HOUR_US) for row in waiting},
        arrivals=[Arrival(at_us=row.queued_us, row=row, run_us=dice.randrange(HOUR_US)) for row in coming],
    )
    policy = replace(Policy.of(PolicyDocument()), order=order)
    found = starts(snapshot, policy, future, now_us=NOW_US)
    assert len(found) > 30
    assert list(found.items()) == list(starts(snapshot, policy, future, now_us=NOW_US, exact=True).items())


def test_a_session_gets_the_reservation_that_the_first_session_can_never_have() -> None:
    """The first never fits, as some devices are held without a session. The last would delay the second."""
    agents = nodes(2, gpus_each=2)
    sizes, ages_h = {"never": 4, "second": 2, "long": 1}, {"never": 3, "second": 2, "long": 1}
    rows = {
        name: replace(
            plain_rows(1, seed=0)[0],
            session_id=SessionId(name),
            request=gpu_request(1000),
            cluster_size=sizes[name],
            queued_us=NOW_US - ages_h[name] * HOUR_US,
            limit_ms=40_000_000,
        )
        for name in sizes
    }
    first = replace(rows["long"], session_id=SessionId("runs"))
    began = DecidedCluster(
        Snapshot(revision=0, agents=agents[:1], used={}, queue=[first], usage=Usage()), Policy(order="fcfs"), seed=0
    )
    assert len(began.run(NOW_US - HOUR_US).starts) == 1
    state = began.snapshot()
    never = {device: 1000 for device in agents[1].layout.devices}
    snapshot = replace(state, agents=agents, used={**state.used, agents[1].node_id: never}, queue=list(rows.values()))
    future = Future(left_us={first.session_id: HOUR_US}, run_us={SessionId(name): HOUR_US for name in rows})
    policy = replace(Policy.of(PolicyDocument()), order="relative_age")
    found = starts(snapshot, policy, future, now_us=NOW_US)
    assert {name: one.at_us - NOW_US for name, one in found.items()} == {"second": HOUR_US, "long": 2 * HOUR_US}
    assert found == starts(snapshot, policy, future, now_us=NOW_US, exact=True)


def test_states_that_the_fast_engine_does_not_support_are_run_by_decide() -> None:
    drawn = random_case(7)
    state, policy = drawn.snapshot, drawn.policy
    identity = quota_id(QuotaScope.PROJECT, "p")
    quota = Quota(id=identity, scope=QuotaScope.PROJECT, name="p")
    owned = replace(quota, own_slots=ResourceSlot({"cuda.shares": 1000}))
    falling = replace(state.queue[0], falls_back_us=drawn.now_us + 10**9)
    by_default = Policy.of(PolicyDocument())
    cases = {
        "conservative backfill": (state, replace(policy, backfill=Backfill.CONSERVATIVE)),
        "random placement": (state, replace(policy, placement="random")),
        "preemption by priority": (state, replace(by_default, order="priority")),
        "quotas with owned devices, which may be reclaimed": (replace(state, quotas={identity: owned}), by_default),
        "quotas by the month": (replace(state, quotas={identity: replace(quota, gpu_hours_per_month=1)}), policy),
        "fallbacks": (replace(state, queue=[falling, *state.queue[1:]]), policy),
    }
    for why, (snapshot, chosen) in cases.items():
        assert unsupported(snapshot, chosen) == why
        found = starts(snapshot, chosen, drawn.future, now_us=drawn.now_us)
        assert found == starts(snapshot, chosen, drawn.future, now_us=drawn.now_us, exact=True)
        assert found


@pytest.mark.parametrize("order", ["fair_share", "relative_age"])
def test_the_fast_engine_orders_sessions_of_the_same_time_as_decide_does(order: str) -> None:
    """Equal scores of one account are ordered by id, close scores of different accounts by usage."""
    dice = random.Random(order)
    rows = [
        replace(
            row,
            session_id=SessionId(f"s{dice.randrange(10**6):06}"),
            owner=UserId(dice.choice("ab")),
            queued_us=NOW_US - HOUR_US - dice.choice([0, 0, 1, 999, 1000]),
            request=gpu_request(1000),
            cluster_size=1,
            estimate_ms=600_000,
            limit_ms=7_200_000 + number,
        )
        for number, row in enumerate(plain_rows(40, seed=0))
    ]
    snapshot = Snapshot(revision=0, agents=pool(1), used={}, queue=rows, usage=Usage())
    policy = replace(Policy.of(PolicyDocument()), order=order)
    future = Future(left_us={}, run_us={row.session_id: HOUR_US for row in rows})
    found = starts(snapshot, policy, future, now_us=NOW_US)
    assert len(found) == len(rows)
    assert list(found.items()) == list(starts(snapshot, policy, future, now_us=NOW_US, exact=True).items())


@pytest.mark.parametrize("exact", [False, True])
def test_no_more_tasks_of_an_array_start_than_wait(exact: bool) -> None:
    """When more active tasks end than wait, the array's limit no longer matters."""
    rows = plain_rows(2, seed=0)
    array = replace(rows[0], tasks=Intervals.parse("3-4"), tasks_startable=1, request=gpu_request(1000), cluster_size=1)
    cluster = cluster_of(_running_tasks(array, count=4), Policy(order="fcfs"), exact=exact)
    assert [start.run_id for start in cluster.run(NOW_US).starts] == []
    for number in range(4):
        cluster.end(task_id(array.session_id, index=number), now_us=NOW_US + 1)
    found = cluster.run(NOW_US + 1).starts
    assert [(start.name, start.run_id) for start in found] == [("s0000", "s0000_3"), ("s0000", "s0000_4")]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("is_canceled", [False, True])
def test_the_next_task_of_a_limited_array_follows_one_that_was_queued_again(exact: bool, is_canceled: bool) -> None:
    """A preempted or retried task still counts towards the limit of running tasks."""
    array = replace(_first_row(SessionId("ses_a")), tasks=Intervals.parse("1-2"), tasks_startable=0)
    again = _first_row(SessionId("ses_a_0"))
    snapshot = Snapshot(revision=0, agents=pool(4), used={}, queue=[array, again], usage=Usage())
    cluster = cluster_of(snapshot, Policy(order="fcfs"), exact=exact)
    if is_canceled:
        assert cluster.leave(again.session_id)
    else:
        assert [start.run_id for start in cluster.run(NOW_US).starts] == ["ses_a_0"]
        cluster.end(again.session_id, now_us=NOW_US + 1)
    assert [start.run_id for start in cluster.run(NOW_US + 1).starts] == ["ses_a_1"]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_a_task_that_was_queued_again_starts_as_itself(exact: bool, waits: bool) -> None:
    """Whether other tasks of its array still wait or not."""
    array = replace(_first_row(SessionId("ses_a")), tasks=Intervals.parse("1-2"), tasks_startable=2)
    again = _first_row(SessionId("ses_a_0"))
    queue = [again, array] if waits else [again]
    snapshot = Snapshot(revision=0, agents=pool(4), used={}, queue=queue, usage=Usage())
    future = Future(left_us={}, run_us={row.session_id: HOUR_US + at for at, row in enumerate(queue)})
    found = starts(snapshot, Policy(order="fcfs"), future, now_us=NOW_US, exact=exact)
    assert found == {row.session_id: (NOW_US, NOW_US + HOUR_US + at) for at, row in enumerate(queue)}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_sessions_that_depend_on_a_job_array_start_after_its_last_task(exact: bool, gpus: int) -> None:
    """One task runs, one was queued again, and two wait."""
    array = replace(_first_row(SessionId("ses_a")), tasks=Intervals.parse("0"), tasks_startable=1)
    began = DecidedCluster(
        Snapshot(revision=0, agents=pool(gpus), used={}, queue=[array], usage=Usage()), Policy(order="fcfs"), seed=0
    )
    assert [start.run_id for start in began.run(NOW_US - HOUR_US).starts] == ["ses_a_0"]
    again, left = _first_row(SessionId("ses_a_1")), replace(array, tasks=Intervals.parse("2-3"), tasks_startable=2)
    link = Dependency(session_id=array.session_id, condition=DependencyCondition.AFTER_OK)
    after = replace(_first_row(SessionId("after")), depends_on=(link,))
    snapshot = replace(
        began.snapshot(), queue=[after, again, left], dependencies={array.session_id: SessionState.QUEUED}
    )
    future = Future(
        left_us={SessionId("ses_a_0"): 5 * HOUR_US},
        run_us={SessionId("ses_a"): 2 * HOUR_US, SessionId("ses_a_1"): HOUR_US, SessionId("after"): HOUR_US},
    )
    found = starts(snapshot, Policy(order="fcfs"), future, now_us=NOW_US, exact=exact)
    last = {1: 10 * HOUR_US, 2: 5 * HOUR_US, 3: 5 * HOUR_US}[gpus]
    assert found[SessionId("after")].at_us == NOW_US + last
    failing = replace(snapshot, array_ends={array.session_id: SessionState.FAILED})
    found = starts(failing, Policy(order="fcfs"), future, now_us=NOW_US, exact=exact)
    assert set(found) == {again.session_id, array.session_id}, "a task that failed before makes the array fail"


def _first_row(name: SessionId) -> PendingRow:
    return replace(plain_rows(1, seed=0)[0], session_id=name, request=gpu_request(1000), cluster_size=1)


def _running_tasks(array: PendingRow, *, count: int) -> Snapshot:
    """Four GPUs, held by tasks of the array."""
    agents = pool(count)
    tasks = replace(array, tasks=Intervals.parse(f"0-{count - 1}"), tasks_startable=count)
    began = DecidedCluster(
        Snapshot(revision=0, agents=agents, used={}, queue=[tasks], usage=Usage()), Policy(order="fcfs"), seed=0
    )
    assert len(began.run(NOW_US - HOUR_US).starts) == count
    return replace(began.snapshot(), queue=[array])


def _found(drawn: RandomForecastCase, *, exact: bool) -> Mapping[SessionId, SimulatedStart]:
    return starts(drawn.snapshot, drawn.policy, drawn.future, now_us=drawn.now_us, exact=exact)


def _written(drawn: RandomForecastCase, *, exact: bool) -> bytes:
    return repr(list(_found(drawn, exact=exact).items())).encode()
