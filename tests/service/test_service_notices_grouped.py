"""Critical alerts that open together share one mail; disabled users get no pending mail."""

from datetime import UTC, datetime, time

import pytest

from aliquot.service.alerts.context import NotDelivered
from aliquot.service.alerts.routing import QuietHours, Receiver
from aliquot_schema.alerts import DeliveryState, Severity
from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import AgentId, UserId
from notices_pipeline import alert_pipeline, fail_session, open_alert
from service_bench import agent

pytestmark = pytest.mark.anyio

OPS = Receiver(name="ops", kind="webhook")
ANN = UserId("ann")


async def test_many_agents_lost_together_send_one_notice_also_after_a_failed_delivery() -> None:
    quiet = QuietHours(begin=time(0), end=time(23, 59), zone=UTC)
    names = [f"n{number}" for number in range(12)]
    receiver = Receiver(name="ops", kind="webhook", quiet=quiet)
    async with alert_pipeline(receiver, agents=[agent(name, devices=1) for name in names]) as on:
        await on.deliver()
        box = on.senders["ops"]
        box.errors.append(NotDelivered("it answered 500"))
        await on.stage.on_event(*(AgentSilent(agent_id=AgentId(name), lost=True) for name in names))
        await on.evaluate()
        await on.deliver()
        assert (len(box.errors), box.messages) == (0, [])
        await on.evaluate(3600)
        await on.deliver()
        (letter,) = box.messages
        assert sorted(one.subject for one in letter.notices) == sorted(names)


async def test_a_later_critical_alert_is_sent_as_a_separate_notice() -> None:
    async with alert_pipeline(OPS) as on:
        await on.deliver()
        for words in ("burning", "worse"):
            await open_alert(on, words, severity=Severity.CRITICAL)
            await on.deliver()
        assert on.senders["ops"].texts == [["burning"], ["worse"]]


async def test_a_user_disabled_during_quiet_hours_gets_no_waiting_notices() -> None:
    quiet = QuietHours(begin=time(22), end=time(7), zone=UTC)
    owners = Receiver(name="owners", kind="webhook", tells_alerts=False, tells_owners=True, quiet=quiet)
    async with alert_pipeline(owners) as on:
        on.stage.clock.advance(datetime(2026, 11, 20, 23, tzinfo=UTC).timestamp())
        await on.deliver()
        await fail_session(on)
        await on.deliver()
        (waiting,) = on.stage.state.alert_index.deliveries
        gone = User(id=ANN, role=Role.USER, created_us=1, disabled=True)
        await on.stage.journal.transact(lambda draft: draft.put(gone, "disabled"), actor="root")
        on.stage.clock.advance(9 * 3600)
        await on.deliver()
        assert on.senders["owners"].messages == []
        assert on.stage.state.alert_index.deliveries == {}
        ended = next(event.record for event in reversed(on.log) if event.entity_id == waiting)
        assert (ended.state, ended.error) == (DeliveryState.GIVEN_UP, "the user is disabled")  # type: ignore[union-attr]
