"""The outbox: contents, recipients, times and retries, and delivery over failures and take-overs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from aliquot.service.alerts.context import NotDelivered
from aliquot.service.alerts.routing import QuietHours, Receiver
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.alerts import AlertRule, NoticeKind, NoticeRule, Severity, Subscriber
from aliquot_schema.cluster.launching import OUTPUT_END, AgentSilent, LogChunk
from aliquot_schema.events import Event
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import AgentId, KernelId, UserId
from notices_pipeline import alert_pipeline, fail_session, open_alert, pipeline_on

pytestmark = pytest.mark.anyio

ANN = UserId("ann")
OPS = Receiver(name="ops", kind="webhook")
OWNERS = Receiver(name="owners", kind="webhook", tells_alerts=False, tells_owners=True)
DAY_S = 86_400


async def test_a_failed_notice_is_sent_again_with_growing_delays() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.extend([NotDelivered("it answered 500"), NotDelivered("no answer within 10 s")])
        await open_alert(on, "it burns")
        await on.deliver()
        (waiting,) = on.stage.state.alert_index.deliveries.values()
        assert (waiting.tries, waiting.error) == (1, "it answered 500")
        on.stage.clock.advance(9)
        await on.deliver()
        assert len(on.senders["ops"].errors) == 1
        on.stage.clock.advance(2)
        await on.deliver()
        on.stage.clock.advance(19)
        await on.deliver()
        assert on.senders["ops"].messages == []
        on.stage.clock.advance(2)
        await on.deliver()
        assert on.senders["ops"].texts == [["it burns"]]
        assert on.kinds("delivery") == ["queued", "failed", "failed", "sent"]
        assert on.stage.state.alert_index.deliveries == {}


async def test_a_failing_notice_is_given_up_after_a_day() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.extend(NotDelivered("it answered 500") for _ in range(100))
        await open_alert(on, "it burns")
        for _ in range(60):
            await on.deliver()
            on.stage.clock.advance(3600)
        kinds = on.kinds("delivery")
        assert (kinds[0], kinds[-1], set(kinds[1:-1])) == ("queued", "given_up", {"failed"})
        assert 20 <= len(kinds) <= 40
        assert on.senders["ops"].messages == []


@pytest.mark.parametrize(
    ("end", "now", "until"),
    [
        ("02:30", "2026-10-24T23:50+00:00", "2026-10-25T00:30+00:00"),
        ("02:30", "2026-10-25T01:10+00:00", "2026-10-25T01:30+00:00"),
        ("03:30", "2026-10-25T01:10+00:00", "2026-10-25T02:30+00:00"),
        ("02:30", "2026-03-29T00:10+00:00", "2026-03-29T01:30+00:00"),
        ("07:00", "2026-03-28T23:10+00:00", "2026-03-29T05:00+00:00"),
    ],
)
def test_quiet_hours_never_end_before_now_when_the_clocks_are_changed(end: str, now: str, until: str) -> None:
    hours = QuietHours(begin=time(22), end=time.fromisoformat(end), zone=ZoneInfo("Europe/Berlin"))
    found = hours.until(datetime.fromisoformat(now))
    assert found is not None
    assert found.astimezone(UTC) == datetime.fromisoformat(until)


async def test_invalid_characters_in_notices_and_alerts_are_replaced() -> None:
    async with alert_pipeline(OWNERS) as on:
        await on.deliver()
        await fail_session(on, name="one\r\ntwo")
        on.stage.state.disk_space.server = "half \ud800 and \0"
        await on.evaluate(31)
        await on.evaluate(31)
        await on.deliver()
        (alert,) = on.stage.state.alert_index.alerts.values()
        assert alert.words == "on the server, half \N{REPLACEMENT CHARACTER} and \N{REPLACEMENT CHARACTER}"
        ((words,),) = on.senders["owners"].texts
        assert words.startswith("one\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}two (ses_")


async def test_a_finally_refused_notice_is_not_sent_again_and_does_not_block_others() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.append(NotDelivered("it answered 410", is_final=True))
        await open_alert(on, "first")
        await open_alert(on, "second")
        await on.deliver()
        assert on.senders["ops"].texts == [["second"]]
        assert on.kinds("delivery") == ["queued", "queued", "given_up", "sent"]


async def test_a_notice_that_cannot_be_encoded_is_recorded_as_failed() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        on.senders["ops"].errors.append(UnicodeEncodeError("utf-8", "?", 0, 1, "odd"))  # type: ignore[arg-type]
        await open_alert(on, "odd")
        await on.deliver()
        (waiting,) = on.stage.state.alert_index.deliveries.values()
        assert waiting.error == "internal error of the server: UnicodeEncodeError"


async def test_the_next_leader_sends_unsent_notices_under_the_same_key_and_none_twice() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        await open_alert(on, "first")
        await on.deliver()
        await open_alert(on, "second")
        await on.notifier.run_once()
        (left,) = on.stage.state.alert_index.deliveries
        await open_alert(on, "third")
        successor = pipeline_on(on.stage, OPS)
        await successor.deliver()
        assert successor.senders["ops"].texts == [["second"], ["third"]]
        assert successor.senders["ops"].messages[0].key == left
        await on.deliver()
        assert on.senders["ops"].texts == [["first"]]


async def test_notices_are_sent_once_an_unreadable_event_log_can_be_read_again() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        await open_alert(on, "first")
        await open_alert(on, "second")
        page, faults = on.stage.feed.page, [StoreUnavailable("the database cannot be reached")]

        async def halting(after: int) -> tuple[Event, ...]:
            events = (await page(after))[:1]
            if events and events[0].record.id != first.id and faults:
                raise faults.pop()
            return events

        (first, *_) = on.stage.state.alert_index.alerts.values()
        on.stage.feed.page = halting  # type: ignore[method-assign]
        queued = asyncio.Semaphore(0)
        on.stage.journal.subscribe(lambda event: queued.release() if event.kind == "delivery.queued" else None)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(on.notifier.run())
            await queued.acquire()
            await queued.acquire()
            telling.cancel()
        assert [one.words for one in on.stage.state.alert_index.deliveries.values()] == ["first", "second"]
        assert faults == []


async def test_events_before_the_first_start_of_notices_send_no_notices() -> None:
    async with alert_pipeline(OPS) as on:
        await open_alert(on, "old")
        await on.deliver()
        await open_alert(on, "new")
        await on.deliver()
        assert on.senders["ops"].texts == [["new"]]


async def test_events_older_than_a_day_send_no_notices() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        await open_alert(on, "old")
        on.stage.clock.advance(DAY_S + 60)
        await open_alert(on, "new")
        await on.deliver()
        assert on.senders["ops"].texts == [["new"]]


async def test_notices_that_are_not_critical_are_sent_together_after_quiet_hours() -> None:
    quiet = QuietHours(begin=time(22), end=time(7), zone=ZoneInfo("Europe/Berlin"))
    receiver = Receiver(name="ops", kind="webhook", quiet=quiet)
    async with alert_pipeline(receiver) as on:
        on.stage.clock.advance(datetime(2026, 11, 20, 23, tzinfo=UTC).timestamp())  # midnight in Berlin
        await on.deliver()
        await open_alert(on, "slow")
        await open_alert(on, "burning", severity=Severity.CRITICAL)
        await on.deliver()
        on.stage.clock.advance(3600)
        await open_alert(on, "slower")
        await on.deliver()
        assert on.senders["ops"].texts == [["burning"]]
        on.senders["ops"].errors.append(NotDelivered("it answered 500"))
        on.stage.clock.advance(6 * 3600)
        await on.deliver()
        await open_alert(on, "of the morning")
        on.stage.clock.advance(60)
        await on.deliver()
        burning, *morning = on.senders["ops"].messages
        assert sorted(letter.subject for letter in morning) == ["2 notices; the first: slow", "of the morning"]
        assert {letter.key for letter in morning if len(letter.notices) == 2} != {burning.key}


@pytest.mark.parametrize(
    ("begin", "end", "now", "until"),
    [
        ("22:00", "07:00", "2026-07-01T21:59", None),
        ("22:00", "07:00", "2026-07-01T22:00", "2026-07-02T07:00"),
        ("22:00", "07:00", "2026-07-02T06:59", "2026-07-02T07:00"),
        ("22:00", "07:00", "2026-07-02T07:00", None),
        ("12:00", "13:30", "2026-07-02T12:10", "2026-07-02T13:30"),
        # The clocks go back an hour in this night, at three.
        ("22:00", "07:00", "2026-10-24T23:00", "2026-10-25T07:00"),
    ],
)
def test_quiet_hours_follow_the_local_time(begin: str, end: str, now: str, until: str | None) -> None:
    zone = ZoneInfo("Europe/Berlin")
    hours = QuietHours(begin=time.fromisoformat(begin), end=time.fromisoformat(end), zone=zone)
    found = hours.until(datetime.fromisoformat(now).replace(tzinfo=zone).astimezone(UTC))
    assert found == (None if until is None else datetime.fromisoformat(until).replace(tzinfo=zone))


async def test_sessions_that_fail_together_send_one_notice_to_their_owner() -> None:
    mail = Receiver(name="mail", kind="email", tells_alerts=False, tells_owners=True, gather_s=10)
    async with alert_pipeline(mail) as on:
        await on.deliver()
        subscriber = Subscriber(id=ANN, email="ann@example.org")
        await on.stage.journal.transact(lambda draft: draft.put(subscriber, "changed"), actor=ANN)
        for _ in range(3):
            await fail_session(on)
        await on.deliver()
        on.stage.clock.advance(10)
        await on.deliver()
        (letter,) = on.senders["mail"].messages
        assert (letter.user, letter.email, len(letter.notices)) == (ANN, "ann@example.org", 3)


async def test_owners_get_the_notices_they_chose_and_mail_only_with_an_address() -> None:
    mail = Receiver(name="mail", kind="email", tells_alerts=False, tells_owners=True)
    async with alert_pipeline(OWNERS, mail) as on:
        await on.deliver()
        failed = await fail_session(on, name="train")
        await fail_session(on, code=0)
        await on.deliver()
        (words,) = on.senders["owners"].texts
        assert words[0].startswith(f"train ({failed}) has failed after 0 s: ")
        assert words[0].endswith(": rank 0 on a exited with code 3")
        assert on.senders["mail"].messages == []
        likes = Subscriber(id=ANN, email="ann@example.org", notify=(NoticeKind.SESSION_COMPLETED,))
        await on.stage.journal.transact(lambda draft: draft.put(likes, "changed"), actor=ANN)
        await fail_session(on)
        await fail_session(on, code=0)
        await on.deliver()
        (letter,) = on.senders["mail"].messages
        assert letter.notices[0].kind is NoticeKind.SESSION_COMPLETED


async def test_a_disabled_user_gets_no_notices() -> None:
    async with alert_pipeline(OWNERS) as on:
        await on.deliver()
        gone = User(id=ANN, role=Role.USER, created_us=1, disabled=True)
        await on.stage.journal.transact(lambda draft: draft.put(gone, "disabled"), actor="root")
        await fail_session(on)
        await on.deliver()
        assert on.senders["owners"].messages == []


async def test_the_notice_of_the_last_failure_says_that_all_retries_are_used() -> None:
    async with alert_pipeline(OWNERS) as on:
        await on.deliver()
        name = await on.stage.submit(max_retries=1, retries_own_failures=True)
        for attempt in (1, 2):
            await on.stage.advance()
            on.stage.executor.end_kernel(KernelId(f"{name}.{attempt}.0"), code=1)
            await on.stage.settle()
            on.stage.clock.advance(3600)
        await on.deliver()
        (letter,) = on.senders["owners"].messages
        assert letter.notices[0].kind is NoticeKind.RETRIES_SPENT
        assert letter.notices[0].words.endswith("all 1 retries are used")


async def test_failed_tasks_of_an_array_send_one_notice() -> None:
    async with alert_pipeline(OWNERS) as on:
        await on.deliver()
        array = await on.stage.submit(array="0-1")
        await on.stage.advance()
        for index in (0, 1):
            on.stage.executor.end_kernel(KernelId(f"{array}_{index}.1.0"), code=1)
        await on.stage.settle()
        await on.deliver()
        assert [letter.notices[0].subject for letter in on.senders["owners"].messages] == [array]


async def test_owners_and_operators_get_notices_of_a_lost_agent_and_of_its_return() -> None:
    async with alert_pipeline(OWNERS, OPS) as on:
        await on.deliver()
        await on.stage.submit(name="train")
        await on.stage.advance()
        await on.stage.on_event(AgentSilent(agent_id=AgentId("a"), lost=True))
        await on.evaluate()
        await on.deliver()
        on.stage.executor.reconnect_agent(AgentId("a"))
        await on.stage.settle()
        await on.evaluate(1)
        await on.evaluate(31)
        await on.deliver()
        for box in on.senders.values():
            (lost,), (back,) = box.texts
            assert lost.startswith("agent a on a is lost; its processes may still run: train")
            assert back.startswith("over, after ")


class Printed:
    """An output of a given length, as from an agent."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    async def follow_log(self, _agent: AgentId, _kernel: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        if offset == OUTPUT_END:
            offset = len(self.data)
            yield LogChunk(offset=offset, data=b"", at_end=False)
        while piece := self.data[offset : offset + 64 * 1024]:
            self.read += len(piece)
            yield LogChunk(offset=offset, data=piece, at_end=False)
            offset += len(piece)
        yield LogChunk(offset=offset, data=b"", at_end=True)


@pytest.mark.parametrize("length", [0, 1, 100, 16_384, 16_385, 32_768, 1_000_000, 20_000_000])
async def test_a_failure_notice_includes_the_end_of_the_output_if_configured(length: int) -> None:
    mail = Receiver(name="mail", kind="webhook", tells_alerts=False, tells_owners=True, output_lines=2)
    async with alert_pipeline(mail) as on:
        await on.deliver()
        printed = Printed(b"x" * length + b"\none\ntwo\n\x1b[31mthree\n")
        on.stage.executor.follow_log = printed.follow_log  # type: ignore[method-assign]
        await fail_session(on)
        await on.deliver()
        (letter,) = on.senders["mail"].messages
        assert letter.details == ("two\n\N{REPLACEMENT CHARACTER}[31mthree",)
        assert printed.read < 3_000_000


async def test_a_muted_rule_sends_no_notices() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        until_us = on.stage.clock.now_us() + 60_000_000
        mute = NoticeRule(id=AlertRule.DISK_LOW.value, muted_until_us=until_us)
        await on.stage.journal.transact(lambda draft: draft.put(mute, "muted"), actor="root")
        await open_alert(on, "muted")
        await on.deliver()
        on.stage.clock.advance(61)
        await open_alert(on, "told")
        await on.deliver()
        assert on.senders["ops"].texts == [["told"]]


@pytest.mark.parametrize(
    ("receiver", "hears"),
    [
        (Receiver(name="x", kind="webhook", least=Severity.CRITICAL), False),
        (Receiver(name="x", kind="webhook", least=Severity.WARNING), True),
        (Receiver(name="x", kind="webhook", kinds=frozenset({NoticeKind.AGENT_LOST})), False),
        (Receiver(name="x", kind="webhook", kinds=frozenset({NoticeKind.DISK_LOW})), True),
        (Receiver(name="x", kind="webhook", tells_alerts=False, tells_owners=True), False),
    ],
)
async def test_receivers_get_only_the_alerts_they_are_configured_for(receiver: Receiver, hears: bool) -> None:
    async with alert_pipeline(receiver) as on:
        await on.deliver()
        await open_alert(on, "low")
        await on.deliver()
        assert bool(on.senders["x"].messages) is hears


async def test_notices_for_a_removed_receiver_are_given_up() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        await open_alert(on, "low")
        await on.notifier.run_once()
        await pipeline_on(on.stage).outbox.give_up_unknown()
        assert on.kinds("delivery") == ["queued", "given_up"]
