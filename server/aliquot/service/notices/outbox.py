"""The outbox: brings what is due to the receivers, and writes down what became of it. At least once each."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.notices import backoff
from aliquot.service.notices.letters import Letter, due, key_of
from aliquot.service.notices.output_end import last_lines
from aliquot.service.notices.ports import Courier, NotDelivered
from aliquot.service.notices.receivers import Receiver
from aliquot.service.notices.room import Room
from aliquot.service.watching import Outputs
from aliquot_schema.events import Event
from aliquot_schema.notices import Delivery, DeliveryState, NoticeKind

log: Final = logging.getLogger("aliquot.notices")

ACTOR: Final = "system:notices"
LOOK_S: Final = 5.0
"""What becomes due without an event is seen so late at most."""
ERROR_CHARACTERS: Final = 300
_WITH_OUTPUT: Final = frozenset({NoticeKind.SESSION_FAILED, NoticeKind.RETRIES_SPENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A receiver, and who brings it letters."""

    receiver: Receiver
    courier: Courier


class Outbox:
    """Of the server that leads. Receivers do not wait for each other."""

    def __init__(self, room: Room, *, outputs: Outputs, addresses: Mapping[str, Address]) -> None:
        self._state, self._journal, self._clock = room.state, room.journal, room.clock
        self._outputs = outputs
        self._addresses = addresses
        self._failures: dict[str, int] = {}
        """In a row, by receiver."""
        self._woken = {name: asyncio.Event() for name in addresses}
        room.journal.listeners.append(self._hear)

    async def run(self) -> None:
        """Deliver for ever."""
        async with asyncio.TaskGroup() as loops:
            for name in self._addresses:
                loops.create_task(self._serve(name), name=f"notices for {name}")
            loops.create_task(self._clear(), name="notices for nobody")

    async def run_once(self, name: str) -> int:
        """Bring one receiver what is due; returns how many letters it took. One that fails ends the round: what is
        down would let every other letter wait for its time-out, too."""
        taken = 0
        for notices in self._due(name):
            error = await self._try(self._addresses[name], notices)
            if error is None:
                self._failures.pop(name, None)
                taken += 1
            elif not error.is_final:
                self._failures[name] = self._failures.get(name, 0) + 1
                break
        return taken

    async def give_up_unknown(self) -> None:
        """What is for receivers that the settings do not name any more."""
        lost = [one for one in self._state.noticed.deliveries.values() if one.receiver not in self._addresses]
        if lost:
            await self._note(lost, NotDelivered("the settings name no such receiver", is_final=True))

    async def _serve(self, name: str) -> None:
        while True:
            self._woken[name].clear()
            await self.run_once(name)
            await self._wait(name)

    async def _wait(self, name: str) -> None:
        """For something new; after failures also for a while."""
        if failures := self._failures.get(name):
            await self._clock.sleep(backoff.wait_us(failures) / 1e6)
            return
        try:
            async with asyncio.timeout(LOOK_S):
                await self._woken[name].wait()
        except TimeoutError:
            return

    async def _clear(self) -> None:
        while True:
            await self.give_up_unknown()
            await self._clock.sleep(LOOK_S)

    def _due(self, name: str) -> list[tuple[Delivery, ...]]:
        mine = [one for one in self._state.noticed.deliveries.values() if one.receiver == name]
        return list(due(mine, now_us=self._clock.now_us()))

    async def _try(self, address: Address, notices: tuple[Delivery, ...]) -> NotDelivered | None:
        error = await self._sent(address, notices)
        if error is not None:
            log.warning("receiver %s did not take %s: %s", address.receiver.name, key_of(notices), error)
        await self._note(notices, error)
        return error

    async def _sent(self, address: Address, notices: tuple[Delivery, ...]) -> NotDelivered | None:
        try:
            await address.courier.deliver(await self._letter(address.receiver, notices))
        except NotDelivered as error:
            return error
        except Exception as error:  # a letter that cannot be written keeps nothing else of a leader's from its work
            log.exception("a letter for receiver %s could not be written", address.receiver.name)
            return NotDelivered(f"an error of the server: {type(error).__name__}")
        return None

    async def _letter(self, receiver: Receiver, notices: tuple[Delivery, ...]) -> Letter:
        user = notices[0].user
        known = None if user is None else self._state.noticed.subscribers.get(user)
        details = [
            await last_lines(self._state, self._outputs, one.subject, most=receiver.output_lines)
            if one.kind in _WITH_OUTPUT and receiver.output_lines
            else ""
            for one in notices
        ]
        email = None if known is None else known.email
        return Letter(key=key_of(notices), user=user, email=email, notices=notices, details=tuple(details))

    async def _note(self, notices: Sequence[Delivery], error: NotDelivered | None) -> None:
        now_us = self._clock.now_us()
        change = _after(error, now_us=now_us)

        def write(draft: Draft) -> None:
            for one in notices:
                known = draft.notice(Delivery, one.id)
                if known is not None and known.tries == one.tries:
                    draft.put(*change(known))

        await self._journal.persist(write, actor=ACTOR)

    def _hear(self, event: Event) -> None:
        if isinstance(event.record, Delivery) and event.record.receiver in self._woken:
            self._woken[event.record.receiver].set()


def _after(error: NotDelivered | None, *, now_us: int) -> Callable[[Delivery], tuple[Delivery, str]]:
    """What a try makes of a delivery, and the word for it."""

    def change(one: Delivery) -> tuple[Delivery, str]:
        tried = replace(one, tries=one.tries + 1)
        if error is None:
            return replace(tried, state=DeliveryState.SENT, ended_us=now_us, error=None), "sent"
        tried = replace(tried, error=str(error)[:ERROR_CHARACTERS])
        if error.is_final or backoff.is_over(one.made_us, now_us=now_us):
            return replace(tried, state=DeliveryState.GIVEN_UP, ended_us=now_us), "given_up"
        return replace(tried, next_us=now_us + backoff.wait_us(tried.tries)), "failed"

    return change
