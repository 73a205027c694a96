"""The reaper and devices: broken ones that are held, and ones used without a lease."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot.service.alerts.conditions import device_unhealthy
from aliquot.service.alerts.rules import Rules
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.findings import Discrepancy as D
from aliquot_schema.cluster.launching import AgentSilent, NewReadings
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId
from aliquot_schema.resources.devices import DeviceHealth, DeviceProcess, DeviceReading
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState as S
from service_bench import agent
from service_reaping import GPU, A, kinds, reaper_of, running
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


async def breaks(on: Stage, device: DeviceId, health: str, *, agent_id: AgentId = A) -> None:
    """The agent reports this health of a device from now on."""
    found = on.executor.agents[agent_id].devices
    sick = tuple(replace(known, health=DeviceHealth(health)) if known.id == device else known for known in found)
    on.executor.change_devices(agent_id, sick)
    await on.settle()


def device_of(on: Stage, kernel_id: KernelId) -> DeviceId:
    (held,) = (device for amounts in on.state.leases[LeaseId(kernel_id)].spec.values() for device in amounts)
    return held


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_device_that_leaves_the_configuration_keeps_its_holder_and_takes_nothing_new(is_told: bool) -> None:
    """An agent reports it as leaving; one with no record of it leaves it out."""
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on)
        held = device_of(on, kernel_id)
        found = on.executor.agents[A].devices
        if is_told:
            await breaks(on, held, "leaving")
        else:
            on.executor.change_devices(A, tuple(device for device in found if device.id != held))
            await on.settle()
        reaper = reaper_of(on)
        for _ in range(3):
            await reaper.run_once()
        assert on.state.findings == {}
        assert on.session(session_id).state is S.RUNNING
        assert on.executor.agents[A].stopped == []
        assert on.state.agents[A].devices[-1].health is DeviceHealth.LEAVING
        beside, waiting = await on.submit(), await on.submit()
        await on.advance()
        assert (on.session(beside).state, on.session(waiting).state) == (S.RUNNING, S.QUEUED)
        on.executor.end_kernel(kernel_id)
        await on.settle()
        await on.advance()
        assert on.session(waiting).state is S.QUEUED
        await reaper.run_once()
        assert held not in [device.id for device in on.state.agents[A].devices]


@pytest.mark.parametrize(("health", "kind"), [("gone", D.DEVICE_GONE), ("unhealthy", D.DEVICE_UNHEALTHY)])
async def test_a_held_unhealthy_or_missing_device_is_a_finding(health: str, kind: D) -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id, _ = await running(on)
        await breaks(on, GPU, health)
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        (finding,) = on.state.findings.values()
        assert (finding.kind, finding.subject, finding.repair is None) == (kind, GPU, health == "unhealthy")
        assert finding.evidence == f"it is {health} and held by {session_id}"


async def test_a_held_device_of_which_its_agent_reports_less_is_a_finding_until_enough_is_released() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id, kernel_id = await running(on)
        whole = on.executor.agents[A].devices
        on.executor.change_devices(A, tuple(replace(device, budget=device.budget // 2) for device in whole))
        await on.settle()
        waiting, reaper = await on.submit(slots=[("cuda.shares", "0.5")]), reaper_of(on)
        await on.advance()
        assert on.session(waiting).state is S.QUEUED
        for _ in range(2):
            await reaper.run_once()
        (finding,) = (one for one in on.state.findings.values() if one.subject == GPU)
        assert finding.kind is D.DEVICE_OVERCOMMITTED
        assert finding.evidence.startswith(f"1 GPU of its 0.5 GPU are held, by {session_id}: its agent reports less")
        rule = Rules(on.state.alert_index).of(AlertRule.DEVICE_UNHEALTHY)
        assert [one.subject for one in device_unhealthy(on.state, rule, 0)] == [f"a/{GPU}"]
        on.executor.change_devices(A, tuple(replace(device, budget=device.budget // 4) for device in whole))
        await on.settle()
        await reaper.run_once()
        (renewed,) = (one for one in on.state.findings.values() if one.subject == GPU)
        assert (renewed.id, renewed.evidence.partition(" are ")[0]) == (finding.id, "1 GPU of its 0.25 GPU")
        on.executor.change_devices(A, tuple(replace(device, budget=device.budget // 2) for device in whole))
        on.executor.end_kernel(kernel_id)
        await on.settle()
        await on.advance()
        assert on.session(waiting).state is S.RUNNING
        await reaper.run_once()
        assert on.state.findings == {}


async def test_a_session_on_a_missing_device_is_preempted_and_restarted_on_another() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on)
        (held,) = (device for amounts in on.state.leases[LeaseId(kernel_id)].spec.values() for device in amounts)
        await breaks(on, held, "gone")
        reaper = reaper_of(on)
        await reaper.run_once()
        assert on.session(session_id).state is S.RUNNING
        await reaper.run_once()
        receipt = on.session(session_id).preemption
        assert receipt is not None
        assert (receipt.cause, receipt.by_user) == (PreemptionCause.DEVICE, "system:reaper")
        assert on.executor.agents[A].stopped == [kernel_id]
        on.executor.end_kernel(kernel_id, code=None, signal=15)
        await on.settle()
        await on.advance()
        session = on.session(session_id)
        assert (session.state, session.attempt, session.failure) == (S.RUNNING, 2, None)
        await reaper.run_once()
        assert on.state.findings == {}


async def test_a_device_reported_by_another_agent_of_the_node_is_not_missing() -> None:
    async with stage([agent("a", devices=1, node="n"), agent("b", devices=1, node="n")]) as on:
        session_id, kernel_id = await running(on)
        (there,) = (known for known in (A, AgentId("b")) if known != on.state.kernels[kernel_id].agent_id)
        held = {device.id for device in on.state.agents[there].devices}
        await breaks(on, DeviceId("n-gpu-0"), "gone", agent_id=on.state.kernels[kernel_id].agent_id)
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        assert held == {DeviceId("n-gpu-0")}
        assert on.state.findings == {}
        assert on.session(session_id).state is S.RUNNING


async def test_a_device_known_only_to_an_agent_that_left_is_missing() -> None:
    async with stage([agent("a", devices=1, node="n"), agent("b", devices=1, node="n")]) as on:
        session_id, kernel_id = await running(on)
        here = on.state.kernels[kernel_id].agent_id
        (there,) = {A, AgentId("b")} - {here}
        await on.on_event(AgentSilent(agent_id=there, lost=True))
        admin = Administration(state=on.state, journal=on.journal, clock=on.clock)
        await admin.agents.release_lost_agent(CALLER, there)
        await breaks(on, DeviceId("n-gpu-0"), "gone", agent_id=here)
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        assert kinds(on.state) == [D.DEVICE_GONE]
        assert on.session(session_id).state is S.PREEMPTING


async def test_a_session_on_a_missing_device_is_not_preempted_while_scheduling_is_stopped() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on)
        (held,) = (device for amounts in on.state.leases[LeaseId(kernel_id)].spec.values() for device in amounts)
        admin = Administration(state=on.state, journal=on.journal, clock=on.clock)
        await admin.pause.stop_orchestrator(CALLER, None)
        await breaks(on, held, "gone")
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        assert on.session(session_id).state is S.RUNNING


async def test_a_device_used_by_a_foreign_process_is_not_granted() -> None:
    async with stage([agent("a", devices=1)]) as on:
        reaper = reaper_of(on)
        await on_event(on, pids=(4711,))
        await reaper.run_once()
        await reaper.run_once()
        (finding,) = on.state.findings.values()
        assert (finding.kind, finding.subject) == (D.EXTERNAL_PROCESS, GPU)
        assert finding.evidence == "process 4711 of bob (9.0 GiB)"
        waiting = await on.submit()
        await on.advance()
        assert on.session(waiting).state is S.QUEUED
        seen = await on.queries.session(CALLER, waiting)
        assert seen is not None
        assert seen.waits is not None
        assert seen.waits.message.endswith(" 1 GPU takes nothing new, because foreign processes of bob use it.")
        shown = on.queries.agent(CALLER, A)
        assert shown is not None
        assert [(device.foreign_usage, device.foreign_users) for device in shown.devices] == [(True, ("bob",))]
        await on_event(on, pids=())
        await reaper.run_once()
        assert on.state.findings == {}
        await on.advance()
        assert on.session(waiting).state is S.RUNNING


async def test_a_device_used_by_a_foreign_process_stays_ungranted_while_its_agent_does_not_answer() -> None:
    async with stage([agent("a", devices=1)]) as on:
        reaper = reaper_of(on)
        await on_event(on, pids=(4711,))
        for _ in range(2):
            await reaper.run_once()
        on.executor.silent.add(A)
        await reaper.run_once()
        waiting = await on.submit()
        await on.advance()
        assert on.session(waiting).state is S.QUEUED
        await on_event(on, pids=())
        await reaper.run_once()
        on.executor.silent.clear()
        await on.advance()
        assert on.session(waiting).state is S.RUNNING


async def test_ignored_foreign_processes_are_still_reported() -> None:
    async with stage([agent("a", devices=1)]) as on:
        reaper = reaper_of(on, respects=False)
        await on_event(on, pids=(4711,))
        for _ in range(2):
            await reaper.run_once()
        assert kinds(on.state) == [D.EXTERNAL_PROCESS]
        assert on.state.foreign_usage.users == {"node-a": {GPU: ("bob",)}}
        await running(on)


async def test_processes_of_the_holder_on_a_held_device_are_not_foreign() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await running(on)
        await on_event(on, pids=(), jobs=(4711,))
        assert await reaper_of(on).run_once() == 0


async def test_a_gpu_that_is_partly_held_takes_nothing_new_while_another_process_uses_it() -> None:
    async with stage([agent("a", devices=1)]) as on:
        reaper = reaper_of(on)
        first = await on.submit(slots=[("cuda.shares", "0.5")])
        await on.advance()
        await on_event(on, pids=(4711,), jobs=(100,))
        for _ in range(2):
            await reaper.run_once()
        (finding,) = on.state.findings.values()
        assert finding.evidence == "process 4711 of bob (9.0 GiB)"
        second = await on.submit(slots=[("cuda.shares", "0.5")])
        await on.advance()
        assert (on.session(first).state, on.session(second).state) == (S.RUNNING, S.QUEUED)
        await on_event(on, pids=(), jobs=(100,))
        await reaper.run_once()
        await on.advance()
        assert on.session(second).state is S.RUNNING


async def test_the_jobs_of_one_agent_are_not_foreign_to_another_that_shares_the_device() -> None:
    async with stage([agent("a", devices=1, node="n"), agent("b", devices=1, node="n")]) as on:
        await on.submit(slots=[("cuda.shares", "0.5")])
        await on.advance()
        gpu = on.state.agents[A].devices[0].id
        for name, is_job in (("a", True), ("b", False)):
            process = DeviceProcess(pid=100, memory_bytes=1, user="ann", is_job=is_job)
            reading = DeviceReading(device_id=gpu, processes=(process,))
            await on.on_event(NewReadings(agent_id=AgentId(name), at_us=1, readings=(reading,)))
        assert await reaper_of(on).run_once() == 0


async def on_event(on: Stage, *, pids: Sequence[int], jobs: Sequence[int] = ()) -> None:
    """The agent reports these processes of bob on its first device, and these of its own jobs."""
    found = [DeviceProcess(pid=pid, memory_bytes=9 * 2**30, user="bob", is_job=False) for pid in pids]
    found += [DeviceProcess(pid=pid, memory_bytes=2**30, user="ann", is_job=True) for pid in jobs]
    reading = DeviceReading(device_id=GPU, processes=tuple(found))
    await on.on_event(NewReadings(agent_id=A, at_us=1, readings=(reading,)))
