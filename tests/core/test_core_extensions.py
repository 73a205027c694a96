"""Extensions: a running session gets a later time limit if no session and no booking starts later for it."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import BookingId, ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import SlotAmounts
from allocation_devices import gpus
from booking_scenes import booked, booking
from core_cluster import NOW_US, on, placed, row
from ordering_scenes import EASY, SECOND_US, busy, passed, runs

TWO = on("x", gpus(2))
POLICIES = [replace(EASY, backfill=backfill) for backfill in Backfill]
BOTH = {"cuda.device": {"cuda0": 1, "cuda1": 1}}
FIRST = {"cuda.device": {"cuda0": 1}}
HOUR_S = 3600


def asking(name: str = "r", *, ends_in_s: int = 600, more_s: int = HOUR_S, spec: Any = BOTH, **more: Any) -> RunningRow:
    """A session with a time limit that requests a later one."""
    found = runs(name, TWO, spec, ends_in_s=ends_in_s)
    ends_us = NOW_US + ends_in_s * SECOND_US
    fields = {"owner": UserId("a"), "started_us": NOW_US - HOUR_S * SECOND_US} | more
    return replace(found, limit_us=ends_us, asks_limit_us=ends_us + more_s * SECOND_US, **fields)


def scene(
    *running: RunningRow, queue: Sequence[PendingRow] = (), bookings: Sequence[Booking] = (), **more: Any
) -> Snapshot:
    return busy([TWO], running, queue, bookings=tuple(bookings), **more)


def refusal(plan: Plan, name: str = "r") -> str | None:
    (found,) = (one for one in plan.extensions if one.session_id == name)
    return found.refusal


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_an_extension_is_granted_when_no_session_waits(policy: Any) -> None:
    plan = passed(scene(asking()), policy)
    assert refusal(plan) is None
    assert plan.extensions[0].limit_us == NOW_US + (600 + HOUR_S) * SECOND_US


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_refused_extension_names_the_delayed_session_and_its_delay(policy: Any) -> None:
    plan = passed(scene(asking(), queue=[row("next", cuda_device="1", owner=UserId("bob"))]), policy)
    assert refusal(plan) == "1 session would start later: next of bob by 1 h"


def test_a_session_far_back_in_the_queue_can_prevent_an_extension() -> None:
    """EASY backfill reserves for the head only."""
    held = asking("r", spec={"cuda.device": {"cuda1": 1}}, ends_in_s=900)
    other = runs("other", TWO, FIRST, ends_in_s=600)
    queue = [row("head", at=1, cuda_device="1", limit_ms=1000 * HOUR_S), row("behind", at=2, cuda_device="1")]
    assert refusal(passed(scene(held, other, queue=queue))) == "1 session would start later: behind by 55 min"


def test_a_session_that_uses_other_devices_does_not_prevent_an_extension() -> None:
    queue = [row("next", cuda_device="1", where=replace(row("x").where, models=("nothing*",)))]
    assert refusal(passed(scene(asking(), queue=queue))) is None


def test_a_booking_of_its_devices_prevents_an_extension_and_a_later_booking_does_not() -> None:
    kept = booked("demo", ("node-x", "cuda0"), starts_min=30, owner=UserId("bob"))
    assert refusal(passed(scene(asking(), bookings=[kept]))) == (
        "bob has booked its devices from 1970-01-01 00:46 to 1970-01-01 01:46 UTC (demo)".replace(" to", " UTC to")
    )
    later = booked("demo", ("node-x", "cuda0"), starts_min=70, owner=UserId("bob"))
    assert refusal(passed(scene(asking(), bookings=[later]))) is None
    assert refusal(passed(scene(asking(is_preemptible=True), bookings=[kept]))) is None


def test_a_booking_accepted_in_the_same_pass_prevents_an_extension() -> None:
    plan = passed(scene(asking(), bookings=[booking("p", starts_min=20, gpus=2)]))
    assert refusal(plan) is not None
    assert [one.state for one in plan.bookings] == ["booked"]


def test_sessions_waiting_for_its_end_or_its_quota_prevent_an_extension() -> None:
    linked = row("then", after=[("r", "after_ok")], owner=UserId("bob"))
    plan = passed(replace(scene(asking(spec=FIRST), queue=[linked]), dependencies={SessionId("r"): "running"}))  # type: ignore[dict-item]
    assert refusal(plan) == "1 session would start later: then of bob"
    name = quota_id(QuotaScope.PROJECT, "p")
    quota = Quota(id=name, scope=QuotaScope.PROJECT, name="p", max_slots=SlotAmounts({"cuda.device": 1}))
    waiting = row("waiting", cuda_device="1", owner=UserId("bob"), project=ProjectId("p"))
    plan = passed(scene(asking(spec=FIRST, project=ProjectId("p")), queue=[waiting], quotas={name: quota}))
    assert refusal(plan) == "1 session would start later: waiting of bob"


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_sessions_of_the_same_owner_do_not_prevent_an_extension(policy: Any) -> None:
    """A next pipeline step, and a session waiting for its devices."""
    linked = row("then", after=[("r", "after_ok")], owner=UserId("a"))
    own = row("next", cuda_device="1", owner=UserId("a"))
    state = replace(scene(asking(), queue=[linked, own]), dependencies={SessionId("r"): "running"})  # type: ignore[dict-item]
    assert refusal(passed(state, policy)) is None


def test_two_extensions_of_one_pass_are_decided_one_after_the_other() -> None:
    """Each alone delays none: the waiting session takes the other's device."""
    one, two = asking("p", spec=FIRST), asking("q", spec={"cuda.device": {"cuda1": 1}})
    plan = passed(scene(one, two, queue=[row("next", cuda_device="1")]))
    assert [decision.refusal is None for decision in plan.extensions] == [True, False]


def test_the_rest_of_the_pass_plans_with_the_extended_end() -> None:
    """A session that still fits starts, and an extended one holds its devices longer."""
    held = asking(spec=FIRST)
    plan = passed(scene(held, queue=[row("now", cuda_device="1")]))
    assert refusal(plan) is None
    assert placed(plan) == ["now"]


def test_a_refused_extension_names_the_node_that_leaves_earlier() -> None:
    leaving = replace(TWO, until_us=NOW_US + 1200 * SECOND_US)
    state = busy([leaving], [asking()], [])
    assert (refusal(passed(state)) or "").startswith("Node node-x leaves at ")


def test_of_several_nodes_that_leave_earlier_the_first_in_natural_order_is_named() -> None:
    nodes = [replace(on(name, gpus(2)), until_us=NOW_US + 1200 * SECOND_US) for name in ("gpu10", "gpu2")]
    kernels = tuple(kernel for node in nodes for kernel in runs("r", node, BOTH, ends_in_s=600).kernels)
    state = busy(nodes, [replace(asking(), kernels=kernels)], [])
    assert (refusal(passed(state)) or "").startswith("Node node-gpu2 leaves at ")


def test_the_own_booking_of_a_session_does_not_prevent_its_extension() -> None:
    own = booked("own", ("node-x", "cuda0"), ("node-x", "cuda1"), starts_min=-10, used_us=1)
    assert refusal(passed(scene(asking(booking=BookingId("own")), bookings=[own]))) is None
