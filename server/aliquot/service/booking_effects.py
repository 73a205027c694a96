"""Effect of a booking that is not made yet: whether it would be accepted, and which waiting sessions it would delay."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.what_if import PlannedRun, difference, planned_run
from aliquot.service.access import check_may_submit
from aliquot.service.bookings import Bookings
from aliquot.service.ports import Clock
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot_schema.bookings import BookingState
from aliquot_schema.requests import Caller, NewBooking
from aliquot_schema.views.bookings import BookingEffectView

SHOWN_MAX: Final = 20


class BookingEffects:
    """Runs the state with and without a booking, one request at a time, in a worker thread; commits nothing."""

    def __init__(self, *, state: State, bookings: Bookings, clock: Clock) -> None:
        self._state = state
        self._bookings = bookings
        self._clock = clock
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="booking-effect")

    async def effect(self, caller: Caller, asked: NewBooking) -> BookingEffectView:
        """What a booking would do now, if it is used for its whole window; of a recurring one, the first window.

        Raises:
            InvalidRequest, LimitExceeded, Forbidden: as for the booking itself.
        """
        check_may_submit(caller)
        booking = replace(self._bookings.requested(caller, asked), no_show_after_ms=None)
        snapshot, rules, now_us = take(self._state), self._state.rules, self._clock.now_us()
        booked = replace(snapshot, bookings=(*snapshot.bookings, booking))

        def run() -> tuple[PlannedRun, PlannedRun]:
            return planned_run(snapshot, rules, now_us=now_us), planned_run(booked, rules, now_us=now_us)

        before, after = await asyncio.get_running_loop().run_in_executor(self._worker, run)
        decided = next((one for one in after.plan.bookings if one.booking_id == booking.id), None)
        if decided is None or decided.state is not BookingState.BOOKED:
            refusal = None if decided is None else decided.refusal
            return BookingEffectView(refusal=refusal or "It is refused", delayed=(), delayed_count=0, delay_max=None)
        later = difference(before, after).later
        gaps = [one.after_us - one.before_us for one in later if one.after_us is not None and one.before_us is not None]
        return BookingEffectView(
            refusal=None,
            delayed=tuple(one.session_id for one in later[:SHOWN_MAX]),
            delayed_count=len(later),
            delay_max=max(gaps) / 1e6 if gaps and len(gaps) == len(later) else None,
        )

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)
