"""Properties of bookings on any state: no double bookings, quotas hold, the devices are free at the start."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.snapshot import ANYWHERE, PendingRow, Snapshot
from aliquot.core.quota import booked_amounts, limits, quota_ids_for
from aliquot.core.scheduler.booking_calendar import uses
from aliquot.core.scheduler.bookings import bookings_after
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot_schema.bookings import BookedDevice, Booking, BookingKind, BookingState
from aliquot_schema.ids import BookingId, ProjectId, UserId
from allocation_devices import gpus
from booking_scenes import booking
from core_cluster import NOW_US, after, on, row, shuffled, snapshot
from core_effort import examples
from core_plan_probe import encoded
from core_policies import policies
from core_states import pending, quotas, runs, states

NAMES = ("k0", "k1", "k2", "k3", "k4")


@st.composite
def busy_states(draw: st.DrawFn) -> Snapshot:
    """Two nodes with five GPUs, some running sessions, and up to eight that want one or two."""
    cluster = [on("x", gpus(3)), on("y", gpus(2))]
    ran = snapshot(cluster, [row(f"ran{number}") for number in range(draw(st.integers(0, 3)))])
    first = decide(ran, policies()[0], now_us=NOW_US, seed=0)
    before = after(ran, first)
    running = tuple(draw(runs(one, agents=ran.agents)) for one in first.placements)
    queue = [
        draw(pending(row(f"ses{number}", at=number, cuda_device=str(draw(st.integers(1, 2))))))
        for number in range(draw(st.integers(1, 8)))
    ]
    limits_ms = st.sampled_from([None, 1, 60_000, 120_000, 180_000])
    queue = [replace(one, where=ANYWHERE, limit_ms=draw(limits_ms)) for one in queue]
    quota = draw(quotas()) if draw(st.booleans()) else {}
    return snapshot(cluster, queue, used=before.used, holders=before.holders, running=running, quotas=quota)


@st.composite
def booked_states(draw: st.DrawFn) -> Snapshot:
    """Any or a busy state, with bookings accepted together, further requests, and rows in bookings."""
    state = draw(st.one_of(busy_states(), busy_states(), states()))
    earlier = replace(state, queue=(), running=(), quotas={}, bookings=tuple(draw(bookings(state, NAMES[:3]))))
    accepted = bookings_after(earlier, decide(earlier, policies()[0], now_us=0, seed=0), now_us=0)
    kept = frozenset(device for one in accepted for device in one.devices)
    asked = draw(bookings(state, NAMES[3:]))
    queue = [replace(one, booking=draw(st.sampled_from([None, None, *map(BookingId, NAMES)]))) for one in state.queue]
    running = []
    for one in state.running:
        booking_id = draw(st.sampled_from([None, None, BookingId("k0"), BookingId("gone")]))
        limit_us = draw(st.sampled_from([None, one.ends_us]))
        # What runs on booked devices was admitted by an earlier pass, so it is preemptible.
        leaves = one.is_preemptible or uses(one, devices=kept)
        running.append(replace(one, limit_us=limit_us, booking=booking_id, is_preemptible=leaves))
    return replace(state, queue=tuple(queue), running=tuple(running), bookings=(*accepted, *asked))


@st.composite
def bookings(draw: st.DrawFn, state: Snapshot, names: tuple[str, ...]) -> list[Booking]:
    """Requests for a number of devices, named devices, or maintenance."""
    devices = [
        BookedDevice(agent.node_id, device.id)
        for agent in state.agents
        for device in agent.layout.devices.values()
        if device.kind == "cuda" and device.parent is None
    ]
    found = []
    for name in names[: draw(st.integers(1, len(names)))]:
        fields = {
            "owner": UserId(draw(st.sampled_from("ab"))),
            "project": ProjectId(draw(st.sampled_from("pq"))),
            "created_us": draw(st.integers(0, 2)),
            "no_show_after_ms": draw(st.sampled_from([None, 60_000])),
            "used_us": draw(st.sampled_from([None, 1, 1])),
        }
        starts_min = draw(st.sampled_from([-2, -1, 0, 1, 2]))
        times = {"starts_min": starts_min, "lasts_min": draw(st.sampled_from([1, 2, 3]))}
        if state.agents and not draw(st.integers(0, 5)):
            nodes = (draw(st.sampled_from([agent.node_id for agent in state.agents])),)
            found.append(booking(name, kind=BookingKind.MAINTENANCE, gpus=0, nodes=nodes, **times, **fields))
        elif devices and not draw(st.integers(0, 2)):
            wanted = tuple(sorted(draw(st.sets(st.sampled_from(devices), min_size=1, max_size=2))))
            found.append(booking(name, gpus=len(wanted), wanted=wanted, **times, **fields))
        else:
            found.append(booking(name, gpus=draw(st.integers(1, 3)), **times, **fields))
    return found


@examples(60)
@given(booked_states(), st.sampled_from(policies()))
def test_no_device_is_booked_twice_and_no_quota_is_exceeded_at_any_moment(state: Snapshot, policy: object) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=1)  # type: ignore[arg-type]
    held = [one for one in bookings_after(state, plan, now_us=NOW_US) if one.state is BookingState.BOOKED]
    for first in held:
        for other in held:
            if first.id < other.id and first.overlaps(other.starts_us, other.ends_us):
                assert not {*first.devices} & {*other.devices}
                on = {device.node_id for device in other.devices} | {*other.nodes}
                assert not {*first.nodes} & on
    asked = {one.id for one in state.bookings if one.state is BookingState.REQUESTED}
    # Bookings of earlier passes stay when a quota is lowered.
    for booked in (one for one in held if one.kind is BookingKind.USE and one.id in asked):
        names = quota_ids_for(booked.owner, booked.project)
        for name in (name for name in names if name in state.quotas):
            together = [
                one for one in held if name in quota_ids_for(one.owner, one.project) and one.is_active(booked.starts_us)
            ]
            amounts = booked_amounts([device for one in together for device in one.devices], agents=state.agents)
            for slot, most in limits(state.quotas[name].max_slots).items():
                assert amounts.get(slot, 0) <= most


@examples(80)
@given(booked_states(), st.sampled_from(policies()))
def test_no_session_is_placed_where_it_could_overlap_a_booking(state: Snapshot, policy: object) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=1)  # type: ignore[arg-type]
    open_now = {one.id: one for one in bookings_after(state, plan, now_us=NOW_US) if one.state is BookingState.BOOKED}
    rows = {row.session_id: row for row in state.queue}
    for placement in plan.placements:
        row = rows[placement.session_id]
        own = None if row.booking is None else open_now.get(row.booking)
        devices = {
            BookedDevice(kernel.node_id, device)
            for kernel in placement.kernels
            for slot, given in kernel.spec.items()
            if slot.startswith("cuda")
            for device in given
        }
        if own is not None:
            assert own.is_active(NOW_US)
            assert devices <= {*own.devices} | _parts_of(state, own)
        for other in open_now.values():
            is_there = devices & {*other.devices} or {kernel.node_id for kernel in placement.kernels} & {*other.nodes}
            if other is not own and is_there:
                assert _returns(row, other, has_own=own is not None)


def _parts_of(state: Snapshot, own: Booking) -> set[BookedDevice]:
    return {
        BookedDevice(agent.node_id, device.id)
        for agent in state.agents
        for device in agent.layout.devices.values()
        if device.parent is not None and BookedDevice(agent.node_id, device.parent) in own.devices
    }


def _returns(row: PendingRow, other: Booking, *, has_own: bool) -> bool:
    """Whether a row that starts now has surely ended when the other booking needs its devices."""
    if row.is_preemptible or has_own:
        return other.kind is BookingKind.USE or other.starts_us > NOW_US
    return row.limit_ms is not None and NOW_US + 1000 * row.limit_ms <= other.starts_us


@examples(40)
@given(booked_states(), st.sampled_from(policies()), st.randoms(use_true_random=False))
def test_the_plan_depends_on_neither_order_nor_cache(state: Snapshot, policy: object, dice: random.Random) -> None:
    cache = PassCache()
    plan = decide(state, policy, now_us=NOW_US, seed=1, known=cache)  # type: ignore[arg-type]
    mixed = replace(shuffled(state, dice), bookings=tuple(dice.sample(state.bookings, len(state.bookings))))
    assert encoded(decide(mixed, policy, now_us=NOW_US, seed=1)) == encoded(plan)  # type: ignore[arg-type]
    assert encoded(decide(state, policy, now_us=NOW_US, seed=1, known=cache)) == encoded(plan)  # type: ignore[arg-type]


@examples(40)
@given(booked_states(), st.sampled_from(policies()))
def test_no_reservation_of_another_session_uses_booked_devices_within_the_window(
    state: Snapshot, policy: object
) -> None:
    """Within its window, a booking's devices are reserved for its own sessions only."""
    plan = decide(state, policy, now_us=NOW_US, seed=1)  # type: ignore[arg-type]
    open_now = {one.id: one for one in bookings_after(state, plan, now_us=NOW_US) if one.state is BookingState.BOOKED}
    rows = {row.session_id: row for row in state.queue}
    for promise in plan.promises or ((plan.reservation,) if plan.reservation is not None else ()):
        own = rows[promise.session_id].booking
        for other in open_now.values():
            devices = {
                (kernel.node_id, device) for kernel in promise.kernels for s in kernel.spec.values() for device in s
            }
            if promise.at_us is not None and other.id != own and other.starts_us <= promise.at_us < other.ends_us:
                assert not devices & {*other.devices}
