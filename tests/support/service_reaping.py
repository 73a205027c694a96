"""The reaper on a stage, and its inputs."""

from aliquot.service.agents.reaper import Reaper
from aliquot.service.state.state import State
from aliquot_schema.cluster.findings import Discrepancy as D
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SessionId
from aliquot_schema.states import SessionState as S
from service_stage import Stage

A = AgentId("a")
GPU = DeviceId("a-gpu-0")


def reaper_of(on: Stage, *, respects: bool = True) -> Reaper:
    return Reaper(on, executor=on.executor, dispatch=on.dispatch, grace_ms=100, respect_foreign_usage=respects)


async def running(on: Stage, **asked: object) -> tuple[SessionId, KernelId]:
    session_id = await on.submit(**asked)
    await on.advance()
    assert on.session(session_id).state is S.RUNNING
    return session_id, KernelId(f"{session_id}.1.0")


def kinds(state: State) -> list[D]:
    """Open ones."""
    return sorted(finding.kind for finding in state.findings.values())
