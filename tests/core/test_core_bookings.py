"""Bookings: acceptance, scheduling around them, and preemption for them."""

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.reason_text import explain
from aliquot_schema.bookings import Booking, BookingKind, BookingState
from aliquot_schema.ids import BookingId, NodeId, ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpus
from booking_scenes import MINUTE_US, after_pass, booked, booking, outcome
from core_cluster import NOW_US, on, placed, row, waits
from ordering_scenes import EASY, busy, passed, runs

TWO = on("x", gpus(2))
C0, C1 = ("node-x", "cuda0"), ("node-x", "cuda1")
POLICIES = [replace(EASY, backfill=backfill) for backfill in Backfill]


def scene(*bookings: Booking, queue: list[object] | None = None, running: list[object] | None = None) -> Snapshot:
    return busy([TWO], running or [], queue or [], bookings=bookings)  # type: ignore[arg-type]


def devices_of(plan: Plan, name: str) -> set[tuple[str, str]]:
    (found,) = (one for one in plan.placements if one.session_id == name)
    return {(kernel.node_id, device) for kernel in found.kernels for given in kernel.spec.values() for device in given}


def test_bookings_of_one_window_never_exceed_the_devices() -> None:
    plan = passed(scene(booking("p", starts_min=60, created_us=1), booking("q", starts_min=90, gpus=2, created_us=2)))
    assert outcome(plan, "p")[0] is BookingState.BOOKED
    state, _, why = outcome(plan, "q")
    assert state is BookingState.REFUSED
    assert why is not None
    assert why.startswith("1 GPU can be free for the whole window, and 2 were asked for. In the way: p of a from")


def test_a_refusal_names_only_what_holds_gpus_that_would_do() -> None:
    old, new = on("x", gpus(2, model="old")), on("y", gpus(2, model="new"))
    held = {"cuda.device": {"cuda0": 1, "cuda1": 1}}
    running = [
        runs("a", new, {"cpu": {"cpu0": 1000}}, ends_in_s=10),
        runs("b", old, held, ends_in_s=10),
        runs("c", new, held, ends_in_s=10),
    ]
    others = (booked("q", ("node-x", "cuda0"), starts_min=60), booking("p", starts_min=60, models=("new",)))
    state, _, why = outcome(passed(busy([old, new], running, [], bookings=others)), "p")
    assert state is BookingState.REFUSED
    assert why is not None
    assert [word in why for word in ("session a", "session b", "session c", "q of")] == [False, False, True, False]


def test_bookings_of_adjacent_windows_may_have_the_same_device() -> None:
    first, second = booking("p", starts_min=60, gpus=2, created_us=1), booking("q", starts_min=120, gpus=2)
    plan = passed(scene(first, second))
    assert [outcome(plan, name)[:2] for name in ("p", "q")] == [(BookingState.BOOKED, [C0, C1])] * 2


def test_a_booking_takes_the_node_that_it_fills_best() -> None:
    four, two = on("x", gpus(4)), on("y", gpus(2))
    plan = passed(busy([four, two], [], [], bookings=(booking("p", starts_min=1, gpus=2),)))
    assert outcome(plan, "p")[1] == [("node-y", "cuda0"), ("node-y", "cuda1")]
    plan = passed(busy([four, two], [], [], bookings=(booking("p", starts_min=1, gpus=5),)))
    assert [node for node, _ in outcome(plan, "p")[1]] == ["node-x"] * 4 + ["node-y"]


@pytest.mark.parametrize(
    ("ends_us", "is_preemptible", "state"),
    [
        (None, False, BookingState.REFUSED),
        (NOW_US + 61 * MINUTE_US, False, BookingState.REFUSED),
        (NOW_US + 60 * MINUTE_US, False, BookingState.BOOKED),
        (None, True, BookingState.BOOKED),
    ],
)
def test_devices_of_a_running_session_can_be_booked_from_its_certain_end(
    ends_us: int | None, is_preemptible: bool, state: BookingState
) -> None:
    spec = {"cuda.device": {"cuda0": 1, "cuda1": 1}}
    runner = replace(runs("r", TWO, spec, ends_in_s=10), limit_us=ends_us, is_preemptible=is_preemptible)
    assert outcome(passed(scene(booking("p", starts_min=60), running=[runner])), "p")[0] is state


def test_a_booking_of_named_devices_is_accepted_or_refused_with_their_holder() -> None:
    wanted = booked("p", C1, starts_min=60).devices
    state = scene(booked("q", C1, starts_min=0, owner=UserId("b")), booking("p", starts_min=30, wanted=wanted))
    found, _, why = outcome(passed(state), "p")
    assert found is BookingState.REFUSED
    assert why == "cuda1 on node node-x is booked by b from 1970-01-01 00:16 UTC to 1970-01-01 01:16 UTC (q)"
    later = replace(state, bookings=(state.bookings[0], booking("p", starts_min=60, wanted=wanted)))
    assert outcome(passed(later), "p")[:2] == (BookingState.BOOKED, [C1])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("limit_ms", "is_preemptible", "starts"),
    [(None, False, False), (61 * 60_000, False, False), (60 * 60_000, False, True), (None, True, True)],
)
def test_a_session_uses_a_booked_device_only_if_it_surely_ends_before_the_booking_starts(
    policy: Policy, limit_ms: int | None, is_preemptible: bool, starts: bool
) -> None:
    queue = [row("s", limit_ms=limit_ms, is_preemptible=is_preemptible)]
    plan = passed(scene(booked("p", C0, C1, starts_min=60), queue=queue), policy)
    assert placed(plan) == (["s"] if starts else [])
    if not starts:
        verdict = waits(plan, "s")
        assert (verdict.reason, verdict.evidence.booking) == (Reason.BOOKED, "p")
        assert verdict.evidence.until_us == NOW_US + 60 * MINUTE_US
        assert "booked (p; next change at 1970-01-01 01:16 UTC)" in explain(verdict)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_without_a_time_limit_takes_a_device_that_is_not_booked(policy: Policy) -> None:
    plan = passed(scene(booked("p", C1, starts_min=60), queue=[row("s"), row("t", at=1)]), policy)
    assert placed(plan) == ["s"]
    assert devices_of(plan, "s") == {C0}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_in_a_booking_waits_for_its_window_and_has_its_devices_to_itself(policy: Policy) -> None:
    mine = row("mine", at=9, booking=BookingId("p"))
    plan = passed(scene(booked("p", C1, starts_min=5), queue=[mine]), policy)
    assert (waits(plan, "mine").reason, waits(plan, "mine").evidence.booking) == (Reason.NOT_BEFORE, "p")
    assert plan.wake_at_us == NOW_US + 5 * MINUTE_US
    others = [row(f"o{number}", at=number, limit_ms=1000) for number in range(3)]
    plan = passed(scene(booked("p", C1, starts_min=-5), queue=[*others, mine]), policy)
    assert sorted(placed(plan)) == ["mine", "o0"]
    assert devices_of(plan, "mine") == {C1}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_guest_is_preempted_for_a_session_of_the_booking_even_behind_a_queue(policy: Policy, is_alone: bool) -> None:
    guest = replace(runs("guest", TWO, {"cuda.device": {"cuda1": 1}}, ends_in_s=999), is_preemptible=True)
    ahead = [] if is_alone else [row("head", cuda_device="2", limit_ms=1000)]
    queue = [*ahead, row("mine", at=1, booking=BookingId("p")), row("last", at=2, limit_ms=1000)]
    plan = passed(scene(booked("p", C1, starts_min=-5), running=[guest], queue=queue), policy)
    assert [one.session_id for one in plan.evictions] == ["guest"]
    assert waits(plan, "mine").reason is Reason.MAKING_ROOM
    assert "mine" not in placed(plan)
    assert all(devices_of(plan, name) == {C0} for name in placed(plan))


@pytest.mark.parametrize("policy", [replace(EASY, backfill=kind) for kind in (Backfill.EASY, Backfill.CONSERVATIVE)])
def test_a_reservation_for_the_head_does_not_keep_a_session_from_its_booking(policy: Policy) -> None:
    running = [replace(runs("r", TWO, {"cuda.device": {"cuda0": 1}}, ends_in_s=60), limit_us=NOW_US + MINUTE_US)]
    queue = [row("head", cuda_device="2", limit_ms=1000), row("mine", at=1, booking=BookingId("p"))]
    state = scene(booked("p", C1, starts_min=-5, lasts_min=6), queue=queue, running=running)
    plan = passed(state, policy)
    assert placed(plan) == ["mine"]
    assert plan.reservation is not None
    assert plan.reservation.session_id == "head"


def test_the_reservation_of_the_head_avoids_the_bookings() -> None:
    queue = [row("head", cuda_device="2", limit_ms=30 * 60_000)]
    plan = passed(scene(booked("p", C0, starts_min=10), booked("q", C1, starts_min=80, lasts_min=10), queue=queue))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 90 * MINUTE_US


def test_a_guest_is_preempted_only_when_a_session_of_the_booking_waits() -> None:
    guest = replace(
        runs("guest", TWO, {"cuda.device": {"cuda1": 1}}, ends_in_s=999), is_preemptible=True, started_us=NOW_US - 1
    )
    idle = passed(scene(booked("p", C1, starts_min=-5), running=[guest]), Policy())
    assert idle.evictions == ()
    queue = [row("mine", booking=BookingId("p")), row("other", at=1, is_preemptible=True, limit_ms=1000)]
    plan = passed(scene(booked("p", C1, starts_min=-5), running=[guest], queue=queue), Policy())
    (eviction,) = plan.evictions
    assert (eviction.session_id, eviction.cause, eviction.by_session) == ("guest", PreemptionCause.BOOKING, "mine")
    assert devices_of(plan, "other") == {C0}


def test_a_session_of_an_earlier_booking_is_preempted_for_the_next_booking() -> None:
    spec = {"cuda.device": {"cuda1": 1}}
    stays = replace(runs("stays", TWO, spec, ends_in_s=999), booking=BookingId("over"), started_us=NOW_US - 1)
    queue = [row("mine", booking=BookingId("p"))]
    plan = passed(scene(booked("p", C1, starts_min=-5), running=[stays], queue=queue))
    assert [one.session_id for one in plan.evictions] == ["stays"]


def test_maintenance_clears_its_nodes_and_nothing_new_starts_there() -> None:
    upkeep = {"kind": BookingKind.MAINTENANCE, "nodes": (NodeId("node-x"),), "gpus": 0}
    free = passed(scene(booking("m", starts_min=60, **upkeep)))
    assert outcome(free, "m")[0] is BookingState.BOOKED
    endless = runs("r", TWO, {"cpu": {"cpu0": 1}}, ends_in_s=10)
    assert outcome(passed(scene(booking("m", starts_min=60, **upkeep), running=[endless])), "m")[0] is (
        BookingState.REFUSED
    )
    guest = replace(
        runs("g", TWO, {"cuda.device": {"cuda0": 1}}, ends_in_s=9), is_preemptible=True, started_us=NOW_US - 1
    )
    queue = [row("s", limit_ms=1000, is_preemptible=True)]
    upkeep |= {"state": BookingState.BOOKED}
    plan = passed(scene(booking("m", starts_min=0, **upkeep), running=[guest], queue=queue))
    assert [(one.session_id, one.by_session) for one in plan.evictions] == [("g", None)]
    other = replace(
        guest, session_id=SessionId("f"), kernels=runs("f", TWO, {"cuda.device": {"cuda1": 1}}, ends_in_s=9).kernels
    )
    for running in ([guest, other], [other, guest]):
        both = passed(scene(booking("m", starts_min=0, **upkeep), running=running))
        assert [one.session_id for one in both.evictions] == ["f", "g"]
    assert waits(plan, "s").evidence.booking == "m"


def test_an_unused_booking_is_released_and_a_used_booking_is_not() -> None:
    late = {"starts_min": -31, "lasts_min": 90}
    assert outcome(passed(scene(booked("p", C1, **late))), "p")[0] is BookingState.NO_SHOW
    waiting = [row("mine", booking=BookingId("p"), cuda_device="2")]
    assert passed(scene(booked("p", C1, **late), queue=waiting)).bookings == ()
    assert passed(scene(booked("p", C1, used_us=1, **late))).bookings == ()
    assert passed(scene(booked("p", C1, no_show_after_ms=None, **late))).bookings == ()
    state = scene(booked("p", C1, **late), queue=[row("s"), row("t", at=1)])
    assert placed(passed(state)) == ["s", "t"]


def test_the_first_session_marks_a_booking_as_used() -> None:
    state = scene(booked("p", C1, starts_min=-5), queue=[row("mine", booking=BookingId("p"))])
    assert after_pass(state, passed(state))["p"].used_us == NOW_US


def test_a_booking_is_extended_only_if_its_devices_are_free_in_the_added_time() -> None:
    longer = booked("p", C1, starts_min=0, extends_to_us=NOW_US + 120 * MINUTE_US)
    assert passed(scene(longer)).bookings[0].ends_us == NOW_US + 120 * MINUTE_US
    refused = passed(scene(longer, booked("q", C1, starts_min=90))).bookings[0]
    assert refused.state is BookingState.BOOKED
    assert refused.ends_us == NOW_US + 60 * MINUTE_US
    assert refused.refusal is not None
    assert refused.refusal.startswith("cuda1 on node node-x is booked by a")


def test_a_lost_device_of_a_booking_is_replaced_unless_it_was_requested_by_name() -> None:
    gone = ("node-gone", "cuda9")
    assert outcome(passed(scene(booked("p", gone, starts_min=60))), "p")[1] == [C0]
    named = booked("p", gone, starts_min=60)
    assert passed(scene(replace(named, wanted=named.devices))).bookings == ()


CLOSED = on("a", gpus(2), is_open=False)
"""A drained or lost agent; its node is the first by name."""
A0, A1 = ("node-a", "cuda0"), ("node-a", "cuda1")


@pytest.mark.parametrize("starts_min", [0, 60])
def test_a_booking_takes_devices_of_agents_that_take_sessions(starts_min: int) -> None:
    plan = passed(busy([CLOSED, TWO], [], [], bookings=(booking("p", starts_min=starts_min, gpus=2),)))
    assert outcome(plan, "p")[:2] == (BookingState.BOOKED, [C0, C1])


def test_closed_agents_can_be_booked_for_later_but_not_for_now() -> None:
    later, now = booking("p", starts_min=60, gpus=3), booking("q", starts_min=0, lasts_min=30, gpus=3)
    plan = passed(busy([CLOSED, TWO], [], [], bookings=(later, now)))
    assert outcome(plan, "p")[0] is BookingState.BOOKED
    state, _, why = outcome(plan, "q")
    assert state is BookingState.REFUSED
    assert why == (
        "2 GPUs can be free for the whole window, and 3 were asked for. In the way: a, which takes no sessions now"
    )
    named = booking("r", starts_min=0, wanted=booked("r", A0, starts_min=0).devices)
    state, _, why = outcome(passed(busy([CLOSED, TWO], [], [], bookings=(named,))), "r")
    assert (state, why) == (BookingState.REFUSED, "cuda0 on node node-a is not in service")


def test_a_booking_moves_from_a_closed_agent_when_a_session_needs_it() -> None:
    held = booked("p", A0, A1, starts_min=0)
    waiting = row("s", booking=BookingId("p"))
    assert passed(busy([CLOSED, TWO], [], [], bookings=(held,))).bookings == ()
    plan = passed(busy([CLOSED, TWO], [], [waiting], bookings=(held,)))
    assert outcome(plan, "p")[1] == [C0, C1]
    assert devices_of(plan, "s") <= {C0, C1}
    own = replace(runs("own", CLOSED, {"cuda.device": {"cuda0": 1}}, ends_in_s=60), booking=BookingId("p"))
    plan = passed(busy([CLOSED, TWO], [own], [waiting], bookings=(held,)))
    assert outcome(plan, "p")[1] == [A0, C0], "its own session keeps cuda0"


@pytest.mark.parametrize(
    ("held", "why"),
    [(A0, ": a takes no sessions now"), (("node-x", "cuda9"), ": cuda9 is not in service"), (C0, "")],
    ids=["closed", "gone", "held"],
)
def test_a_session_in_a_booking_that_cannot_be_used_says_why(held: tuple[str, str], why: str) -> None:
    named = booked("p", held, starts_min=0)
    waiting = row("s", booking=BookingId("p"), cuda_device="2" if not why else "1")
    plan = passed(busy([CLOSED, TWO], [], [waiting], bookings=(replace(named, wanted=named.devices),)))
    verdict = waits(plan, "s")
    assert verdict.reason is Reason.BOOKED
    assert explain(verdict) == (
        f"Its booking p has not enough free for it{why}; other devices are not part of the booking."
    )


def test_a_booking_is_extended_in_the_pass_that_replaces_its_lost_device() -> None:
    longer = booked("p", ("node-gone", "cuda9"), starts_min=60, extends_to_us=NOW_US + 180 * MINUTE_US)
    (granted,) = passed(scene(longer)).bookings
    assert ([one.device_id for one in granted.devices], granted.ends_us) == (["cuda0"], NOW_US + 180 * MINUTE_US)
    (refused,) = passed(scene(longer, booked("q", C0, C1, starts_min=120, owner=UserId("b")))).bookings
    assert ([one.device_id for one in refused.devices], refused.ends_us) == (["cuda0"], longer.ends_us)
    assert refused.refusal is not None
    assert refused.refusal.startswith("cuda0 on node node-x is booked by b")


def quota(most: int) -> dict[str, object]:
    name = quota_id(QuotaScope.USER, "a")
    limit = Quota(id=name, scope=QuotaScope.USER, name="a", max_slots=SlotAmounts({"cuda.device": most}))
    return {"quotas": {name: limit}}


def test_bookings_stay_within_the_quota_of_their_owner_at_every_moment() -> None:
    first, second = booked("p", C0, starts_min=0), booking("q", starts_min=59)
    found, _, why = outcome(passed(busy([TWO], [], [], bookings=(first, second), **quota(1))), "q")
    assert (found, why) == (
        BookingState.REFUSED,
        "User a may hold 1 GPU, and has booked 1 GPU in this window already",
    )
    after = booking("q", starts_min=60)
    assert outcome(passed(busy([TWO], [], [], bookings=(first, after), **quota(1))), "q")[0] is BookingState.BOOKED


def test_an_active_booking_and_its_sessions_count_once_against_the_quota() -> None:
    who = {"owner": UserId("a"), "project": ProjectId("default")}
    queue = [row("mine", booking=BookingId("p"), **who), row("more", at=1, **who)]
    state = busy([TWO], [], queue, bookings=(booked("p", C0, starts_min=-1),), **quota(1))
    plan = passed(state)
    assert placed(plan) == ["mine"]
    assert waits(plan, "more").reason is Reason.QUOTA
