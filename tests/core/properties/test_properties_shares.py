"""With a standing backlog, GPU-time converges to the shares of projects and of their users."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.fairshare import Usage
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.simulation.cluster import pool
from aliquot_schema.ids import DeviceId, NodeId, ProjectId, QuotaId, UserId
from aliquot_schema.policies import Backfill, Weights
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from core_cluster import row
from core_effort import examples

POLICY = Policy(order="fair_share", backfill=Backfill.EASY, weights=Weights(short=0), placement="first_fit")


@dataclass(frozen=True, kw_only=True)
class Home:
    """A user's project, weight in it, and the run time of the user's sessions."""

    project: str
    weight: int = 1
    minutes: int = 30


@examples(5)
@given(
    users=st.lists(
        st.builds(Home, project=st.sampled_from("pqr"), weight=st.integers(1, 3), minutes=st.integers(20, 40)),
        min_size=2,
        max_size=4,
    ),
    weights=st.fixed_dictionaries({project: st.integers(1, 3) for project in "pqr"}),
)
def test_gpu_time_converges_to_the_shares_of_random_users(users: list[Home], weights: dict[str, int]) -> None:
    homes = {f"u{number}": home for number, home in enumerate(users)}
    got = _gpu_time(homes, weights, sessions=500)
    for name, share in _shares(homes, weights).items():
        assert got[name] / sum(got.values()) == pytest.approx(share, rel=0.15)


def test_gpu_time_converges_to_the_shares_of_unequal_projects_with_unequal_users() -> None:
    homes = {
        "ann": Home(project="p", weight=3),
        "bob": Home(project="p"),
        "cy": Home(project="q", minutes=45),
        "dan": Home(project="q", weight=2, minutes=15),
        "eve": Home(project="r", weight=7),
    }
    weights = {"p": 1, "q": 2, "r": 5}
    shares = _shares(homes, weights)
    assert {name: round(share, 3) for name, share in shares.items()} == {
        "ann": 0.094,
        "bob": 0.031,
        "cy": 0.083,
        "dan": 0.167,
        "eve": 0.625,
    }
    got = _gpu_time(homes, weights, sessions=1600)
    for name, share in shares.items():
        assert got[name] / sum(got.values()) == pytest.approx(share, rel=0.1)


def _shares(homes: Mapping[str, Home], weights: Mapping[str, int]) -> dict[str, float]:
    """Each user's share: the project's among active projects times the user's within it."""
    projects = sum(weights[project] for project in {home.project for home in homes.values()})
    users = {project: sum(home.weight for home in homes.values() if home.project == project) for project in weights}
    return {name: weights[home.project] / projects * home.weight / users[home.project] for name, home in homes.items()}


def _gpu_time(homes: Mapping[str, Home], weights: Mapping[str, int], *, sessions: int) -> dict[str, int]:
    """Milli x milliseconds by user, after `sessions` sessions on two GPUs, while every user has one waiting."""
    quotas = _quotas(QuotaScope.USER, {name: home.weight for name, home in homes.items()})
    quotas |= _quotas(QuotaScope.PROJECT, weights)
    usage, now_us, agents, known = Usage(), 0, pool(2), PassCache()
    queue = {name: _session(name, home, number=0) for name, home in homes.items()}
    running: list[tuple[int, PendingRow]] = []
    for number in range(sessions):
        held = {NodeId("pool"): {DeviceId("pool"): 1000 * len(running)}}
        rows = tuple(queue.values())
        state = Snapshot(revision=0, agents=agents, used=held, queue=rows, usage=usage, quotas=quotas)
        plan = decide(state, POLICY, now_us=now_us, seed=0, known=known, explains=False)
        for name in [placement.session_id.partition(".")[0] for placement in plan.placements]:
            found, home = queue[name], homes[name]
            running.append((now_us + home.minutes * 60_000_000, found))
            usage = usage.held(1000, user=found.owner, project=found.project, now_us=now_us)
            queue[name] = _session(name, home, number=number + 1)
        running.sort(key=lambda one: one[0])
        now_us, ended = running.pop(0)
        usage = usage.held(-1000, user=ended.owner, project=ended.project, now_us=now_us)
    return {str(user): usage.record(project, user).charged for project, user in usage.balances}


def _session(name: str, home: Home, *, number: int) -> PendingRow:
    return row(f"{name}.{number:05}", owner=UserId(name), project=ProjectId(home.project))


def _quotas(scope: QuotaScope, weights: Mapping[str, int]) -> dict[QuotaId, Quota]:
    return {
        quota_id(scope, name): Quota(id=quota_id(scope, name), scope=scope, name=name, weight=weight)
        for name, weight in weights.items()
    }
