"""Extended time limits of running sessions: requested, decided by a pass, and sent to the agents."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import ExtensionDecision, Plan
from aliquot.service.scheduling.plan_applier import PlanApplier
from aliquot_schema.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound, StateConflict, Unavailable
from aliquot_schema.ids import KernelId, SessionId, UserId
from aliquot_schema.requests import NewSession, Role
from aliquot_schema.sessions import Extension
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

BOB = replace(CALLER, user=UserId("bob"), role=Role.USER)
HOUR_S = 3600.0
T = TypeVar("T")


@asynccontextmanager
async def passes(on: Stage) -> AsyncIterator[None]:
    """Run passes continuously, as a server does."""
    task = asyncio.create_task(on.allocator.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def called(on: Stage, call: Awaitable[T]) -> T:
    async with passes(on), asyncio.timeout(60):
        return await call


def request(**more: Any) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], **more)


async def running(on: Stage, **more: Any) -> SessionId:
    made = (await on.sessions.create_session(CALLER, request(**({"time_limit": HOUR_S} | more)))).session
    await on.advance()
    return SessionId(made.id)


def heard(on: Stage, name: str = "a") -> list[tuple[KernelId, int]]:
    return on.executor.agents[name].limits  # type: ignore[index]


async def test_more_time_is_granted_and_reaches_the_running_process() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await running(on)
        got = (await called(on, on.sessions.extend_session(CALLER, name, 2 * HOUR_S, None))).session
        assert got.time_limit == 3 * HOUR_S
        await on.settle()
        assert heard(on) == [(on.state.kernels_in(on.state.sessions[name])[0].id, 3 * 3_600_000)]
        kinds = [event.kind for event in await on.events()]
        assert kinds.index("session.extension_requested") < kinds.index("session.extended")


async def test_a_refused_extension_names_the_delayed_session_and_can_be_requested_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await running(on)
        waiting = (await on.sessions.create_session(BOB, request())).session
        with pytest.raises(StateConflict, match=f"1 session would start later: {waiting.id} of bob by 1 h"):
            await called(on, on.sessions.extend_session(CALLER, name, HOUR_S, None))
        assert on.state.sessions[name].spec.time_limit_ms == 3_600_000
        await on.sessions.cancel_session(BOB, waiting.id, None)
        assert (
            await called(on, on.sessions.extend_session(CALLER, name, HOUR_S, None))
        ).session.time_limit == 2 * HOUR_S
        assert heard(on)[-1][1] == 2 * 3_600_000


async def test_a_rejoining_agent_gets_the_extended_time_limit_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await running(on)
        await called(on, on.sessions.extend_session(CALLER, name, HOUR_S, None))
        await on.settle()
        before = len(heard(on))
        on.executor.add_agent(on.executor.agents["a"])  # type: ignore[index]
        await on.settle()
        assert heard(on)[before:] == heard(on)[:1]


async def test_a_refused_extension_gives_the_reason() -> None:
    async with stage([agent("a", devices=3)]) as on:
        name = await running(on)
        endless = await running(on, time_limit=None)
        with pytest.raises(StateConflict, match="it has no time limit"):
            await on.sessions.extend_session(CALLER, endless, HOUR_S, None)
        with pytest.raises(InvalidRequest):
            await on.sessions.extend_session(CALLER, name, 0, None)
        with pytest.raises(LimitExceeded):
            await on.sessions.extend_session(CALLER, name, 10 * 365 * 86_400, None)
        with pytest.raises(Forbidden):
            await on.sessions.extend_session(BOB, name, HOUR_S, None)
        with pytest.raises(NotFound):
            await on.sessions.extend_session(CALLER, "ses_none", HOUR_S, None)
        on.executor.agents["a"].takes_limits = False  # type: ignore[index]
        old = await running(on)
        with pytest.raises(StateConflict, match=r"an earlier release of Aliquot.*Upgrade agent a"):
            await on.sessions.extend_session(CALLER, old, HOUR_S, None)


async def test_without_a_pass_the_request_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.service.sessions.extensions.PASS_WAIT_S", 0.05)
    async with stage([agent("a", devices=1)]) as on:
        name = await running(on)
        with pytest.raises(Unavailable, match="no server is scheduling"):
            await on.sessions.extend_session(CALLER, name, HOUR_S, None)
        assert on.state.sessions[name].extension is None


async def test_a_request_of_an_earlier_attempt_is_never_granted_and_blocks_no_later_one() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await running(on)
        earlier = Extension(attempt=on.session(name).attempt, time_limit_ms=9 * 3_600_000)
        session = replace(on.session(name), attempt=earlier.attempt + 1, extension=earlier)
        await on.journal.persist(lambda draft: draft.put(session, "changed"), actor="ann")
        limit_us = (session.started_us or 0) + 1000 * earlier.time_limit_ms
        plan = Plan(extensions=(ExtensionDecision(session_id=name, limit_us=limit_us),))
        applier = PlanApplier(state=on.state, journal=on.journal, now_us=0, pass_number=1, launch=lambda _: None)
        await applier.run(plan)
        assert on.session(name).spec.time_limit_ms == 3_600_000
        got = await called(on, on.sessions.extend_session(CALLER, name, HOUR_S, None))
        assert got.session.time_limit == 2 * HOUR_S
