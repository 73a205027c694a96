"""Leaving nodes and devices with hardware faults: which sessions end, when, with which grace, and how."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.launching import DevicesChanged
from aliquot_schema.errors import ImpossibleRequest
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, SessionId
from aliquot_schema.orchestration import OrchestratorState
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState as S
from service_bench import agent
from service_reaping import running
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

A = AgentId("a")
FAULT = "XID 79 (the GPU has fallen off the bus)"


async def tells(on: Stage, agent_id: AgentId = A, *, ill: DeviceId | None = None, **attributes: str) -> None:
    """The agent reports attributes, and maybe a device in quarantine, from now on."""
    inventory = on.executor.agents[agent_id].inventory()
    told = attributes if ill is None else {**attributes, f"fault.{ill}": FAULT}
    devices = tuple(
        replace(device, health=DeviceHealth.UNHEALTHY) if device.id == ill else device
        for device in inventory.agent.devices
    )
    changed = replace(inventory.agent, attributes=told, devices=devices)
    await on.on_event(DevicesChanged(inventory=replace(inventory, agent=changed)))


def device_of(on: Stage, kernel_id: KernelId) -> DeviceId:
    (held,) = (device for amounts in on.state.leases[LeaseId(kernel_id)].spec.values() for device in amounts)
    return held


def second(session_id: SessionId) -> KernelId:
    return KernelId(f"{session_id}.2.0")


async def test_an_eviction_notice_preempts_the_sessions_of_the_node_until_it_is_withdrawn() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        both = [await running(on), await running(on, preemptible=True)]
        (session_id, kernel_id) = next(pair for pair in both if on.state.kernels[pair[1]].agent_id == A)
        await tells(on, eviction="the provider says so")
        await on.advance()
        seen = on.session(session_id)
        assert (seen.state, seen.preemption and seen.preemption.cause) == (S.PREEMPTING, PreemptionCause.EVICTION)
        on.executor.end_kernel(kernel_id, code=None, signal=15)
        await on.settle()
        await on.advance()
        assert (on.session(session_id).state, on.session(session_id).retries) == (S.QUEUED, 0)
        await tells(on)
        await on.advance()
        assert on.session(session_id).state is S.RUNNING
        assert on.state.kernels[second(session_id)].agent_id == A


async def test_sessions_without_a_fitting_time_limit_are_preempted_before_their_node_leaves() -> None:
    async with stage([agent("a", devices=2)]) as on:
        until = datetime.fromtimestamp((on.clock.now_us() + 600_000_000) / 1e6, tz=UTC)
        await tells(on, **{"label.available_until": until.isoformat()})
        with pytest.raises(ImpossibleRequest, match=r"^preemptible: only a can run this"):
            await on.submit()
        gives, _ = await running(on, preemptible=True, grace=60.0)
        stays, _ = await running(on, time_limit=599.0)
        _, wake_at_us = await on.allocator.run_once()
        assert wake_at_us == round(until.timestamp() * 1e6) - 60_000_000
        on.clock.advance(541)
        await on.advance()
        assert (on.session(gives).state, on.session(stays).state) == (S.PREEMPTING, S.RUNNING)
        assert on.session(gives).preemption is not None


async def has_fault(on: Stage, **asked: Any) -> tuple[SessionId, KernelId]:
    """A session on a device that then has a hardware fault."""
    session_id, kernel_id = await running(on, **asked)
    await tells(on, ill=device_of(on, kernel_id))
    return session_id, kernel_id


async def test_a_hardware_fault_preempts_with_five_seconds_grace_at_most_and_uses_no_retry() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await has_fault(on, max_retries=1, grace=60.0, checkpoint_signal="SIGUSR1")
        faulty = device_of(on, kernel_id)
        await on.advance()
        seen = on.session(session_id)
        assert seen.preemption is not None
        assert (seen.state, seen.preemption.cause) == (S.PREEMPTING, PreemptionCause.DEVICE)
        assert seen.preemption.until_us - seen.preemption.at_us == 5_000_000
        on.clock.advance(5)
        await on.advance()
        on.executor.end_kernel(kernel_id, code=None, signal=9)
        await on.settle()
        await on.advance()
        assert (on.session(session_id).state, on.session(session_id).retries) == (S.RUNNING, 0)
        assert device_of(on, second(session_id)) != faulty


@pytest.mark.parametrize("asked", [{"preemptible": True}, {"max_retries": 2}])
async def test_a_session_ended_by_a_hardware_fault_runs_again_without_using_a_retry(asked: dict[str, Any]) -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await has_fault(on, **asked)
        on.executor.end_kernel(kernel_id, code=1)
        await on.settle()
        seen = on.session(session_id)
        assert (seen.state, seen.retries, seen.preemptions) == (S.QUEUED, 0, 1)
        await on.advance()
        assert on.session(session_id).state is S.RUNNING


async def test_a_session_that_may_not_run_again_fails_with_the_fault() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await has_fault(on)
        faulty = device_of(on, kernel_id)
        await on.advance()
        on.executor.end_kernel(kernel_id, code=None, signal=15)
        await on.settle()
        failure = on.session(session_id).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("hardware", f"hardware fault of {faulty} on a: {FAULT}")


async def test_a_session_that_completes_on_a_faulty_device_is_completed() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await has_fault(on)
        on.executor.end_kernel(kernel_id, code=0)
        await on.settle()
        assert on.session(session_id).state is S.COMPLETED


async def test_while_the_scheduler_is_stopped_sessions_stay_on_a_faulty_device() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, _ = await running(on, preemptible=True)
        await on.journal.persist(
            lambda draft: draft.put(replace(draft.orchestration(), state=OrchestratorState.STOPPED), "stopped"),
            actor=CALLER.user,
        )
        await tells(on, ill=device_of(on, KernelId(f"{session_id}.1.0")))
        await on.advance()
        assert on.session(session_id).state is S.RUNNING
