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
from notices_pipeline import AlertPipeline, FakeSender, alert_pipeline, fail_session, open_alert

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
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(100))
        for number in range(60):
            await open_alert(on, f"alert {number}")
        for _ in range(26):
            await on.deliver()
            on.stage.clock.advance(3600)
        assert on.stage.state.alert_index.deliveries == {}
        assert on.kinds("delivery").count("given_up") == 60
        on.senders["ops"].errors.clear()
        await on.deliver()
        assert on.senders["ops"].messages == []


async def test_critical_notices_are_sent_first_and_without_a_retry_delay() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        for number in range(ROUND_MESSAGES + 5):
            await open_alert(on, f"alert {number}")
        await open_alert(on, "burning", severity=Severity.CRITICAL)
        await on.deliver()
        assert on.senders["ops"].texts[0] == ["burning"]
        assert len(on.senders["ops"].texts) == ROUND_MESSAGES
        on.senders["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(3))
        for _ in range(3):
            await open_alert(on, "burning", severity=Severity.CRITICAL)
        await on.deliver()
        await on.deliver()
        assert len(on.senders["ops"].errors) == 2, "what was made before the failure waits"
        await open_alert(on, "worse", severity=Severity.CRITICAL)
        await on.deliver()
        assert len(on.senders["ops"].errors) == 1
        on.stage.clock.advance(20)
        on.senders["ops"].errors.clear()
        await on.deliver()
        assert ["worse"] in on.senders["ops"].texts


async def test_a_critical_notice_that_arrives_during_a_round_is_sent_next() -> None:
    class Slow(FakeSender):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            if len(self.messages) == 2:
                await open_alert(on, "burning", severity=Severity.CRITICAL)
                await on.notifier.run_once()

    async with alert_pipeline(OPS, sender=Slow()) as on:
        await on.deliver()
        for number in range(4):
            await open_alert(on, f"alert {number}")
        await on.deliver()
        await on.deliver()
        assert [words for (words,) in on.senders["ops"].texts] == [
            "alert 0",
            "alert 1",
            "burning",
            "alert 2",
            "alert 3",
        ]


async def test_a_refused_address_does_not_delay_notices_to_other_users() -> None:
    async with alert_pipeline(OWNERS) as on:
        box = on.senders["owners"]
        box.errors.extend([NotDelivered("no", is_message_specific=True)] * 2)
        for user in ("ann", "ann", "bob"):
            await waiting_for(on, user)
        await on.outbox.run_once("owners")
        assert (len(box.errors), box.messages) == (0, []), "her second letter was not tried"
        for user in ("ann", "cat"):
            await waiting_for(on, user)
        await on.outbox.run_once("owners")
        assert [letter.user for letter in box.messages] == ["cat"]
        on.stage.clock.advance(11)
        await on.outbox.run_once("owners")
        assert sorted(str(letter.user) for letter in box.messages) == ["ann", "ann", "ann", "bob", "cat"]


async def waiting_for(on: AlertPipeline, user: str) -> None:
    """A mail due now."""
    now_us = on.stage.clock.now_us()
    made = replace(ONE, id=f"dlv_{now_us}", user=UserId(user), is_gathered=False, made_us=now_us, next_us=now_us)
    await on.stage.journal.transact(lambda draft: draft.put(made, "queued"), actor=ACTOR)


def test_a_message_has_a_maximum_number_of_notices_and_the_rest_keep_their_keys() -> None:
    many = [replace(ONE, id=f"dlv_{number:05}") for number in range(2 * NOTICES_MAX + 1)]
    letters = due(reversed(many), now_us=ONE.next_us)
    assert [len(notices) for notices in letters] == [NOTICES_MAX, NOTICES_MAX, 1]
    rest = due(many[NOTICES_MAX:], now_us=ONE.next_us)
    assert [key_of(notices) for notices in rest] == [key_of(notices) for notices in letters[1:]]


async def test_a_receiver_gets_the_time_that_it_asks_for_but_no_more_than_an_hour() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.extend(NotDelivered("busy", wait_s=asked_s) for asked_s in (300, 1e12))
        for _ in range(2):
            await open_alert(on, "low")
        for wait_s, left in ((0, 1), (299, 1), (2, 0), (3599, 0)):
            on.stage.clock.advance(wait_s)
            await on.deliver()
            assert (len(on.senders["ops"].errors), on.senders["ops"].messages) == (left, [])
        on.stage.clock.advance(2)
        await on.deliver()
        assert len(on.senders["ops"].messages) == 2


async def test_a_delivery_that_hangs_fails_by_timeout() -> None:
    class Hung(FakeSender):
        async def deliver(self, letter: Message) -> None:
            await asyncio.Event().wait()

    async with alert_pipeline(OPS) as on:
        one = await open_alert(on, "low")
        await on.deliver()
        letter = Message(key=one.id, user=None, email=None, notices=())
        error = await attempt_delivery(Address(receiver=OPS, sender=Hung()), letter, most_s=0.01)
        assert str(error) == "not delivered within 0.01 s"


async def test_the_number_of_outputs_read_for_one_message_is_limited() -> None:
    mail = Receiver(name="mail", kind="webhook", tells_alerts=False, tells_owners=True, output_lines=2, gather_s=3600)
    async with alert_pipeline(mail) as on:
        await on.deliver()
        follow, asked = on.stage.executor.follow_log, set[str]()

        def counted(agent: AgentId, kernel: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
            asked.add(kernel)
            return follow(agent, kernel, offset=offset)

        on.stage.executor.follow_log = counted  # type: ignore[method-assign, assignment]
        for _ in range(OUTPUTS_MAX + 3):
            await fail_session(on)
        await on.deliver()
        on.stage.clock.advance(3601)
        await on.deliver()
        (letter,) = on.senders["mail"].messages
        assert len(letter.notices) == len(letter.details) == OUTPUTS_MAX + 3
        assert len(asked) == OUTPUTS_MAX


async def test_a_receiver_that_is_down_does_not_keep_the_others_waiting() -> None:
    async with alert_pipeline(OPS, Receiver(name="chat", kind="slack")) as on:
        await on.deliver()
        on.senders["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(9))
        for number in range(5):
            await open_alert(on, f"alert {number}")
        await on.deliver()
        assert len(on.senders["chat"].messages) == 5
        assert len(on.senders["ops"].errors) == 8, "the first failure ends the round"
