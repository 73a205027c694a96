"""The outbox: brings what is due to the receivers, and writes down what became of it. At least once each."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.notices import backoff
from aliquot.service.notices.handing import Address, handed_over
from aliquot.service.notices.letters import Letter, due, is_urgent, key_of
from aliquot.service.notices.output_end import ends_of
from aliquot.service.notices.ports import NotDelivered
from aliquot.service.notices.receivers import Receiver
from aliquot.service.notices.resting import Resting
from aliquot.service.notices.room import Room
from aliquot.service.watching import Outputs
from aliquot_schema.events import Event
from aliquot_schema.notices import Delivery, DeliveryState

ACTOR: Final = "system:notices"
LOOK_S: Final = 5.0
"""What becomes due without an event is seen so late at most."""
ROUND: Final = 50
"""Letters before it is looked anew for what is urgent."""
AT_ONCE: Final = 500
"""Deliveries that are given up in one commit."""
ERROR_CHARACTERS: Final = 300


class Outbox:
    """Of the server that leads. Receivers do not wait for each other, nor people for each other's addresses."""

    def __init__(self, room: Room, *, outputs: Outputs, addresses: Mapping[str, Address]) -> None:
        self._state, self._journal, self._clock = room.state, room.journal, room.clock
        self._outputs = outputs
        self._addresses = addresses
        self._resting = Resting()
        self._woken = {name: asyncio.Event() for name in addresses}
        self._hurried = set[str]()
        """Receivers for which something urgent has come while others were brought to them."""
        room.journal.listeners.append(self._hear)

    async def run(self) -> None:
        """Deliver for ever."""
        async with asyncio.TaskGroup() as loops:
            for name in self._addresses:
                loops.create_task(self._serve(name), name=f"notices for {name}")
            loops.create_task(self._clear(), name="notices for nobody")

    async def run_once(self, name: str) -> int:
        """Bring one receiver what is due, some letters of it; returns how many were tried. When it is down that ends
        the round: every other letter would wait for its time-out, too."""
        await self._give_up_vain(name)
        self._hurried.discard(name)
        tried = 0
        for notices in due(self._of(name), now_us=self._clock.now_us()):
            if self._resting.keeps(notices, now_us=self._clock.now_us()):
                continue
            error = await self._try(self._addresses[name], notices)
            tried += 1
            is_down = error is not None and not error.is_final and not error.is_of_letter
            if is_down or tried == ROUND or name in self._hurried:
                break
        return tried

    async def give_up_unknown(self) -> None:
        """What is for receivers that the settings do not name any more."""
        lost = [one for one in self._state.noticed.deliveries.values() if one.receiver not in self._addresses]
        await self._give_up(lost, "the settings name no such receiver")

    async def _serve(self, name: str) -> None:
        while True:
            self._woken[name].clear()
            if not await self.run_once(name):
                await self._wait(name)

    async def _wait(self, name: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._woken[name].wait()

    async def _clear(self) -> None:
        while True:
            await self.give_up_unknown()
            await self._clock.sleep(LOOK_S)

    def _of(self, name: str) -> list[Delivery]:
        return [one for one in self._state.noticed.deliveries.values() if one.receiver == name]

    async def _give_up_vain(self, name: str) -> None:
        """What is too old, also if it was never tried, behind others that were not taken; and what is for somebody who
        was disabled while it waited."""
        now_us, people = self._clock.now_us(), self._state.people
        gone = [one for one in self._of(name) if one.user is not None and people.is_shut_out(one.user)]
        await self._give_up(gone, "its user is disabled")
        old = [one for one in self._of(name) if backoff.is_too_old(one, now_us=now_us)]
        await self._give_up(old, "it could not be sent for a day")

    async def _give_up(self, deliveries: Sequence[Delivery], words: str) -> None:
        """Some at once, so that commits of others do not wait for long."""
        for begin in range(0, len(deliveries), AT_ONCE):
            await self._note(deliveries[begin : begin + AT_ONCE], partial(_given_up, words, self._clock.now_us()))

    async def _try(self, address: Address, notices: tuple[Delivery, ...]) -> NotDelivered | None:
        error = await handed_over(address, await self._letter(address.receiver, notices))
        now_us = self._clock.now_us()
        self._resting.note(notices, error, now_us=now_us)
        await self._note(notices, partial(_after, error, now_us))
        return error

    async def _letter(self, receiver: Receiver, notices: tuple[Delivery, ...]) -> Letter:
        user = notices[0].user
        known = None if user is None else self._state.noticed.subscribers.get(user)
        email = None if known is None else known.email
        details = await ends_of(self._state, self._outputs, notices, most=receiver.output_lines)
        return Letter(key=key_of(notices), user=user, email=email, notices=notices, details=details)

    async def _note(self, notices: Sequence[Delivery], change: Callable[[Delivery], tuple[Delivery, str]]) -> None:
        def write(draft: Draft) -> None:
            for one in notices:
                known = draft.notice(Delivery, one.id)
                if known is not None and known.tries == one.tries:
                    draft.put(*change(known))

        await self._journal.persist(write, actor=ACTOR)

    def _hear(self, event: Event) -> None:
        one = event.record
        if not isinstance(one, Delivery) or one.receiver not in self._woken or one.tries:
            return
        self._woken[one.receiver].set()
        if is_urgent((one,)):
            self._hurried.add(one.receiver)


def _after(error: NotDelivered | None, now_us: int, one: Delivery) -> tuple[Delivery, str]:
    """What a try makes of a delivery, and the word for it."""
    tried = replace(one, tries=one.tries + 1)
    if error is None:
        return replace(tried, state=DeliveryState.SENT, ended_us=now_us, error=None), "sent"
    if error.is_final or backoff.is_over(one.made_us, now_us=now_us):
        return _given_up(str(error), now_us, tried)
    next_us = now_us + backoff.wait_us(tried.tries)
    return replace(tried, error=str(error)[:ERROR_CHARACTERS], next_us=next_us), "failed"


def _given_up(words: str, now_us: int, one: Delivery) -> tuple[Delivery, str]:
    error = words[:ERROR_CHARACTERS]
    return replace(one, state=DeliveryState.GIVEN_UP, ended_us=now_us, error=error), "given_up"
