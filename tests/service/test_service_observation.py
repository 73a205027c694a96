"""Observation mode: GPU users found by their processes, hours of a week, and the report for operators."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from aliquot.cli.cluster.observed_report import page
from aliquot.core.idle_process import IdleCase
from aliquot.service.admin.policy import SchedulingPause, stop_to_observe
from aliquot.service.alerts.observation import Observation
from aliquot.service.alerts.routing import Receiver
from aliquot.service.state.idle_cases import action_of
from aliquot.service.views.observed_gpus import observed_gpus, observed_week, week_of
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.orchestration import OperatingMode
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from notices_pipeline import AlertPipeline, alert_pipeline
from service_bench import FakeAgent, agent, gpus
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

OPS = Receiver(name="chat", kind="webhook")
PAIR = [agent("a", devices=2)]


async def minute(on: Stage, observation: Observation, *, use: float = 0.0) -> None:
    """One minute in which anna, not a user here, has a process on the first GPU."""
    on.clock.advance(60)
    first, second = on.state.agents[AgentId("a")].devices
    process = DeviceProcess(pid=7, memory_bytes=5 << 30, user="anna", is_job=False)
    readings = (
        DeviceReading(device_id=first.id, utilization_pct=use, processes=(process,)),
        DeviceReading(device_id=second.id, utilization_pct=0.0, processes=()),
    )
    await on.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=readings))
    await observation.run_once()


def observing(on: Stage) -> Observation:
    return Observation(state=on.state, journal=on.journal, clock=on.clock)


async def delivered_texts(on: AlertPipeline) -> list[str]:
    await on.deliver()
    return [words for letter in on.senders["chat"].texts for words in letter]


async def test_gpu_use_is_attributed_to_users_by_their_processes_and_summed_per_week() -> None:
    async with stage(PAIR) as on:
        watch = observing(on)
        for _ in range(61):
            await minute(on, watch)
        first, second = observed_gpus(on.state)
        assert [(one.user, one.processes, one.memory_bytes) for one in first.people] == [("anna", 1, 5 << 30)]
        assert second.people == ()
        now = moment(on.clock.now_us())
        found = observed_week(on.state, None, now=now)
        assert found is not None
        (anna,) = found.people
        assert (anna.user, round(anna.gpu_hours, 2), round(anna.idle_hours, 2)) == ("anna", 1.0, 1.0)
        assert (round(found.gpu_hours, 2), round(anna.fair_hours, 2)) == (2.0, 2.0)
        text = page([], found)  # type: ignore[arg-type]
        assert "anna" in text
        assert "<script" not in text
        again = observing(on)  # the next leader goes on from what was recorded
        for _ in range(16):
            await minute(on, again)
        later = observed_week(on.state, week_of(now), now=now)
        assert later is not None
        assert later.gpu_hours > found.gpu_hours


async def test_slices_of_a_gpu_that_is_not_listed_itself_are_observed() -> None:
    whole, half, rest = gpus(3)
    slices = (replace(half, parent=DeviceId("mig-gpu")), replace(rest, parent=DeviceId("mig-gpu")))
    async with stage([FakeAgent(id=AgentId("a"), devices=slices)]) as on:
        await minute(on, observing(on))
        assert [[one.user for one in gpu.people] for gpu in observed_gpus(on.state)] == [["anna"], []]
    async with stage([FakeAgent(id=AgentId("a"), devices=(whole, replace(half, parent=whole.id)))]) as on:
        await minute(on, observing(on))
        assert [gpu.gpu_id for gpu in observed_gpus(on.state)] == [whole.id]


async def test_a_report_of_the_week_goes_to_operators_once() -> None:
    async with alert_pipeline(OPS, agents=PAIR) as stage:
        on = stage.stage
        await stage.deliver()
        watch = observing(on)
        for _ in range(20):
            await minute(on, watch, use=80.0)
        on.clock.advance(7 * 86_400)
        await minute(on, watch)
        await minute(on, watch)
        (words,) = await delivered_texts(stage)
        assert words.startswith(
            "GPUs in week 1970-W01: 50 % of 0.6 GPU-hours were taken, 0 % of that without use. anna"
        )
        await minute(on, observing(on))
        assert len(await delivered_texts(stage)) == 1


async def test_only_the_present_week_names_sessions_that_would_lose_their_gpus() -> None:
    async with stage(PAIR) as on:
        watch = observing(on)
        await minute(on, watch)
        week, name = week_of(moment(on.clock.now_us())), await on.submit()
        case = IdleCase(
            session_id=name,
            attempt=0,
            action=IdleAction.OBSERVE,
            step=IdleStep.DUE,
            gpus=("cuda0",),
            idle_us=1,
            was_used=False,
            step_us=1,
        )
        on.state.idle_cases.put(action_of(case, name="idle/a/cuda0/0", owner="ops", words=""))
        for days, expected in ((0, (name,)), (7, ())):
            now = moment(on.clock.now_us() + days * 86_400_000_000)
            found = observed_week(on.state, week, now=now)
            assert found is not None
            assert found.would_lose == expected


async def test_a_server_in_observe_mode_starts_no_sessions_and_cannot_be_switched_on() -> None:
    async with stage(PAIR) as on:
        await stop_to_observe(on.journal, on.clock, OperatingMode.OBSERVE)
        name = await on.submit()
        await on.advance()
        assert on.state.sessions[name].state == "queued"
        assert on.state.orchestration.note == "the server was started in the mode observe"  # true later as well
        pause = SchedulingPause(state=on.state, journal=on.journal, clock=on.clock, mode=OperatingMode.OBSERVE)
        with pytest.raises(InvalidRequest, match="start it without --observe first"):
            await pause.start_orchestrator(CALLER, None)
        free = SchedulingPause(state=on.state, journal=on.journal, clock=on.clock, mode=OperatingMode.ENFORCE)
        await free.start_orchestrator(CALLER, None)
        await on.advance()
        assert on.state.sessions[name].state == "running"


def test_weeks_are_iso_calendar_weeks() -> None:
    assert week_of(datetime(2026, 11, 23, tzinfo=UTC)) == "2026-W48"
