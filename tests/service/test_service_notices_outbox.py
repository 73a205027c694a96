"""The outbox when receivers are down or mails are many: order and length of waits."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from aliquot.service.alerts.context import NotDelivered
from aliquot.service.alerts.evaluator import ACTOR
from aliquot.service.alerts.message_texts import NOTICES_MAX, OUTPUTS_MAX, Message, due, key_of
from aliquot.service.alerts.outbox import ROUND_MESSAGES, Address, attempt_delivery
from aliquot.service.alerts.routing import Receiver
from aliquot_schema.alerts import Delivery, NoticeKind, Severity
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.ids import AgentId, KernelId, UserId
from notices_stage import Box, Notices, alert, fails, notices

pytestmark = pytest.mark.anyio

OPS = Receiver(name="ops", kind="webhook")
OWNERS = Receiver(name="owners", kind="webhook", tells_alerts=False, tells_owners=True)
ONE = Delivery(
    id="dlv_1",
    receiver="owners",
    kind=NoticeKind.SESSION_FAILED,
    severity=Severity.WARNING,
    subject="ses_1",
    words="it has failed",
    notice_id="event:1",
    is_gathered=True,
    made_us=1_000_000,
    next_us=1_000_000,
)


async def test_notices_that_wait_behind_others_for_a_day_are_given_up() -> None:
    async with notices(OPS) as on:
        await on.tell()
        on.boxes["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(100))
        for number in range(60):
            await alert(on, f"alert {number}")
        for _ in range(26):
            await on.tell()
            on.on.clock.passes(3600)
        assert on.on.state.alert_index.deliveries == {}
        assert on.kinds("delivery").count("given_up") == 60
        on.boxes["ops"].errors.clear()
        await on.tell()
        assert on.boxes["ops"].letters == []


async def test_critical_notices_are_sent_first_and_without_a_retry_delay() -> None:
    async with notices(OPS) as on:
        await on.tell()
        for number in range(ROUND_MESSAGES + 5):
            await alert(on, f"alert {number}")
        await alert(on, "burning", severity=Severity.CRITICAL)
        await on.tell()
        assert on.boxes["ops"].words[0] == ["burning"]
        assert len(on.boxes["ops"].words) == ROUND_MESSAGES
        on.boxes["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(3))
        for _ in range(3):
            await alert(on, "burning", severity=Severity.CRITICAL)
        await on.tell()
        await on.tell()
        assert len(on.boxes["ops"].errors) == 2, "what was made before the failure waits"
        await alert(on, "worse", severity=Severity.CRITICAL)
        await on.tell()
        assert len(on.boxes["ops"].errors) == 1
        on.on.clock.passes(20)
        on.boxes["ops"].errors.clear()
        await on.tell()
        assert ["worse"] in on.boxes["ops"].words


async def test_a_critical_notice_that_arrives_during_a_round_is_sent_next() -> None:
    class Slow(Box):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            if len(self.letters) == 2:
                await alert(on, "burning", severity=Severity.CRITICAL)
                await on.scribe.run_once()

    async with notices(OPS, sender=Slow()) as on:
        await on.tell()
        for number in range(4):
            await alert(on, f"alert {number}")
        await on.tell()
        await on.tell()
        assert [words for (words,) in on.boxes["ops"].words] == ["alert 0", "alert 1", "burning", "alert 2", "alert 3"]


async def test_a_refused_address_does_not_delay_notices_to_other_users() -> None:
    async with notices(OWNERS) as on:
        box = on.boxes["owners"]
        box.errors.extend([NotDelivered("no", is_message_specific=True)] * 2)
        for user in ("ann", "ann", "bob"):
            await waiting_for(on, user)
        await on.outbox.run_once("owners")
        assert (len(box.errors), box.letters) == (0, []), "her second letter was not tried"
        for user in ("ann", "cat"):
            await waiting_for(on, user)
        await on.outbox.run_once("owners")
        assert [letter.user for letter in box.letters] == ["cat"]
        on.on.clock.passes(11)
        await on.outbox.run_once("owners")
        assert sorted(str(letter.user) for letter in box.letters) == ["ann", "ann", "ann", "bob", "cat"]


async def waiting_for(on: Notices, user: str) -> None:
    """A mail due now."""
    now_us = on.on.clock.now_us()
    made = replace(ONE, id=f"dlv_{now_us}", user=UserId(user), is_gathered=False, made_us=now_us, next_us=now_us)
    await on.on.journal.transact(lambda draft: draft.put(made, "queued"), actor=ACTOR)


def test_a_message_has_a_maximum_number_of_notices_and_the_rest_keep_their_keys() -> None:
    many = [replace(ONE, id=f"dlv_{number:05}") for number in range(2 * NOTICES_MAX + 1)]
    letters = due(reversed(many), now_us=ONE.next_us)
    assert [len(notices) for notices in letters] == [NOTICES_MAX, NOTICES_MAX, 1]
    rest = due(many[NOTICES_MAX:], now_us=ONE.next_us)
    assert [key_of(notices) for notices in rest] == [key_of(notices) for notices in letters[1:]]


async def test_a_delivery_that_hangs_fails_by_timeout() -> None:
    class Hung(Box):
        async def deliver(self, letter: Message) -> None:
            await asyncio.Event().wait()

    async with notices(OPS) as on:
        one = await alert(on, "low")
        await on.tell()
        letter = Message(key=one.id, user=None, email=None, notices=())
        error = await attempt_delivery(Address(receiver=OPS, sender=Hung()), letter, most_s=0.01)
        assert str(error) == "not delivered within 0.01 s"


async def test_the_number_of_outputs_read_for_one_message_is_limited() -> None:
    mail = Receiver(name="mail", kind="webhook", tells_alerts=False, tells_owners=True, output_lines=2, gather_s=3600)
    async with notices(mail) as on:
        await on.tell()
        follow, asked = on.on.executor.follow_log, set[str]()

        def counted(agent: AgentId, kernel: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
            asked.add(kernel)
            return follow(agent, kernel, offset=offset)

        on.on.executor.follow_log = counted  # type: ignore[method-assign, assignment]
        for _ in range(OUTPUTS_MAX + 3):
            await fails(on)
        await on.tell()
        on.on.clock.passes(3601)
        await on.tell()
        (letter,) = on.boxes["mail"].letters
        assert len(letter.notices) == len(letter.details) == OUTPUTS_MAX + 3
        assert len(asked) == OUTPUTS_MAX


async def test_a_receiver_that_is_down_does_not_keep_the_others_waiting() -> None:
    async with notices(OPS, Receiver(name="chat", kind="slack")) as on:
        await on.tell()
        on.boxes["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(9))
        for number in range(5):
            await alert(on, f"alert {number}")
        await on.tell()
        assert len(on.boxes["chat"].letters) == 5
        assert len(on.boxes["ops"].errors) == 8, "the first failure ends the round"
