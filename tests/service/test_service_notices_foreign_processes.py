"""Alerts about foreign processes on GPUs, and about Ray: causes outside the server's state."""

import pytest
from msgspec.structs import replace

from aliquot.service.alerts.conditions import leader_checks
from aliquot.service.alerts.routing import Receiver
from aliquot.service.alerts.rules import DEFAULTS
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.identity.accounts import User
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.requests import Role
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from aliquot_schema.views.server import RayView
from notices_pipeline import AlertPipeline, alert_pipeline
from service_reaping import reaper_of

pytestmark = pytest.mark.anyio

R = AlertRule
OPS = Receiver(name="ops", kind="webhook")


def open_alerts(on: AlertPipeline) -> dict[str, str]:
    """Texts by rule."""
    return {alert.rule.value: alert.words for alert in on.stage.state.alert_index.alerts.values()}


async def test_the_user_of_a_foreign_process_gets_one_notice_with_advice() -> None:
    own = Receiver(name="own", kind="webhook", tells_alerts=False, tells_owners=True)
    async with alert_pipeline(OPS, own, external_process=replace(DEFAULTS[R.EXTERNAL_PROCESS], for_s=0)) as on:
        await on.deliver()
        bob = User(id=UserId("bob"), version=0, role=Role.USER, unix_name="rob", created_us=1)
        await on.stage.journal.transact(lambda draft: draft.put(bob, "created"), actor="root")
        process = DeviceProcess(pid=4711, memory_bytes=None, user="rob", is_job=False)
        reading = DeviceReading(device_id=on.stage.state.agents[AgentId("a")].devices[0].id, processes=(process,))
        reaper = reaper_of(on.stage)
        for _ in range(2):
            await on.stage.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=(reading,)))
            await reaper.run_once()
        assert await on.evaluate() == (1, 0)
        await on.deliver()
        said = (
            "process 4711 of rob that Aliquot did not start on device a-gpu-0 of agent a. The device takes nothing "
            "new meanwhile. Submit such work as a session, or hold the device by an external allocation"
        )
        assert open_alerts(on) == {"external_process": said}
        (told,) = on.senders["own"].messages
        assert (told.user, [notice.words for notice in told.notices]) == ("bob", [said])
        await on.stage.on_event(NewReadings(agent_id=AgentId("a"), at_us=2, readings=(replace(reading, processes=()),)))
        await reaper.run_once()
        await on.evaluate()
        assert await on.evaluate(31) == (0, 1)
        await on.deliver()
        assert len(on.senders["own"].messages) == 1
        assert len(on.senders["ops"].messages) == 2


async def test_ray_that_is_away_for_more_than_ten_seconds_is_an_alert_until_it_is_back() -> None:
    status = RayView(head_node="gpu01:6379", reason="gpu01:6379: Connection refused")
    looks = leader_checks(1, began_us=0, address="", is_shared=False, ray=lambda: status)
    async with alert_pipeline(OPS, looks=looks) as on:
        assert await on.evaluate() == (0, 0)
        assert await on.evaluate(9) == (0, 0)
        assert await on.evaluate(2) == (1, 0)
        assert open_alerts(on) == {
            "ray_disconnected": "Ray at gpu01:6379 is not connected: gpu01:6379: Connection refused; sessions that run "
            "continue, new ones wait"
        }
        status = RayView(head_node="gpu01:6379", connected=True)
        await on.evaluate(1)
        assert await on.evaluate(31) == (0, 1)


async def test_without_ray_there_is_no_alert_of_it() -> None:
    looks = leader_checks(1, began_us=0, address="", is_shared=False)
    async with alert_pipeline(OPS, looks=looks) as on:
        assert await on.evaluate(0) == (0, 0)
        assert await on.evaluate(60) == (0, 0)
