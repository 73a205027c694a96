"""CPU and host memory of sessions: known while running, kept after the end, other agents' reports ignored."""

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.launching import KernelChanged, KernelPhase, KernelReport, NewReadings
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.leases import EndEvidence, HostUse
from service_bench import agent
from service_reaping import running
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

A, B = AgentId("a"), AgentId("b")
USE = HostUse(cpu_ms=5000, cpu_milli=900, cpu_milli_max=1500, memory_bytes=100, memory_bytes_max=800)


async def shown(on: Stage, session_id: str) -> HostUse | None:
    view = await on.queries.session(CALLER, session_id)
    assert view is not None
    return view.kernels[0].host_use


def measured(kernel_id: KernelId, use: HostUse, *, by: AgentId = A) -> NewReadings:
    return NewReadings(agent_id=by, at_us=1, readings=(), host_uses={kernel_id: use})


def ended(kernel_id: KernelId, use: HostUse | None) -> KernelChanged:
    report = KernelReport(
        kernel_id=kernel_id,
        phase=KernelPhase.EXITED,
        at_us=1,
        exit_code=0,
        evidence=EndEvidence.EXIT_FILE,
        host_use=use,
    )
    return KernelChanged(agent_id=A, report=report)


async def test_peaks_survive_a_restart_of_the_agent_and_the_end_of_the_session() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id, kernel_id = await running(on)
        assert await shown(on, session_id) is None
        await on.on_event(measured(kernel_id, USE))
        assert await shown(on, session_id) == USE
        fresh = HostUse(cpu_ms=6000, cpu_milli=None, memory_bytes=90, memory_bytes_max=90)
        await on.on_event(measured(kernel_id, fresh))
        assert await shown(on, session_id) == replace(fresh, cpu_milli_max=1500, memory_bytes_max=800)
        await on.on_event(ended(kernel_id, HostUse(cpu_ms=7000)))
        final = HostUse(cpu_ms=7000, cpu_milli_max=1500, memory_bytes_max=800)
        assert await shown(on, session_id) == final
        assert on.state.kernels[kernel_id].host_use == final
        assert not on.state.host_uses.running()


async def test_an_end_without_a_measurement_takes_the_last_one_known() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id, kernel_id = await running(on)
        await on.on_event(measured(kernel_id, USE), ended(kernel_id, None))
        assert await shown(on, session_id) == USE


async def test_measurements_of_another_agents_kernel_are_ignored() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        session_id, kernel_id = await running(on)
        holder = on.state.kernels[kernel_id].agent_id
        await on.on_event(measured(kernel_id, USE, by=A if holder == B else B), measured(KernelId("ses_x.1.0"), USE))
        assert await shown(on, session_id) is None
        assert not on.state.host_uses.running()
