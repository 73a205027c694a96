"""Alerts: when they open and close, and that a flapping condition is one alert."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from aliquot.clock import RandomIds
from aliquot.service.alerts.conditions import leader_checks
from aliquot.service.alerts.context import AlertContext, NotDelivered
from aliquot.service.alerts.leaderless import LeaderlessAlerts
from aliquot.service.alerts.message_texts import Message
from aliquot.service.alerts.outbox import Address
from aliquot.service.alerts.routing import Receiver
from aliquot.service.alerts.rules import DEFAULTS, Rules
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.alerts import AlertRule, Severity
from aliquot_schema.cluster.launching import AgentJoined, AgentSilent, DevicesChanged, NewReadings
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.devices import DeviceHealth, DeviceReading
from aliquot_schema.resources.slots import SlotAmounts
from notices_pipeline import AlertPipeline, FakeSender, alert_pipeline
from service_bench import gpus

pytestmark = pytest.mark.anyio

R = AlertRule
OPS = Receiver(name="ops", kind="webhook")
LOST = AgentSilent(agent_id=AgentId("a"), lost=True)


def open_alerts(on: AlertPipeline) -> dict[str, str]:
    """Texts by rule."""
    return {alert.rule.value: alert.words for alert in on.stage.state.alert_index.alerts.values()}


async def end(on: AlertPipeline, *, code: int) -> None:
    """Let a session end with an exit code."""
    name = await on.stage.submit()
    await on.stage.advance()
    on.stage.executor.end_kernel(KernelId(f"{name}.1.0"), code=code)
    await on.stage.settle()


async def test_a_backlog_is_an_alert_once_it_has_lasted() -> None:
    rule = replace(DEFAULTS[R.QUEUE_BACKLOG], threshold=2, for_s=600)
    async with alert_pipeline(OPS, queue_backlog=rule) as on:
        waiting = [await on.stage.submit(held=True) for _ in range(3)]
        assert await on.evaluate() == (0, 0)
        assert await on.evaluate(599) == (0, 0)
        assert await on.evaluate(2) == (1, 0)
        assert open_alerts(on) == {"queue_backlog": "3 tasks are waiting, more than 2"}
        assert await on.evaluate(5) == (0, 0)
        await on.stage.cancel(waiting[0])
        assert await on.evaluate(5) == (0, 0)
        assert await on.evaluate(600) == (0, 1)
        assert on.kinds("alert") == ["opened", "closed"]


async def test_a_backlog_that_ends_early_starts_its_duration_again() -> None:
    rule = replace(DEFAULTS[R.QUEUE_BACKLOG], threshold=0, for_s=600)
    async with alert_pipeline(queue_backlog=rule) as on:
        first = await on.stage.submit(held=True)
        await on.evaluate()
        await on.stage.cancel(first)
        await on.evaluate(500)
        await on.stage.submit(held=True)
        assert await on.evaluate(500) == (0, 0)
        assert await on.evaluate(601) == (1, 0)


async def test_an_agent_that_comes_and_goes_is_one_alert() -> None:
    async with alert_pipeline(OPS) as on:
        joined = AgentJoined(inventory=on.stage.executor.agents[AgentId("a")].inventory())
        for _ in range(5):
            await on.stage.on_event(LOST)
            await on.evaluate(5)
            await on.stage.on_event(joined)
            await on.evaluate(5)
        assert on.kinds("alert") == ["opened"]
        assert await on.evaluate(31) == (0, 1)


async def test_a_recurring_alert_closes_after_a_longer_quiet_time_each_time() -> None:
    async with alert_pipeline(OPS) as on:
        joined = AgentJoined(inventory=on.stage.executor.agents[AgentId("a")].inventory())
        for calm_s in (30, 60, 120, 240, 480, 600, 600):
            await on.stage.on_event(LOST)
            assert await on.evaluate(5) == (1, 0)
            await on.stage.on_event(joined)
            assert await on.evaluate(5) == (0, 0)
            assert await on.evaluate(calm_s - 1) == (0, 0)
            assert await on.evaluate(2) == (0, 1)
        await on.evaluate(3601)
        await on.stage.on_event(LOST)
        await on.evaluate()
        await on.stage.on_event(joined)
        await on.evaluate()
        assert await on.evaluate(31) == (0, 1)


async def test_gpus_idle_behind_quotas_are_an_alert_above_the_threshold() -> None:
    limit = Quota(
        id=quota_id(QuotaScope.USER, "ann"),
        scope=QuotaScope.USER,
        name="ann",
        max_slots=SlotAmounts.parse({"cuda.device": "1"}),
    )
    words = "1 GPU is free; 1 of 1 waiting sessions is held back by quotas"
    for threshold, expected in ((1, {}), (0, {"idle_behind_quotas": words})):
        rule = replace(DEFAULTS[R.IDLE_BEHIND_QUOTAS], threshold=threshold, for_s=0)
        async with alert_pipeline(idle_behind_quotas=rule) as on:
            await on.stage.journal.persist(lambda draft: draft.put(limit, "changed"), actor="ann")
            await on.stage.submit()
            await on.stage.submit()
            await on.stage.advance()
            await on.evaluate()
            assert open_alerts(on) == expected


async def test_an_alert_for_a_lost_agent_names_the_owners_of_its_sessions() -> None:
    async with alert_pipeline() as on:
        running = await on.stage.submit(name="train")
        await on.stage.advance()
        await on.stage.on_event(LOST)
        await on.evaluate()
        (alert,) = on.stage.state.alert_index.alerts.values()
        assert (alert.rule, alert.subject, alert.severity) == (R.AGENT_LOST, "a", Severity.CRITICAL)
        assert alert.owners == ("ann",)
        assert f"train ({running})" in alert.words


async def test_long_waits_open_one_alert_per_owner() -> None:
    rule = replace(DEFAULTS[R.LONG_WAIT], threshold=3600)
    async with alert_pipeline(long_wait=rule) as on:
        await on.stage.submit(devices=2)
        await on.stage.advance()
        for _ in range(3):
            await on.stage.submit(devices=2)
        await on.stage.submit(held=True)
        assert await on.evaluate(3000) == (0, 0)
        assert await on.evaluate(4300) == (1, 0)
        (alert,) = on.stage.state.alert_index.alerts.values()
        assert (alert.subject, alert.owners) == ("ann", ("ann",))
        assert alert.words.endswith("of ann has waited for 2 h; 2 more have waited too long")


async def test_an_unhealthy_device_is_an_alert_until_it_is_healthy() -> None:
    async with alert_pipeline() as on:
        agent = on.stage.executor.agents[AgentId("a")]
        first, second = gpus(2)
        agent.devices = (replace(first, health=DeviceHealth.UNHEALTHY), second)
        await on.stage.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.evaluate() == (1, 0)
        assert [alert.subject for alert in on.stage.state.alert_index.alerts.values()] == [f"a/{first.id}"]
        agent.devices = (first, second)
        await on.stage.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.evaluate() == (0, 0)
        assert await on.evaluate(31) == (0, 1)


async def test_a_device_that_is_leaving_is_no_alert() -> None:
    async with alert_pipeline() as on:
        agent = on.stage.executor.agents[AgentId("a")]
        first, second = gpus(2)
        agent.devices = (replace(first, health=DeviceHealth.LEAVING), second)
        await on.stage.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.evaluate() == (0, 0)


async def test_a_high_failure_rate_is_an_alert_above_a_minimum_number_of_sessions() -> None:
    rule = replace(DEFAULTS[R.FAILURE_RATE], threshold=50, floor=3)
    async with alert_pipeline(failure_rate=rule) as on:
        await end(on, code=1)
        await end(on, code=2)
        assert await on.evaluate() == (0, 0)
        await end(on, code=0)
        assert await on.evaluate() == (1, 0)
        assert open_alerts(on) == {
            "failure_rate": "2 of 3 sessions that ended in the last hour have failed, more than 50 %"
        }
        assert await on.evaluate(3601) == (0, 0)
        assert await on.evaluate(31) == (0, 1)


async def test_a_disk_that_is_low_is_an_alert() -> None:
    async with alert_pipeline(disk_low=replace(DEFAULTS[R.DISK_LOW], for_s=0)) as on:
        on.stage.state.disk_space.agents[AgentId("a")] = "the disk of /data has 3 MiB free"
        assert await on.evaluate() == (1, 0)
        assert open_alerts(on) == {"disk_low": "on agent a, the disk of /data has 3 MiB free"}


async def test_a_change_of_leader_is_an_alert_that_closes_by_itself() -> None:
    looks = leader_checks(7, began_us=1_000_000, address="https://two:8090", is_shared=True)
    async with alert_pipeline(OPS, looks=looks) as on:
        assert await on.evaluate() == (1, 0)
        assert open_alerts(on) == {"leader_changed": "https://two:8090 leads, in epoch 7"}
        assert await on.evaluate(601) == (0, 0)
        assert await on.evaluate(31) == (0, 1)


async def test_a_rule_that_is_off_opens_nothing_and_closes_what_it_opened() -> None:
    async with alert_pipeline(OPS) as on:
        await on.stage.on_event(LOST)
        assert await on.evaluate() == (1, 0)
        off = replace(DEFAULTS[R.AGENT_LOST], is_on=False)
        await on.stage.journal.transact(lambda draft: draft.put(off, "changed"), actor="root")
        assert await on.evaluate(1) == (0, 1)
        assert await on.evaluate(1) == (0, 0)


async def test_an_open_alert_is_repeated_after_the_configured_reminder_time() -> None:
    async with alert_pipeline(OPS, reminder_s=3600) as on:
        await on.stage.on_event(LOST)
        await on.deliver()
        await on.evaluate()
        await on.evaluate(3500)
        await on.evaluate(200)
        await on.evaluate(200)
        await on.deliver()
        assert on.kinds("alert") == ["opened", "reminded"]
        told = [words for (words,) in on.senders["ops"].texts]
        assert [words.startswith("still open after 61 min") for words in told] == [False, True]


async def test_a_follower_reports_a_missing_leader_and_the_next_leader_reports_its_end() -> None:
    looks = leader_checks(1, began_us=0, address="one", is_shared=True)
    async with alert_pipeline(OPS, looks=looks) as on:
        await on.deliver()
        reasons: list[str | None] = ["no server holds the leadership lock"]
        leaderless_alerts = lookout_of(on, why=lambda: reasons[0])
        await leaderless_alerts.run_once()
        on.stage.clock.advance(59)
        await leaderless_alerts.run_once()
        assert on.senders["ops"].messages == []
        on.senders["ops"].errors.append(NotDelivered("it answered 500"))
        for _ in range(3):
            on.stage.clock.advance(5)
            await leaderless_alerts.run_once()
        words = "no server is leading, as seen by two: no server holds the leadership lock"
        assert on.senders["ops"].texts == [[words]]
        assert on.kinds("alert") == ["opened"]
        assert on.kinds("delivery") == ["sent"]
        reasons[0] = None
        await leaderless_alerts.run_once()
        await on.evaluate(1)
        await on.evaluate(61)
        await on.deliver()
        assert on.senders["ops"].texts == [[words], [f"over, after 72 s: {words}"]]


async def test_a_missing_leader_is_reported_without_a_database() -> None:
    async with alert_pipeline(OPS) as on:
        reasons: list[str | None] = ["the database does not answer"]
        leaderless_alerts = lookout_of(on, why=lambda: reasons[0])

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("the database does not answer")

        on.stage.journal.transact = away  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.stage.clock.advance(60)
        await leaderless_alerts.run_once()
        reasons[0] = None
        on.senders["ops"].errors.append(NotDelivered("it answered 500"))
        await leaderless_alerts.run_once()
        on.stage.clock.advance(11)
        await leaderless_alerts.run_once()
        await leaderless_alerts.run_once()
        words = "no server is leading, as seen by two: the database does not answer"
        assert on.senders["ops"].texts == [[words], [f"over, after 0 s: {words}"]]


async def test_a_missing_leader_is_reported_while_the_database_does_not_answer() -> None:
    """Queries on a cut connection fail after a minute or more; the operator is alerted immediately."""
    came, answered = asyncio.Event(), asyncio.Event()

    class Door(FakeSender):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            came.set()

    async def silent(*_: object, **__: object) -> None:
        await answered.wait()
        raise StoreUnavailable("the database does not answer")

    async with alert_pipeline(OPS, sender=Door()) as on:
        leaderless_alerts = lookout_of(on, why=lambda: "the database does not answer")
        on.stage.journal.transact = silent  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.stage.clock.advance(60)
        looking = asyncio.create_task(leaderless_alerts.run_once())
        try:
            await asyncio.wait_for(came.wait(), 30)
        finally:
            answered.set()
            await looking


async def test_a_missing_leader_is_recorded_once_the_database_is_back() -> None:
    looks = leader_checks(1, began_us=0, address="one", is_shared=True)
    async with alert_pipeline(OPS, looks=looks) as on:
        await on.deliver()
        reasons: list[str | None] = ["the database does not answer"]
        leaderless_alerts, transact = lookout_of(on, why=lambda: reasons[0]), on.stage.journal.transact

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("the database does not answer")

        on.stage.journal.transact = away  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.stage.clock.advance(60)
        await leaderless_alerts.run_once()
        assert on.kinds("alert") == []
        on.stage.journal.transact, reasons[0] = transact, None  # type: ignore[method-assign]
        await leaderless_alerts.run_once()
        await on.evaluate(1)
        await on.evaluate(61)
        await on.deliver()
        assert on.kinds("alert") == ["opened", "closed"]
        words = "no server is leading, as seen by two: the database does not answer"
        assert on.senders["ops"].texts == [[words], [f"over, after 62 s: {words}"]]


async def test_failing_receivers_do_not_delay_the_notice_of_a_missing_leader_to_others() -> None:
    told = asyncio.Event()

    class Hung(FakeSender):
        async def deliver(self, letter: Message) -> None:
            await told.wait()

    class Chat(FakeSender):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            told.set()

    odd, chat = FakeSender(), Chat()
    odd.errors.append(UnicodeEncodeError("utf-8", "?", 0, 1, "odd"))  # type: ignore[arg-type]
    receivers = [Receiver(name=name, kind="webhook") for name in ("hung", "odd", "chat")]
    async with alert_pipeline(*receivers) as on:
        on.senders.update(hung=Hung(), odd=odd, chat=chat)
        leaderless_alerts = lookout_of(on, why=lambda: "no server holds the leadership lock")
        await leaderless_alerts.run_once()
        on.stage.clock.advance(60)
        async with asyncio.timeout(60):
            await leaderless_alerts.run_once()
        on.stage.clock.advance(11)
        await leaderless_alerts.run_once()
        assert [len(box.messages) for box in (odd, chat)] == [1, 1]


def lookout_of(on: AlertPipeline, *, why: Callable[[], str | None]) -> LeaderlessAlerts:
    room = AlertContext(state=on.stage.state, journal=on.stage.journal, clock=on.stage.clock, ids=RandomIds())
    addresses = {name: Address(receiver=replace(OPS, name=name), sender=box) for name, box in on.senders.items()}
    return LeaderlessAlerts(room, rules=Rules(on.stage.state.alert_index), addresses=addresses, address="two", why=why)


async def test_a_gpu_that_is_held_and_not_used_is_an_alert_for_its_owner_until_it_is_used() -> None:
    async with alert_pipeline(OPS) as on:
        name = await on.stage.submit()
        await on.stage.advance()
        (lease,) = on.stage.state.leases_on(on.stage.state.node_of(AgentId("a")))
        (device_id,) = next(iter(lease.spec.values()))

        async def read(minutes: int, *, utilization_pct: float | None) -> None:
            for _ in range(minutes):
                on.stage.clock.advance(60)
                reading = DeviceReading(device_id=device_id, utilization_pct=utilization_pct)
                await on.stage.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=(reading,)))

        await read(1, utilization_pct=0.0)
        await read(29, utilization_pct=0.0)
        assert await on.evaluate() == (0, 0)
        await read(1, utilization_pct=0.0)
        assert await on.evaluate() == (1, 0)
        words = open_alerts(on)["gpu_idle"]
        assert words.endswith("and has not used it for 30 min, nor at any time since it started"), words
        assert next(iter(on.stage.state.alert_index.alerts.values())).subject == name
        await read(1, utilization_pct=90.0)
        await on.evaluate()
        assert await on.evaluate(600) == (0, 1)
        await read(31, utilization_pct=None)
        assert await on.evaluate() == (0, 0)


async def test_a_gpu_that_nothing_holds_is_not_idle() -> None:
    async with alert_pipeline(OPS) as on:
        for _ in range(40):
            on.stage.clock.advance(60)
            readings = tuple(
                DeviceReading(device_id=device.id, utilization_pct=0.0)
                for device in on.stage.state.agents[AgentId("a")].devices
            )
            await on.stage.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=readings))
        assert await on.evaluate() == (0, 0)
