"""A drop in use, and a task or GPU far behind its peers, raise alerts for the owner."""

from collections.abc import Callable

import pytest

from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.ids import AgentId, KernelId, SessionId
from aliquot_schema.resources.devices import DeviceReading
from notices_pipeline import AlertPipeline, alert_pipeline
from service_bench import agent

pytestmark = pytest.mark.anyio

A = AgentId("a")
Use = Callable[[set[SessionId | None], int], float]
"""Utilization by the sessions that hold a GPU, and its index."""


async def pass_minutes(on: AlertPipeline, minutes: int, use: Use) -> None:
    for _ in range(minutes):
        on.stage.clock.advance(60)
        holders: dict[str, set[SessionId | None]] = {}
        for lease in on.stage.state.leases_on(on.stage.state.node_of(A)):
            for name in {name for amounts in lease.spec.values() for name in amounts}:
                holders.setdefault(name, set()).add(lease.session_id)
        readings = tuple(
            DeviceReading(device_id=device.id, utilization_pct=use(holders.get(device.id, set()), place))
            for place, device in enumerate(on.stage.state.agents[A].devices)
        )
        await on.stage.on_event(NewReadings(agent_id=A, at_us=1, readings=readings))
        await on.evaluate()


def of_rule(on: AlertPipeline, rule: str) -> list[tuple[str, str, tuple[str, ...]]]:
    alerts = on.stage.state.alert_index.alerts.values()
    return sorted((one.subject, one.words, one.owners) for one in alerts if one.rule == rule)


async def test_a_drop_in_gpu_use_is_an_alert_for_the_owner_with_the_earlier_use() -> None:
    async with alert_pipeline(agents=[agent("a", devices=1)]) as on:
        name = await on.stage.submit()
        await on.stage.advance()
        await pass_minutes(on, 130, lambda *_: 90.0)
        await pass_minutes(on, 14, lambda *_: 0.0)
        assert of_rule(on, "use_dropped") == []
        await pass_minutes(on, 8, lambda *_: 1.0)
        ((subject, words, owners),) = of_rule(on, "use_dropped")
        assert (subject, owners) == (name, ("ann",))
        assert words.startswith(f"{name} of ann used ")
        assert "by 90 % and has used it almost not at all for 15 min, though it still runs" in words
        await pass_minutes(on, 30, lambda *_: 90.0)
        assert of_rule(on, "use_dropped") == []


async def test_a_new_session_on_the_same_gpu_begins_a_new_trend() -> None:
    async with alert_pipeline(agents=[agent("a", devices=1)]) as on:
        name = await on.stage.submit()
        await on.stage.advance()
        await pass_minutes(on, 130, lambda *_: 90.0)
        on.stage.executor.end_kernel(KernelId(f"{name}.1.0"), code=0)
        await on.stage.settle()
        await on.stage.submit()
        await on.stage.advance()
        await pass_minutes(on, 25, lambda *_: 0.0)
        assert of_rule(on, "use_dropped") == []


async def test_a_gpu_of_a_session_far_behind_its_others_is_named() -> None:
    async with alert_pipeline(agents=[agent("a", devices=4)]) as on:
        name = await on.stage.submit(devices=4)
        await on.stage.advance()
        await pass_minutes(on, 90, lambda _, place: 20.0 if place == 2 else 90.0)
        ((subject, words, owners),) = of_rule(on, "slow_twin")
        assert (subject, owners) == (name, ("ann",))
        third = on.stage.state.agents[A].devices[2]
        assert f"({third.id}) by 20 %, its other GPUs by 90 %, measured over half an hour" in words


async def test_a_task_is_compared_only_with_other_tasks_of_its_array() -> None:
    async with alert_pipeline(agents=[agent("a", devices=5)]) as on:
        array = await on.stage.submit(array="0-3")
        other = await on.stage.submit()
        await on.stage.advance()
        slow = SessionId(f"{array}_1")
        await pass_minutes(on, 90, lambda held, _: 10.0 if held & {slow, other} else 80.0)
        ((subject, words, _),) = of_rule(on, "slow_twin")
        assert subject == slow
        assert f"uses its GPUs by 10 %, other tasks of {array} theirs by 80 %" in words
