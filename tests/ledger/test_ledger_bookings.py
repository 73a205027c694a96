"""Replay of bookings that are made, used, extended, given back, or left unused."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from aliquot.service.ledger.replay import replay
from aliquot.service.views.terms import moment
from aliquot.store.ledger.encoding import verify
from aliquot_schema.errors import AliquotError, BookingRefused
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.requests import Caller, NewBooking, NewSession, Role
from ledger_workload import OPERATOR, RandomWorkload, workload_on
from store_places import Place

pytestmark = pytest.mark.anyio

ANN = Caller(user=UserId("ann"), request_id="req_ann", role=Role.USER)
ROUNDS = 40
WAIT_S = 120.0
LATELY = 4
"""Requests name one of this many newest bookings."""
LAST_EVENTS = ("booking.refused", "booking.used", "booking.given_back", "booking.ended", "booking.no_show")


async def act(workload: RandomWorkload, number: int) -> None:
    """Book, extend, release, or submit into a booking."""
    bookings, draw = workload.service.bookings, workload.draw
    now = moment(workload.clock.now_us())
    what = draw.choice(["book", "book", "extend", "give back", "submit", "submit", "maintain"])
    name = f"b{max(number - draw.randrange(LATELY), 0)}"
    with suppress(AliquotError):
        if what in ("book", "maintain"):
            starts = now + timedelta(minutes=draw.choice([0, 1, 10]))
            nodes = ["a"] if what == "maintain" else []
            asked = NewBooking(
                name=f"b{number}",
                starts_at=starts,
                ends_at=starts + timedelta(minutes=draw.choice([5, 20])),
                gpus=None if nodes else draw.choice([1, 2, 99]),
                nodes=nodes,
                no_show_after=60.0,
            )
            await bookings.reserve(OPERATOR if nodes else ANN, asked)
        elif what == "extend":
            await bookings.extend(ANN, name, now + timedelta(minutes=draw.choice([3, 60])))
        elif what == "give back":
            await bookings.give_back(ANN, name)
        else:
            slots = [("cuda.device", "1")]
            request = NewSession(argv=("true",), shell=None, slots=slots, booking=name, preemptible=True)
            await workload.service.sessions.create_session(ANN, request)


async def empty(workload: RandomWorkload) -> None:
    """Reconnect every agent and end every session, so that a GPU is free."""
    for agent in workload.executor.agents:
        workload.executor.reconnect_agent(AgentId(agent))
        await workload.service.administration.agents.resume_agent(OPERATOR, agent)
    for session in [one.id for one in workload.service.state.sessions.values() if not one.is_ended]:
        with suppress(AliquotError):
            await workload.service.sessions.cancel_session(OPERATOR, session, None)
    for one in workload.executor.agents.values():
        for kernel in sorted(one.running):
            workload.executor.end_kernel(KernelId(kernel), code=0)


async def until(workload: RandomWorkload, kinds: set[str], kind: str) -> None:
    """Wait for an event of a kind."""
    async with asyncio.timeout(WAIT_S):
        while kind not in kinds:
            workload.service.allocator.wake()
            await asyncio.sleep(0.02)


async def each_kind(workload: RandomWorkload, kinds: set[str]) -> None:
    """One booking is refused, one used, one given back, one lasts to its end, and one expires unused."""
    for number, kind in enumerate(LAST_EVENTS):
        await empty(workload)
        kinds.clear()
        name, now = f"last{number}", moment(workload.clock.now_us())
        gpus = 99 if kind == "booking.refused" else 1
        ends_at = now + timedelta(minutes=20)
        limit = 60.0 if kind == "booking.no_show" else None
        asked = NewBooking(name=name, starts_at=now, ends_at=ends_at, gpus=gpus, nodes=[], no_show_after=limit)
        with suppress(BookingRefused):
            await workload.service.bookings.reserve(OPERATOR, asked)
        if kind != "booking.refused":
            await until(workload, kinds, "booking.booked")
        if kind == "booking.used":
            slots = [("cuda.device", "1")]
            request = NewSession(argv=("true",), shell=None, slots=slots, booking=name, preemptible=True)
            await workload.service.sessions.create_session(OPERATOR, request)
        elif kind == "booking.given_back":
            await workload.service.bookings.give_back(OPERATOR, name)
        elif kind != "booking.refused":
            workload.clock.advance(90 if kind == "booking.no_show" else 1500)
        await until(workload, kinds, kind)


@pytest.mark.timeout(600)
async def test_passes_with_bookings_replay_without_a_difference(place: Place) -> None:
    kinds: set[str] = set()
    async with workload_on(place) as (workload, running):
        workload.service.journal.subscribe(lambda event: kinds.add(event.kind))
        for number in range(ROUNDS):
            await act(workload, number)
            await workload.step()
            workload.clock.advance(workload.draw.choice([0, 30, 300]))
            workload.service.allocator.wake()
        await each_kind(workload, kinds)
        await workload.run_until_entries(running.ledger, 20)
    store = place.store()
    await store.open()
    try:
        keys = await store.ledger.last(100_000)
        found = [one async for one in replay(store.ledger, first=keys[0].number, last=keys[-1].number)]
        assert [one.differences for one in found if one.differences][:3] == []
        assert any(one.entry.plan.bookings for one in found)
        assert len(found) == await store.read(verify)
    finally:
        await store.close()
