"""A server behind the log: the store's rows may be newer than its state."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aliquot_schema.ids import AgentId, KernelId, SessionId
from aliquot_schema.states import SessionState
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

S = SessionState


@asynccontextmanager
async def behind(on: Stage, *, ended_kept: int = 1000) -> AsyncIterator[Stage]:
    """A server of the same store that has read nothing yet."""
    async with stage([], store=on.store, ended_kept=ended_kept) as other:
        yield other


async def ran(on: Stage, session_id: SessionId, *, attempt: int = 1) -> None:
    await on.advance()
    on.executor.end_kernel(KernelId(f"{session_id}.{attempt}.0"))
    await on.settle()
    assert on.session(session_id).state is S.COMPLETED


async def waiting_for(on: Stage, session_id: SessionId) -> SessionId:
    return await on.submit(depends_on=[(session_id, "after_ok")], held=True)


async def test_a_server_behind_the_log_catches_up_on_agents_sessions_and_dependencies() -> None:
    async with stage([agent("a", devices=1)]) as on, behind(on, ended_kept=0) as other:
        first = await on.submit()
        await ran(on, first)
        await waiting_for(on, first)
        await other.journal.catch_up()
        assert other.state.revision == on.state.revision
        assert other.session(first) == on.session(first), "it is waited for"
        assert other.held() == {}


async def test_a_forgotten_session_retried_on_another_agent_is_loaded_again() -> None:
    async with stage([agent("a", devices=1)]) as on, behind(on, ended_kept=0) as other:
        first = await on.submit()
        await ran(on, first)
        last = await on.submit()
        await ran(on, last)
        await other.journal.catch_up()
        assert other.state.sessions == {}
        on.executor.disconnect_agent(AgentId("a"))
        on.executor.add_agent(agent("b", devices=1))
        await on.settle()
        await on.sessions.retry_session(CALLER, first, None)
        await ran(on, first, attempt=2)
        await waiting_for(on, first)
        await other.journal.catch_up()
        assert other.state.revision == on.state.revision
        assert other.session(first) == on.session(first)
        assert other.held() == {}
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()


async def test_a_forgotten_session_that_runs_again_is_loaded_for_its_dependents() -> None:
    async with stage([agent("a", devices=1)]) as on, behind(on, ended_kept=0) as other:
        first = await on.submit()
        await ran(on, first)
        await other.journal.catch_up()
        assert other.state.sessions == {}
        await waiting_for(on, first)
        await on.sessions.retry_session(CALLER, first, None)
        await on.advance()
        assert on.session(first).state is S.RUNNING
        await other.journal.catch_up()
        assert other.session(first) == on.session(first)
        assert other.held() == on.held()
        on.executor.end_kernel(KernelId(f"{first}.2.0"))
        await on.settle()
