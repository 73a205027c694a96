"""Outbox: delivers due notices to their receivers, at least once each, and records every attempt.

- Retry: an attempt that failed is repeated after 10 s, 20 s, 40 s, ... up to an hour, for one day. A receiver that asks
  for more time gets it, an hour at most.
- Circuit breaker: a receiver that failed, or one address behind a mail server, is not retried for a while. An urgent
  message that was made after the failure is sent all the same.
- Time limit: one attempt takes 300 seconds at most.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.service.alerts.context import AlertContext, NotDelivered, Sender
from aliquot.service.alerts.message_texts import Message, due, is_urgent, key_of, output_ends
from aliquot.service.alerts.routing import Receiver
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.subscriptions.watching import Outputs
from aliquot_schema.alerts import Delivery, DeliveryState
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import UserId

BACKOFF_S_MIN: Final = 10
BACKOFF_S_MAX: Final = 3600
EXPIRY_US: Final = 24 * 3600 * 1_000_000

Target = tuple[str, UserId | None, bool]
"""A receiver, or with True one user behind it: an address that a mail server refuses does not block others."""
log: Final = logging.getLogger("aliquot.notices")
TRY_S_MAX: Final = 300.0
"""Limit of a whole attempt. Time-outs of the clients start anew with each part of an answer."""
ACTOR: Final = "system:notices"
INTERVAL_S: Final = 5.0
"""Interval at which deliveries that became due without an event are found."""
ROUND_MESSAGES: Final = 50
"""Messages per round; after it, urgent ones are looked for again."""
BATCH_DELIVERIES: Final = 500
"""Deliveries given up in one commit."""
ERROR_CHARACTERS: Final = 300


def backoff_us(tries: int, *, wait_s: float = 0.0) -> int:
    """Delay before the next attempt, after `tries` attempts: 10 s, 20 s, 40 s, ... an hour; or what the receiver asks
    for, if that is longer."""
    return int(min(max(BACKOFF_S_MIN << min(tries - 1, 12), wait_s), BACKOFF_S_MAX) * 1_000_000)


def is_expired(made_us: int, *, now_us: int) -> bool:
    """Whether a delivery made at `made_us` has been tried for a day."""
    return now_us - made_us >= EXPIRY_US


def has_expired(one: Delivery, *, now_us: int) -> bool:
    """Whether a delivery has expired. One that has not been tried has a day from the end of quiet hours."""
    return is_expired(one.made_us if one.tries else max(one.made_us, one.next_us), now_us=now_us)


class _Pause(Struct, frozen=True, kw_only=True):
    failures: int
    since_us: int
    until_us: int


class CircuitBreaker:
    """Which receivers and users are not tried now. In memory only: after a failover all are tried."""

    def __init__(self) -> None:
        self._pauses: Final = dict[Target, _Pause]()

    def record(self, notices: tuple[Delivery, ...], error: NotDelivered | None, *, now_us: int) -> None:
        """Record the result of an attempt."""
        receiver, person = _targets(notices[0])
        if error is None:
            self._pauses.pop(receiver, None)
            self._pauses.pop(person, None)
        elif not error.is_final:
            failed = person if error.is_message_specific else receiver
            failures = self._pauses[failed].failures + 1 if failed in self._pauses else 1
            until_us = now_us + backoff_us(failures, wait_s=error.wait_s)
            self._pauses[failed] = _Pause(failures=failures, since_us=now_us, until_us=until_us)

    def blocks(self, notices: tuple[Delivery, ...], *, now_us: int) -> bool:
        """Whether a message has to wait. An urgent one made after the last failure does not."""
        pauses = [
            pause for target in _targets(notices[0]) if (pause := self._pauses.get(target)) and now_us < pause.until_us
        ]
        made_us = max(one.made_us for one in notices)
        return bool(pauses) and not (is_urgent(notices) and all(pause.since_us < made_us for pause in pauses))


def _targets(one: Delivery) -> tuple[Target, Target]:
    return (one.receiver, None, False), (one.receiver, one.user, True)


class Address(Struct, frozen=True, kw_only=True):
    """A receiver and its sender."""

    receiver: Receiver
    sender: Sender


async def attempt_delivery(address: Address, message: Message, *, most_s: float = TRY_S_MAX) -> NotDelivered | None:
    """One attempt: None once the receiver has accepted, else the error, which is logged."""
    error = await _attempt(address.sender, message, most_s=most_s)
    if error is not None:
        log.warning("receiver %s did not accept %s: %s", address.receiver.name, message.key, error)
    return error


async def _attempt(sender: Sender, message: Message, *, most_s: float) -> NotDelivered | None:
    try:
        async with asyncio.timeout(most_s):
            await sender.deliver(message)
    except NotDelivered as error:
        return error
    except TimeoutError:
        return NotDelivered(f"not delivered within {most_s:g} s")
    except Exception as error:  # a message that cannot be encoded must not stop the loop
        log.exception("the message %s could not be sent", message.key)
        return NotDelivered(f"internal error of the server: {type(error).__name__}", is_message_specific=True)
    return None


class Outbox:
    """Runs on the leader. Receivers are served in parallel, and users behind one receiver do not block each other."""

    def __init__(self, context: AlertContext, *, outputs: Outputs, addresses: Mapping[str, Address]) -> None:
        self._state, self._journal, self._clock = context.state, context.journal, context.clock
        self._outputs = outputs
        self._addresses = addresses
        self._breaker = CircuitBreaker()
        self._woken = {name: asyncio.Event() for name in addresses}
        self._urgent = set[str]()
        """Receivers for which an urgent delivery was queued during a round."""
        context.journal.subscribe(self._on_event, to=(Entity.DELIVERY,))

    async def run(self) -> None:
        """Deliver until canceled."""
        async with asyncio.TaskGroup() as loops:
            for name in self._addresses:
                loops.create_task(self._serve(name), name=f"notices for {name}")
            loops.create_task(self._clear(), name="notices without receiver")

    async def run_once(self, name: str) -> int:
        """Send one receiver its due messages, at most `ROUND_MESSAGES`; returns how many were tried. A receiver that
        is down ends the round: every other message would wait for its time-out too."""
        await self._give_up_expired(name)
        self._urgent.discard(name)
        tried = 0
        for notices in due(self._of(name), now_us=self._clock.now_us()):
            if self._breaker.blocks(notices, now_us=self._clock.now_us()):
                continue
            error = await self._try(self._addresses[name], notices)
            tried += 1
            is_down = error is not None and not error.is_final and not error.is_message_specific
            if is_down or tried == ROUND_MESSAGES or name in self._urgent:
                break
        return tried

    async def give_up_unknown(self) -> None:
        """Give up deliveries to receivers that the settings no longer name."""
        lost = [one for one in self._state.alert_index.deliveries.values() if one.receiver not in self._addresses]
        await self._give_up(lost, "the settings name no such receiver")

    async def _serve(self, name: str) -> None:
        while True:
            self._woken[name].clear()
            if not await self.run_once(name):
                await self._wait(name)

    async def _wait(self, name: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_S):
                await self._woken[name].wait()

    async def _clear(self) -> None:
        while True:
            await self.give_up_unknown()
            await self._clock.sleep(INTERVAL_S)

    def _of(self, name: str) -> list[Delivery]:
        return [one for one in self._state.alert_index.deliveries.values() if one.receiver == name]

    async def _give_up_expired(self, name: str) -> None:
        """Give up deliveries that have expired, tried or not, and those to users who were disabled meanwhile."""
        now_us, people = self._clock.now_us(), self._state.people
        gone = [one for one in self._of(name) if one.user is not None and people.is_disabled(one.user)]
        await self._give_up(gone, "the user is disabled")
        old = [one for one in self._of(name) if has_expired(one, now_us=now_us)]
        await self._give_up(old, "not delivered within a day")

    async def _give_up(self, deliveries: Sequence[Delivery], words: str) -> None:
        """In batches, so that other commits do not wait for long."""
        for begin in range(0, len(deliveries), BATCH_DELIVERIES):
            await self._record(
                deliveries[begin : begin + BATCH_DELIVERIES], partial(_given_up, words, self._clock.now_us())
            )

    async def _try(self, address: Address, notices: tuple[Delivery, ...]) -> NotDelivered | None:
        error = await attempt_delivery(address, await self._message(address.receiver, notices))
        now_us = self._clock.now_us()
        self._breaker.record(notices, error, now_us=now_us)
        await self._record(notices, partial(_attempted, error, now_us))
        return error

    async def _message(self, receiver: Receiver, notices: tuple[Delivery, ...]) -> Message:
        user = notices[0].user
        known = None if user is None else self._state.alert_index.subscribers.get(user)
        email = None if known is None else known.email
        details = await output_ends(self._state, self._outputs, notices, lines_max=receiver.output_lines)
        return Message(key=key_of(notices), user=user, email=email, notices=notices, details=details)

    async def _record(self, notices: Sequence[Delivery], change: Callable[[Delivery], tuple[Delivery, str]]) -> None:
        def write(draft: UnitOfWork) -> None:
            for one in notices:
                known = draft.notice(Delivery, one.id)
                if known is not None and known.tries == one.tries:
                    draft.put(*change(known))

        await self._journal.persist(write, actor=ACTOR)

    def _on_event(self, event: Event) -> None:
        one = event.record
        if not isinstance(one, Delivery) or one.receiver not in self._woken or one.tries:
            return
        self._woken[one.receiver].set()
        if is_urgent((one,)):
            self._urgent.add(one.receiver)


def _attempted(error: NotDelivered | None, now_us: int, one: Delivery) -> tuple[Delivery, str]:
    """A delivery after an attempt, and the name of the event."""
    tried = replace(one, tries=one.tries + 1)
    if error is None:
        return replace(tried, state=DeliveryState.SENT, ended_us=now_us, error=None), "sent"
    if error.is_final or is_expired(one.made_us, now_us=now_us):
        return _given_up(str(error), now_us, tried)
    next_us = now_us + backoff_us(tried.tries, wait_s=error.wait_s)
    return replace(tried, error=str(error)[:ERROR_CHARACTERS], next_us=next_us), "failed"


def _given_up(words: str, now_us: int, one: Delivery) -> tuple[Delivery, str]:
    error = words[:ERROR_CHARACTERS]
    return replace(one, state=DeliveryState.GIVEN_UP, ended_us=now_us, error=error), "given_up"
