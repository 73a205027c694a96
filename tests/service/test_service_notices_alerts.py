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
from notices_stage import Box, Notices, notices
from service_bench import gpus

pytestmark = pytest.mark.anyio

R = AlertRule
OPS = Receiver(name="ops", kind="webhook")
LOST = AgentSilent(agent_id=AgentId("a"), lost=True)


def open_alerts(on: Notices) -> dict[str, str]:
    """Texts by rule."""
    return {alert.rule.value: alert.words for alert in on.on.state.alert_index.alerts.values()}


async def end(on: Notices, *, code: int) -> None:
    """Let a session end with an exit code."""
    name = await on.on.submit()
    await on.on.advance()
    on.on.executor.ends(KernelId(f"{name}.1.0"), code=code)
    await on.on.settle()


async def test_a_backlog_is_an_alert_once_it_has_lasted() -> None:
    rule = replace(DEFAULTS[R.QUEUE_BACKLOG], threshold=2, for_s=600)
    async with notices(OPS, queue_backlog=rule) as on:
        waiting = [await on.on.submit(held=True) for _ in range(3)]
        assert await on.look() == (0, 0)
        assert await on.look(599) == (0, 0)
        assert await on.look(2) == (1, 0)
        assert open_alerts(on) == {"queue_backlog": "3 tasks are waiting, more than 2"}
        assert await on.look(5) == (0, 0)
        await on.on.cancel(waiting[0])
        assert await on.look(5) == (0, 0)
        assert await on.look(600) == (0, 1)
        assert on.kinds("alert") == ["opened", "closed"]


async def test_a_backlog_that_ends_early_starts_its_duration_again() -> None:
    rule = replace(DEFAULTS[R.QUEUE_BACKLOG], threshold=0, for_s=600)
    async with notices(queue_backlog=rule) as on:
        first = await on.on.submit(held=True)
        await on.look()
        await on.on.cancel(first)
        await on.look(500)
        await on.on.submit(held=True)
        assert await on.look(500) == (0, 0)
        assert await on.look(601) == (1, 0)


async def test_an_agent_that_comes_and_goes_is_one_alert() -> None:
    async with notices(OPS) as on:
        joined = AgentJoined(inventory=on.on.executor.agents[AgentId("a")].inventory())
        for _ in range(5):
            await on.on.on_event(LOST)
            await on.look(5)
            await on.on.on_event(joined)
            await on.look(5)
        assert on.kinds("alert") == ["opened"]
        assert await on.look(31) == (0, 1)


async def test_a_recurring_alert_closes_after_a_longer_quiet_time_each_time() -> None:
    async with notices(OPS) as on:
        joined = AgentJoined(inventory=on.on.executor.agents[AgentId("a")].inventory())
        for calm_s in (30, 60, 120, 240, 480, 600, 600):
            await on.on.on_event(LOST)
            assert await on.look(5) == (1, 0)
            await on.on.on_event(joined)
            assert await on.look(5) == (0, 0)
            assert await on.look(calm_s - 1) == (0, 0)
            assert await on.look(2) == (0, 1)
        await on.look(3601)
        await on.on.on_event(LOST)
        await on.look()
        await on.on.on_event(joined)
        await on.look()
        assert await on.look(31) == (0, 1)


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
        async with notices(idle_behind_quotas=rule) as on:
            await on.on.journal.persist(lambda draft: draft.put(limit, "changed"), actor="ann")
            await on.on.submit()
            await on.on.submit()
            await on.on.advance()
            await on.look()
            assert open_alerts(on) == expected


async def test_an_alert_for_a_lost_agent_names_the_owners_of_its_sessions() -> None:
    async with notices() as on:
        running = await on.on.submit(name="train")
        await on.on.advance()
        await on.on.on_event(LOST)
        await on.look()
        (alert,) = on.on.state.alert_index.alerts.values()
        assert (alert.rule, alert.subject, alert.severity) == (R.AGENT_LOST, "a", Severity.CRITICAL)
        assert alert.owners == ("ann",)
        assert f"train ({running})" in alert.words


async def test_long_waits_open_one_alert_per_owner() -> None:
    rule = replace(DEFAULTS[R.LONG_WAIT], threshold=3600)
    async with notices(long_wait=rule) as on:
        await on.on.submit(devices=2)
        await on.on.advance()
        for _ in range(3):
            await on.on.submit(devices=2)
        await on.on.submit(held=True)
        assert await on.look(3000) == (0, 0)
        assert await on.look(4300) == (1, 0)
        (alert,) = on.on.state.alert_index.alerts.values()
        assert (alert.subject, alert.owners) == ("ann", ("ann",))
        assert alert.words.endswith("of ann has waited for 2 h; 2 more have waited too long")


async def test_an_unhealthy_device_is_an_alert_until_it_is_healthy() -> None:
    async with notices() as on:
        agent = on.on.executor.agents[AgentId("a")]
        first, second = gpus(2)
        agent.devices = (replace(first, health=DeviceHealth.UNHEALTHY), second)
        await on.on.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.look() == (1, 0)
        assert [alert.subject for alert in on.on.state.alert_index.alerts.values()] == [f"a/{first.id}"]
        agent.devices = (first, second)
        await on.on.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.look() == (0, 0)
        assert await on.look(31) == (0, 1)


async def test_a_device_that_is_leaving_is_no_alert() -> None:
    async with notices() as on:
        agent = on.on.executor.agents[AgentId("a")]
        first, second = gpus(2)
        agent.devices = (replace(first, health=DeviceHealth.LEAVING), second)
        await on.on.on_event(DevicesChanged(inventory=agent.inventory()))
        assert await on.look() == (0, 0)


async def test_a_high_failure_rate_is_an_alert_above_a_minimum_number_of_sessions() -> None:
    rule = replace(DEFAULTS[R.FAILURE_RATE], threshold=50, floor=3)
    async with notices(failure_rate=rule) as on:
        await end(on, code=1)
        await end(on, code=2)
        assert await on.look() == (0, 0)
        await end(on, code=0)
        assert await on.look() == (1, 0)
        assert open_alerts(on) == {
            "failure_rate": "2 of 3 sessions that ended in the last hour have failed, more than 50 %"
        }
        assert await on.look(3601) == (0, 0)
        assert await on.look(31) == (0, 1)


async def test_a_disk_that_is_low_is_an_alert() -> None:
    async with notices(disk_low=replace(DEFAULTS[R.DISK_LOW], for_s=0)) as on:
        on.on.state.disk_space.server = "2 MiB are free"
        assert await on.look() == (1, 0)
        assert open_alerts(on) == {"disk_low": "the server's disk: 2 MiB are free"}


async def test_a_change_of_leader_is_an_alert_that_closes_by_itself() -> None:
    looks = leader_checks(7, began_us=1_000_000, address="https://two:8090", is_shared=True)
    async with notices(OPS, looks=looks) as on:
        assert await on.look() == (1, 0)
        assert open_alerts(on) == {"leader_changed": "https://two:8090 leads, in epoch 7"}
        assert await on.look(601) == (0, 0)
        assert await on.look(31) == (0, 1)


async def test_a_rule_that_is_off_opens_nothing_and_closes_what_it_opened() -> None:
    async with notices(OPS) as on:
        await on.on.on_event(LOST)
        assert await on.look() == (1, 0)
        off = replace(DEFAULTS[R.AGENT_LOST], is_on=False)
        await on.on.journal.transact(lambda draft: draft.put(off, "changed"), actor="root")
        assert await on.look(1) == (0, 1)
        assert await on.look(1) == (0, 0)


async def test_an_open_alert_is_repeated_after_the_configured_reminder_time() -> None:
    async with notices(OPS, reminder_s=3600) as on:
        await on.on.on_event(LOST)
        await on.tell()
        await on.look()
        await on.look(3500)
        await on.look(200)
        await on.look(200)
        await on.tell()
        assert on.kinds("alert") == ["opened", "reminded"]
        told = [words for (words,) in on.boxes["ops"].words]
        assert [words.startswith("still open after 61 min") for words in told] == [False, True]


async def test_a_follower_reports_a_missing_leader_and_the_next_leader_reports_its_end() -> None:
    looks = leader_checks(1, began_us=0, address="one", is_shared=True)
    async with notices(OPS, looks=looks) as on:
        await on.tell()
        reasons: list[str | None] = ["no server holds the leadership lock"]
        leaderless_alerts = lookout_of(on, why=lambda: reasons[0])
        await leaderless_alerts.run_once()
        on.on.clock.passes(59)
        await leaderless_alerts.run_once()
        assert on.boxes["ops"].letters == []
        on.boxes["ops"].errors.append(NotDelivered("it answered 500"))
        for _ in range(3):
            on.on.clock.passes(5)
            await leaderless_alerts.run_once()
        words = "no server is leading, as seen by two: no server holds the leadership lock"
        assert on.boxes["ops"].words == [[words]]
        assert on.kinds("alert") == ["opened"]
        assert on.kinds("delivery") == ["sent"]
        reasons[0] = None
        await leaderless_alerts.run_once()
        await on.look(1)
        await on.look(61)
        await on.tell()
        assert on.boxes["ops"].words == [[words], [f"over, after 72 s: {words}"]]


async def test_a_missing_leader_is_reported_without_a_database() -> None:
    async with notices(OPS) as on:
        reasons: list[str | None] = ["the database does not answer"]
        leaderless_alerts = lookout_of(on, why=lambda: reasons[0])

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("the database does not answer")

        on.on.journal.transact = away  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.on.clock.passes(60)
        await leaderless_alerts.run_once()
        reasons[0] = None
        on.boxes["ops"].errors.append(NotDelivered("it answered 500"))
        await leaderless_alerts.run_once()
        on.on.clock.passes(11)
        await leaderless_alerts.run_once()
        await leaderless_alerts.run_once()
        words = "no server is leading, as seen by two: the database does not answer"
        assert on.boxes["ops"].words == [[words], [f"over, after 0 s: {words}"]]


async def test_a_missing_leader_is_reported_while_the_database_does_not_answer() -> None:
    """Queries on a cut connection fail after a minute or more; the operator is alerted immediately."""
    came, answered = asyncio.Event(), asyncio.Event()

    class Door(Box):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            came.set()

    async def silent(*_: object, **__: object) -> None:
        await answered.wait()
        raise StoreUnavailable("the database does not answer")

    async with notices(OPS, sender=Door()) as on:
        leaderless_alerts = lookout_of(on, why=lambda: "the database does not answer")
        on.on.journal.transact = silent  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.on.clock.passes(60)
        looking = asyncio.create_task(leaderless_alerts.run_once())
        try:
            await asyncio.wait_for(came.wait(), 30)
        finally:
            answered.set()
            await looking


async def test_a_missing_leader_is_recorded_once_the_database_is_back() -> None:
    looks = leader_checks(1, began_us=0, address="one", is_shared=True)
    async with notices(OPS, looks=looks) as on:
        await on.tell()
        reasons: list[str | None] = ["the database does not answer"]
        leaderless_alerts, transact = lookout_of(on, why=lambda: reasons[0]), on.on.journal.transact

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("the database does not answer")

        on.on.journal.transact = away  # type: ignore[method-assign, assignment]
        await leaderless_alerts.run_once()
        on.on.clock.passes(60)
        await leaderless_alerts.run_once()
        assert on.kinds("alert") == []
        on.on.journal.transact, reasons[0] = transact, None  # type: ignore[method-assign]
        await leaderless_alerts.run_once()
        await on.look(1)
        await on.look(61)
        await on.tell()
        assert on.kinds("alert") == ["opened", "closed"]
        words = "no server is leading, as seen by two: the database does not answer"
        assert on.boxes["ops"].words == [[words], [f"over, after 62 s: {words}"]]


async def test_failing_receivers_do_not_delay_the_notice_of_a_missing_leader_to_others() -> None:
    told = asyncio.Event()

    class Hung(Box):
        async def deliver(self, letter: Message) -> None:
            await told.wait()

    class Chat(Box):
        async def deliver(self, letter: Message) -> None:
            await super().deliver(letter)
            told.set()

    odd, chat = Box(), Chat()
    odd.errors.append(UnicodeEncodeError("utf-8", "?", 0, 1, "odd"))  # type: ignore[arg-type]
    receivers = [Receiver(name=name, kind="webhook") for name in ("hung", "odd", "chat")]
    async with notices(*receivers) as on:
        on.boxes.update(hung=Hung(), odd=odd, chat=chat)
        leaderless_alerts = lookout_of(on, why=lambda: "no server holds the leadership lock")
        await leaderless_alerts.run_once()
        on.on.clock.passes(60)
        async with asyncio.timeout(60):
            await leaderless_alerts.run_once()
        on.on.clock.passes(11)
        await leaderless_alerts.run_once()
        assert [len(box.letters) for box in (odd, chat)] == [1, 1]


def lookout_of(on: Notices, *, why: Callable[[], str | None]) -> LeaderlessAlerts:
    room = AlertContext(state=on.on.state, journal=on.on.journal, clock=on.on.clock, ids=RandomIds())
    addresses = {name: Address(receiver=replace(OPS, name=name), sender=box) for name, box in on.boxes.items()}
    return LeaderlessAlerts(room, rules=Rules(on.on.state.alert_index), addresses=addresses, address="two", why=why)


async def test_a_gpu_that_is_held_and_not_used_is_an_alert_for_its_owner_until_it_is_used() -> None:
    async with notices(OPS) as on:
        name = await on.on.submit()
        await on.on.advance()
        (lease,) = on.on.state.leases_on(on.on.state.node_of(AgentId("a")))
        (device_id,) = next(iter(lease.spec.values()))

        async def read(minutes: int, *, utilization_pct: float | None) -> None:
            for _ in range(minutes):
                on.on.clock.passes(60)
                reading = DeviceReading(device_id=device_id, utilization_pct=utilization_pct)
                await on.on.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=(reading,)))

        await read(1, utilization_pct=0.0)
        await read(29, utilization_pct=0.0)
        assert await on.look() == (0, 0)
        await read(1, utilization_pct=0.0)
        assert await on.look() == (1, 0)
        words = open_alerts(on)["gpu_idle"]
        assert words.endswith("and has not used it for 30 min, nor at any time since it started"), words
        assert next(iter(on.on.state.alert_index.alerts.values())).subject == name
        await read(1, utilization_pct=90.0)
        await on.look()
        assert await on.look(600) == (0, 1)
        await read(31, utilization_pct=None)
        assert await on.look() == (0, 0)


async def test_a_gpu_that_nothing_holds_is_not_idle() -> None:
    async with notices(OPS) as on:
        for _ in range(40):
            on.on.clock.passes(60)
            readings = tuple(
                DeviceReading(device_id=device.id, utilization_pct=0.0)
                for device in on.on.state.agents[AgentId("a")].devices
            )
            await on.on.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=readings))
        assert await on.look() == (0, 0)
