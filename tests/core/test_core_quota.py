"""Quotas: refusals and reasons, borrowing, reclaiming, and refusals at submission."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.fairshare import Usage, starts_us
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.quota import HOUR, QuotaTracker, impossible_under, too_many_queued
from aliquot.core.scheduler.shares import weight_of
from aliquot_schema.ids import AgentId, DeviceId, NodeId, ProjectId, QuotaId, SessionId, SlotName, UserId
from aliquot_schema.policies import Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.slots import UNLIMITED, ResourceSlot, parse_amount
from aliquot_schema.sessions import Fallback, SessionSpec
from core_cluster import row, snapshot
from core_effort import examples

ANN, LAB = UserId("ann"), ProjectId("lab")
NOW_US = 1_793_500_000_000_000
"""In November 2026."""


def quota(key: str, *, most: dict[str, str] | None = None, own: dict[str, str] | None = None, **more: Any) -> Quota:
    """`quota("user:ann", most={"cpu": "1"})`."""
    scope, name = key.split(":")
    return Quota(
        id=quota_id(QuotaScope(scope), name),
        scope=QuotaScope(scope),
        name=name,
        max_slots=ResourceSlot.parse(most or {}),
        own_slots=ResourceSlot.parse(own or {}),
        **more,
    )


def asks(name: str = "a", *, user: str = "ann", project: str = "lab", **more: Any) -> PendingRow:
    return row(name, owner=UserId(user), project=ProjectId(project), **more)


def holds(name: str, *, user: str = "ann", project: str = "lab", leaving: bool = False, **slots: int) -> RunningRow:
    """One kernel that holds amounts in base units."""
    spec = {SlotName(slot.replace("_", ".")): {DeviceId("x"): amount} for slot, amount in slots.items()}
    kernel = KernelPlacement(rank=0, agent_id=AgentId("x"), node_id=NodeId("x"), spec=spec)
    return RunningRow(
        session_id=SessionId(name),
        ends_us=0,
        kernels=(kernel,),
        milli=0,
        owner=UserId(user),
        project=ProjectId(project),
        is_leaving=leaving,
    )


def book(
    *quotas: Quota,
    running: Iterable[RunningRow] = (),
    preempt: PreemptScope = PreemptScope.PREEMPTIBLE,
    usage: Usage | None = None,
) -> QuotaTracker:
    state = snapshot([], [], quotas={one.id: one for one in quotas}, running=tuple(running), usage=usage or Usage())
    return QuotaTracker(state, policy=Policy(preemption=Preemption(preempt=preempt)), now_us=NOW_US)


def refused(key: str, slot: str, requested: str, available: str) -> Verdict:
    evidence = Evidence(quota=QuotaId(key), slot=slot, requested=requested, available=available)
    return Verdict(reason=Reason.QUOTA, evidence=evidence)


def in_short(verdict: Verdict | None) -> Verdict | None:
    """The verdict without limit and held amount, after checking them against the available one."""
    if verdict is None:
        return None
    found = verdict.evidence
    amounts = [
        parse_amount((found.slot or "").replace("device", "shares"), text or "")
        for text in (found.limit, found.held, found.available)
    ]
    most, held, left = (amount for amount in amounts if isinstance(amount, int))
    assert max(most - held, 0) == left
    return replace(verdict, evidence=replace(found, limit=None, held=None, may_borrow=False))


def test_without_quotas_no_session_is_refused_borrows_or_reclaims() -> None:
    empty = book(running=[holds("r", cuda_device=9)])
    assert empty.refusal(asks()) is None
    assert (empty.borrows(asks()), empty.may_reclaim(asks())) == (False, False)
    assert not empty.is_borrower(holds("r", cuda_device=9))
    empty.take(asks())
    empty.release(holds("r", cuda_device=9))


@pytest.mark.parametrize("key", ["user:ann", "project:lab", "cluster:"])
@pytest.mark.parametrize(
    ("most", "asked", "kernels", "expected"),
    [
        ({"cuda.device": "4"}, {"cuda_device": "1"}, 2, None),
        ({"cuda.device": "4"}, {"cuda_device": "1"}, 3, ("cuda.device", "3", "2")),
        ({"cuda.shares": "4"}, {"cuda_device": "3"}, 1, ("cuda.device", "3", "2")),
        ({"cuda.device": "4"}, {"cuda_shares": "2.5"}, 1, ("cuda.shares", "2.50", "2.00")),
        ({"cuda.shares": "2.5"}, {"cuda_device": "1"}, 1, ("cuda.device", "1", "0.50")),
        ({"cuda.shares": "1"}, {"cuda_device": "1"}, 1, ("cuda.device", "1", "0")),
        ({"cuda.shares": "9", "cuda.device": "2"}, {"cuda_shares": "0.1"}, 1, ("cuda.shares", "0.10", "0.00")),
        ({"rocm.device": "1"}, {"cuda_device": "3"}, 1, None),
        ({"cpu": "8"}, {"cuda_device": "1", "cpu": "5"}, 1, ("cpu", "5", "4")),
        ({"mem": "8g"}, {"mem": "8g"}, 1, ("mem", "8g", "7g")),
        ({"cuda.device": "unlimited", "cpu": "8"}, {"cuda_device": "99"}, 1, None),
    ],
)
def test_a_request_that_exceeds_a_limit_with_the_held_devices_is_refused(
    key: str, most: dict[str, str], asked: dict[str, str], kernels: int, expected: tuple[str, str, str] | None
) -> None:
    running = [holds("r", cuda_device=1, cpu=4), holds("s", cuda_shares=1000, mem=2**30)]
    found = book(quota(key, most=most), running=running).refusal(asks(kernels=kernels, **asked))
    assert in_short(found) == (None if expected is None else refused(key, *expected))


def test_quotas_of_other_users_and_projects_do_not_apply() -> None:
    others = book(quota("user:bob", most={"cuda.device": "1"}), quota("project:shop", most={"cuda.device": "1"}))
    assert others.refusal(asks(cuda_device="5")) is None
    both = book(quota("user:ann", most={"cuda.device": "9"}), quota("project:lab", most={"cuda.device": "3"}))
    assert in_short(both.refusal(asks(cuda_device="5"))) == refused("project:lab", "cuda.device", "5", "3")


def test_a_pass_counts_its_own_grants_and_releases_against_the_quota() -> None:
    gone = holds("r", cuda_device=1)
    pass_book = book(quota("user:ann", most={"cuda.device": "2"}), running=[gone])
    trial = pass_book.copy()
    pass_book.take(asks())
    assert in_short(pass_book.refusal(asks())) == refused("user:ann", "cuda.device", "1", "0")
    assert trial.refusal(asks()) is None
    pass_book.release(gone)
    assert pass_book.refusal(asks()) is None


def test_no_session_starts_in_a_month_whose_gpu_hours_are_spent() -> None:
    limited = quota("project:lab", gpu_hours_per_month=2)
    spent = Usage().held(2000, user=UserId("bob"), project=LAB, now_us=NOW_US - 3_600_000_000)
    verdict = book(limited, usage=spent).refusal(asks(cpu="1"))
    until_us = starts_us(202612)
    assert verdict == Verdict(reason=Reason.QUOTA, evidence=Evidence(quota=limited.id, limit="2", until_us=until_us))
    nearly = Usage().held(2000, user=UserId("bob"), project=LAB, now_us=NOW_US - 3_599_999_000)
    assert book(limited, usage=nearly).refusal(asks()) is None
    assert spent.charged_in_month(QuotaScope.PROJECT, LAB, NOW_US) == 2 * HOUR


@pytest.mark.parametrize(
    ("preempt", "preemptible", "expected"),
    [
        (PreemptScope.PREEMPTIBLE, False, refused("project:lab", "cuda.device", "2", "1")),
        (PreemptScope.PREEMPTIBLE, True, None),
        (PreemptScope.ANY, False, None),
        (PreemptScope.NONE, False, None),
    ],
)
def test_the_policy_decides_which_sessions_may_borrow(
    preempt: PreemptScope, preemptible: bool, expected: Verdict | None
) -> None:
    lending = book(
        quota("project:lab", own={"cuda.device": "3"}), running=[holds("r", cuda_shares=2000)], preempt=preempt
    )
    borrowing = asks(cuda_device="2", is_preemptible=preemptible)
    assert lending.borrows(borrowing)
    assert in_short(lending.refusal(borrowing)) == expected
    assert lending.refusal(asks()) is None


def test_a_project_can_reclaim_only_devices_that_it_owns() -> None:
    pass_book = book(
        quota("project:lab", own={"cuda.device": "3"}),
        quota("user:bob", own={"cuda.device": "1"}),
        running=[holds("r", cuda_device=1)],
    )
    assert pass_book.may_reclaim(asks(cuda_device="2", cpu="64"))
    assert not pass_book.may_reclaim(asks(cuda_device="3"))
    assert not pass_book.may_reclaim(asks(rocm_device="1"))
    assert not pass_book.may_reclaim(asks(cpu="1"))
    assert not pass_book.may_reclaim(asks(project="shop"))
    assert pass_book.may_reclaim(asks(user="bob", cuda_device="1"))
    assert not pass_book.may_reclaim(asks(user="bob", cuda_device="2"))


def test_a_borrowing_project_keeps_the_devices_that_it_owns() -> None:
    one, two, five = holds("one", cuda_device=1), holds("two", cuda_device=2), holds("five", cuda_device=5)
    lending = book(quota("project:lab", own={"cuda.device": "6"}), running=[one, two, five])
    assert [lending.is_borrower(held) for held in (one, two, five)] == [True, True, False]
    lending.release(one)
    assert [lending.is_borrower(held) for held in (two, five)] == [False, False]


def test_a_leaving_session_is_not_preempted_again_and_still_counts_as_held() -> None:
    leaving, stays = holds("l", cuda_device=2, leaving=True), holds("s", cuda_device=2)
    lending = book(quota("project:lab", own={"cuda.device": "2"}), running=[leaving, stays])
    assert [lending.is_borrower(held) for held in (leaving, stays)] == [False, False]
    assert lending.borrows(asks())


def test_users_without_owned_devices_borrow_when_another_project_owns_some() -> None:
    stranger = holds("s", user="cy", project="shop", cuda_device=1)
    host = holds("h", user="cy", project="shop", cpu=4)
    lending = book(quota("project:lab", own={"cuda.device": "6"}), running=[stranger, host])
    assert (lending.is_borrower(stranger), lending.is_borrower(host)) == (True, False)
    assert not lending.borrows(asks(user="cy", project="shop", cuda_device="9"))
    assert lending.refusal(asks(user="cy", project="shop", cuda_device="9")) is None
    assert not book(quota("user:bob", most={"cuda.device": "6"}), running=[stranger]).is_borrower(stranger)


def test_a_session_with_accelerators_is_not_preempted_for_its_memory() -> None:
    own = {"cuda.device": "2", "mem": "1g"}
    inside = holds("i", cuda_device=2, mem=2**32)
    assert not book(quota("user:ann", own=own), running=[inside]).is_borrower(inside)
    plain = holds("p", mem=2**31)
    assert book(quota("user:ann", own=own), running=[inside, plain]).is_borrower(plain)


@examples(100)
@given(
    own=st.integers(0, 6000),
    sizes=st.lists(st.integers(1, 3000), max_size=6),
    asked=st.lists(st.integers(1, 3000), max_size=6),
    preempt=st.sampled_from(PreemptScope),
    most=st.integers(1, 9000),
)
def test_limits_hold_and_reclaiming_never_takes_owned_devices(
    own: int, sizes: list[int], asked: list[int], preempt: PreemptScope, most: int
) -> None:
    running = [holds(f"r{index}", cuda_shares=size) for index, size in enumerate(sizes)]
    limits = replace(
        quota("project:lab"),
        own_slots=ResourceSlot({"cuda.shares": own}),
        max_slots=ResourceSlot({"cuda.shares": most}),
    )
    pass_book = book(limits, running=running, preempt=preempt)
    held = sum(sizes)
    for size in asked:
        wanted = replace(asks(), request=((SlotName("cuda.shares"), size),))
        assert not (pass_book.borrows(wanted) and pass_book.may_reclaim(wanted))
        if own:
            assert pass_book.borrows(wanted) == (held + size > own)
            assert pass_book.may_reclaim(wanted) == (held + size <= own)
        is_open = held + size <= most and not (preempt is PreemptScope.PREEMPTIBLE and own and held + size > own)
        assert (pass_book.refusal(wanted) is None) == is_open
        if is_open:
            pass_book.take(wanted)
            held += size
    for one, size in zip(running, sizes, strict=True):
        if pass_book.is_borrower(one):
            pass_book.release(one)
            held -= size
            assert held >= own


def spec_of(slots: dict[str, str], *, kernels: int = 1, fallback: dict[str, str] | None = None) -> SessionSpec:
    fallbacks = [] if fallback is None else [ResourceSlot.parse(fallback)]
    return SessionSpec(
        argv=("true",),
        slots=ResourceSlot.parse(slots),
        cluster_size=kernels,
        fallbacks=tuple(Fallback(slots=one, cluster_size=1, gpu_memory_bytes=None, after_ms=1) for one in fallbacks),
    )


@pytest.mark.parametrize(
    ("spec", "limit", "expected"),
    [
        (spec_of({"cuda.device": "4"}), quota("user:ann", most={"cuda.shares": "4"}), None),
        (
            spec_of({"cuda.device": "3"}, kernels=2),
            quota("cluster:", most={"cuda.shares": "4.5"}),
            ("cuda.device", "6", "4.50"),
        ),
        (spec_of({"cpu": "3"}, kernels=2), quota("project:lab", most={"cpu": "5"}), ("cpu", "6", "5")),
        (spec_of({"cpu": "9"}, fallback={"cpu": "5"}), quota("project:lab", most={"cpu": "5"}), None),
        (spec_of({"cpu": "9"}, fallback={"cpu": "6"}), quota("project:lab", most={"cpu": "5"}), ("cpu", "9", "5")),
        (spec_of({"cpu": "9"}), quota("user:bob", most={"cpu": "5"}), None),
        (spec_of({"cpu": "9"}), quota("user:ann", own={"cpu": "5"}), None),
        (spec_of({"cpu": "9"}), quota("user:ann", gpu_hours_per_month=0), ("gpu_hours", "", "0")),
        (spec_of({"cpu": "9"}), quota("user:ann", gpu_hours_per_month=1), None),
    ],
)
def test_a_request_that_its_quota_never_allows_is_refused_at_submission(
    spec: SessionSpec, limit: Quota, expected: tuple[str, str, str] | None
) -> None:
    found = impossible_under(spec, {limit.id: limit}, user=ANN, project=LAB)
    assert (found and (found.quota, found.resource, found.requested, found.limit)) == (
        expected and (limit.id, *expected)
    )


def test_a_quota_limits_the_number_of_waiting_tasks() -> None:
    waiting = {"user:ann": 3, "project:lab": 7}
    quotas = {one.id: one for one in (quota("user:ann", max_queued=5), quota("project:lab"))}

    def refusal(tasks: int) -> str | None:
        found = too_many_queued(tasks, quotas, queued=lambda one: waiting[one.id], user=ANN, project=LAB)
        return found and found.message

    assert refusal(2) is None
    assert refusal(3) == (
        "User ann may have at most 5 waiting tasks, and 6 would wait. Submit fewer, or try again when some have started"
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, 1000),
        (quota("user:ann"), 1000),
        (quota("user:ann", most={"cpu": "64"}), 1000),
        (quota("user:ann", most={"cuda.device": "8"}), 8000),
        (quota("user:ann", most={"cuda.device": "8"}, own={"cuda.shares": "2.5", "rocm.device": "1"}), 3500),
        (replace(quota("user:ann"), max_slots=ResourceSlot({"cuda.device": UNLIMITED})), 1000),
        (quota("user:ann", own={"cuda.device": "8"}, weight=7), 7),
    ],
)
def test_the_fair_share_weight_comes_from_the_quota(limits: Quota | None, expected: int) -> None:
    assert weight_of(limits) == expected
