"""Idle sessions: owners are notified and may answer, a waiting session gets the GPUs and sees the reason."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.policy_changes import amended
from aliquot.service.alerts.idle_process import IdleProcess
from aliquot.service.alerts.routing import Receiver
from aliquot.service.scheduling.plan_applier import PlanApplier
from aliquot.service.state.state import State
from aliquot.service.views.sessions import session_view
from aliquot_schema.alerts import Subscriber
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.errors import Forbidden, StateConflict
from aliquot_schema.ids import AgentId, KernelId, SessionId, UserId
from aliquot_schema.requests import NewSession, Role
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.states import SessionState
from notices_pipeline import AlertPipeline, alert_pipeline
from service_bench import agent
from service_stage import CALLER, Stage

pytestmark = pytest.mark.anyio

BEN = replace(CALLER, user=UserId("ben"), role=Role.USER)
CHAT = Receiver(name="chat", kind="webhook", tells_alerts=False, tells_owners=True)
ONE = [agent("a", devices=1)]


async def set_policy(on: Stage, action: str, **more: Any) -> None:
    changes = {"preemption": {"idle": {"action": action}}} | more
    await on.journal.transact(lambda draft: draft.put(amended(draft.policy(), changes), "changed"), actor="test")


async def idle_for(on: Stage, minutes: int, *, utilization_pct: float | None = 0.0) -> list[str]:
    """Readings once a minute, each followed by a look; returns the recorded steps."""
    before = on.state.revision
    process = IdleProcess(state=on.state, journal=on.journal, clock=on.clock, wake=on.allocator.wake)
    devices = on.state.agents[AgentId("a")].devices
    for _ in range(minutes):
        on.clock.advance(60)
        readings = tuple(DeviceReading(device_id=device.id, utilization_pct=utilization_pct) for device in devices)
        await on.on_event(NewReadings(agent_id=AgentId("a"), at_us=1, readings=readings))
        await process.run_once()
    found = [one for one in await on.events() if one.number > before and one.entity == "action"]
    return [one.kind.removeprefix("action.idle_") for one in found]


async def begun(on: Stage) -> SessionId:
    name = SessionId(await on.submit())
    await on.advance()
    return name


async def ben_waits(on: Stage, gpus: int = 1) -> SessionId:
    asked = NewSession(argv=("true",), shell=None, slots=[("cuda.device", str(gpus))])
    return SessionId((await on.sessions.create_session(BEN, asked)).session.id)


async def delivered_texts(on: AlertPipeline) -> list[str]:
    await on.deliver()
    return [words for letter in on.senders["chat"].texts for words in letter]


async def test_an_idle_session_is_preempted_for_a_waiting_one_after_two_notices_to_its_owner() -> None:
    async with alert_pipeline(CHAT, agents=ONE) as stage:
        on = stage.stage
        await stage.deliver()  # notices begin with the next event
        await set_policy(on, "preempt")
        name = await begun(on)
        assert await idle_for(on, 100) == ["told", "told_again", "due"]
        assert await delivered_texts(stage) == [
            f"{name} has not used its GPU for {text}, nor at any time since it started. From 1970-01-01 01:31 UTC on "
            f"it is preempted and queued again as soon as a waiting session starts for it. Still needed, or give back: "
            f"`aliquot session keep {name}` or `aliquot session give-back {name}`"
            for text in ("30 min", "1 h")
        ]
        await on.advance()
        assert on.state.sessions[name].state is SessionState.RUNNING  # empty queue
        waiting = await ben_waits(on)
        await on.advance()
        leaving = on.state.sessions[name]
        assert leaving.preemption is not None
        assert (leaving.state, leaving.preemption.cause, leaving.preemption.by_session) == (
            SessionState.PREEMPTING,
            "idle",
            waiting,
        )
        waits = session_view(on.state, on.state.sessions[waiting]).waits
        assert waits is not None
        assert waits.message == f"Starts when {name} has released its GPUs, which it had not used for 1 h 30 min."
        on.executor.end_kernel(KernelId(f"{name}.1.0"), code=143)
        await on.settle()
        await on.advance()
        assert on.state.sessions[waiting].state is SessionState.RUNNING
        assert session_view(on.state, on.state.sessions[waiting]).room_made == (
            f"{name} was preempted for it, because it has not used its GPU for 1 h 30 min, nor at any time since it "
            "started."
        )
        assert (await delivered_texts(stage))[-2].startswith(f"preempted for {waiting} of ben: it has not used its GPU")


async def test_the_observe_action_records_the_steps_without_notices_or_preemption() -> None:
    async with alert_pipeline(CHAT, agents=ONE) as stage:
        on = stage.stage
        await stage.deliver()  # notices begin with the next event
        await set_policy(on, "observe")
        name = await begun(on)
        assert await idle_for(on, 100) == ["told", "told_again", "due"]
        await ben_waits(on)
        await on.advance()
        assert on.state.sessions[name].state is SessionState.RUNNING
        assert await delivered_texts(stage) == []
        assert session_view(on.state, on.state.sessions[name]).idle is None


async def test_a_session_ended_by_the_idle_policy_fails_and_is_not_requeued() -> None:
    async with alert_pipeline(CHAT, agents=ONE) as stage:
        on = stage.stage
        await stage.deliver()  # notices begin with the next event
        await set_policy(on, "off", pools={**on.state.policy.pools, "default": replace_idle(on.state, "end")})
        name = await begun(on)
        assert await idle_for(on, 100) == ["told", "told_again", "due"]
        waiting = await ben_waits(on)
        await on.advance()
        assert on.state.sessions[name].state is SessionState.PREEMPTING
        on.executor.end_kernel(KernelId(f"{name}.1.0"), code=143)
        await on.settle()
        ended = on.state.sessions[name]
        assert ended.failure is not None
        assert (ended.state, ended.failure.code) == (SessionState.FAILED, "idle")
        assert ended.failure.message.endswith(f"and {waiting} of ben waited for them")
        await on.advance()
        assert on.state.sessions[waiting].state is SessionState.RUNNING
        assert await idle_for(on, 1, utilization_pct=50.0) == []


def replace_idle(state: State, action: str) -> Any:
    return replace(state.policy.pools["default"], idle=action)  # type: ignore[index, arg-type]


async def test_only_the_owner_may_keep_an_idle_session_and_that_ends_the_steps() -> None:
    async with alert_pipeline(CHAT, agents=ONE) as stage:
        on = stage.stage
        await stage.deliver()  # notices begin with the next event
        await set_policy(on, "preempt")
        name = await begun(on)
        with pytest.raises(StateConflict, match="not reported for unused GPUs"):
            await on.sessions.keep_session(CALLER, name, None)
        await idle_for(on, 95)
        notice = session_view(on.state, on.state.sessions[name]).idle
        assert notice is not None
        assert (notice.step, notice.acts_at is not None) == ("due", True)
        with pytest.raises(Forbidden):
            await on.sessions.keep_session(BEN, name, None)
        await on.sessions.keep_session(CALLER, name, None)
        await ben_waits(on)
        await on.advance()
        assert on.state.sessions[name].state is SessionState.RUNNING
        assert await idle_for(on, 200) == []
        assert await idle_for(on, 1, utilization_pct=90.0) == ["over"]
        assert session_view(on.state, on.state.sessions[name]).idle is None


async def test_the_idle_action_of_a_project_overrides_its_pool_and_idle_cases_survive_a_reload() -> None:
    async with alert_pipeline(CHAT, agents=ONE) as stage:
        on = stage.stage
        await stage.deliver()  # notices begin with the next event
        await set_policy(on, "end", preemption={"idle": {"action": "end", "projects": {"default": "tell"}}})
        await on.journal.transact(lambda draft: draft.put(Subscriber(id=UserId("ann"), notify=()), "set"), actor="test")
        name = await begun(on)
        assert await idle_for(on, 100) == ["told", "told_again"]
        assert len(await delivered_texts(stage)) == 2  # ignoring preferences
        loaded = State()
        loaded.load(on.state.idle_cases.records(), revision=on.state.revision, ended_complete=True)
        assert loaded.idle_cases.of(name) == on.state.idle_cases.of(name)
        await on.cancel(name)
        on.executor.end_kernel(KernelId(f"{name}.1.0"), code=143)
        await on.settle()
        assert await idle_for(on, 1) == ["over"]


@pytest.mark.parametrize("is_kept", [False, True])
async def test_idle_sessions_that_leave_for_one_session_leave_together_or_not_at_all(
    is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner answers "still needed" for one of them between a pass and its commit."""
    async with alert_pipeline(CHAT, agents=[agent("a", devices=2)]) as stage:
        on = stage.stage
        await set_policy(on, "preempt")
        names = [await begun(on), await begun(on)]
        await idle_for(on, 100)
        run = PlanApplier.run

        async def after_an_answer(applier: PlanApplier, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
            if is_kept and {one.session_id for one in plan.evictions} == set(names):
                await on.sessions.keep_session(CALLER, names[0], None)
            return await run(applier, plan)

        monkeypatch.setattr(PlanApplier, "run", after_an_answer)
        await ben_waits(on, gpus=2)
        await on.advance()
        expected = SessionState.RUNNING if is_kept else SessionState.PREEMPTING
        assert [on.state.sessions[name].state for name in names] == [expected, expected]
