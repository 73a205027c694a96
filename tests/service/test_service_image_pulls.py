"""Image pulls: their progress in the session and its steps, and the effects of a failed one."""

from typing import Any, Final

import pytest

from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import (
    IMAGE_FAILED,
    IMAGE_NO_SPACE,
    IMAGE_NOT_FOUND,
    IMAGE_UNAUTHORIZED,
    REGISTRY_UNREACHABLE,
    WORKSPACE_NO_SPACE,
    KernelChanged,
    KernelPhase,
    KernelReport,
    PullProgress,
)
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.requests import Caller, PageRequest, Role
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.states import KernelState, SessionState
from service_bench import agent
from service_fakes import FakeAgent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

IMAGE: Final = "registry.lab/train:3"
MIB: Final = 1 << 20


def images(name: str, *, devices: int) -> FakeAgent:
    """An agent that runs containers."""
    found = agent(name, devices=devices)
    found.capabilities = Capabilities(containers="podman")
    return found


async def granted(on: Stage, *, kernels: int = 1) -> SessionId:
    """A session with an image, sent to its agents, with no report yet."""
    on.executor.start_by_itself = False
    session_id = await on.submit(devices=1, kernels=kernels, image=IMAGE)
    await on.advance()
    await on.settle()
    assert on.session(session_id).state is SessionState.ALLOCATING
    return session_id


def kernels_of(on: Stage, session_id: SessionId) -> list[Kernel]:
    return on.state.kernels_in(on.session(session_id))


async def says(on: Stage, session_id: SessionId, phase: KernelPhase, *, rank: int = 0, **fields: Any) -> None:
    """Let a rank's agent report, with the consequences."""
    kernel = kernels_of(on, session_id)[rank]
    report = KernelReport(kernel_id=kernel.id, at_us=5, phase=phase, **fields)
    await on.on_event(KernelChanged(agent_id=kernel.agent_id, report=report))
    await on.settle()


async def pulls(on: Stage, session_id: SessionId, mib: int, *, rank: int = 0) -> None:
    progress = PullProgress(ran_ms=1_000 * mib, bytes_done=mib * MIB, bytes_total=100 * MIB, layers=2)
    await says(on, session_id, KernelPhase.PULLING, rank=rank, pull=progress)


async def fails(on: Stage, session_id: SessionId, code: str, *, rank: int = 0) -> None:
    words = {"code": code, "message": "it failed", "evidence": EndEvidence.REFUSED}
    await says(on, session_id, KernelPhase.REFUSED, rank=rank, **words)


DONE: Final = PullProgress(
    ran_ms=3_000,
    bytes_done=100 * MIB,
    bytes_total=100 * MIB,
    layers_done=2,
    layers=2,
    size_bytes=300 * MIB,
    is_done=True,
)


async def moves(on: Stage, session_id: SessionId) -> list[str]:
    return [event.kind.removeprefix("session.") for event in await on.events() if event.entity_id == session_id]


async def test_progress_is_recorded_by_tenths_and_the_end_with_its_size_and_duration() -> None:
    async with stage([images("a", devices=1)]) as on:
        session_id = await granted(on)
        for mib in (0, 5, 10, 11, 12, 25, 26):
            await pulls(on, session_id, mib)
        pull = on.session(session_id).pull
        assert pull is not None
        assert (pull.bytes_done, pull.ended_us, pull.agent_id) == (25 * MIB, None, "a")
        assert on.session(session_id).state is SessionState.ALLOCATING
        await says(on, session_id, KernelPhase.STARTED, pull=DONE)
        await says(on, session_id, KernelPhase.STARTED, pull=DONE)
        assert on.session(session_id).state is SessionState.RUNNING
        pull = on.session(session_id).pull
        assert pull is not None
        assert pull.ended_us is not None
        assert (pull.size_bytes, pull.layers_done, pull.ended_us >= pull.began_us) == (300 * MIB, 2, True)
        after = await moves(on, session_id)
        after = after[after.index("allocating") + 1 :]
        assert after == ["pulling", "pull_progressed", "pull_progressed", "pulled", "running"]
        page = await on.queries.session_steps(CALLER, session_id, PageRequest(first=10, after=None))
        shown = [(step.kind, step.pull.size if step.pull is not None else None) for step in page.items]
        assert shown[:4] == [
            ("session.running", None),
            ("session.pulled", 300 * MIB),
            ("session.pulling", None),
            ("session.allocating", None),
        ]


async def test_the_size_of_an_image_is_recorded_as_soon_as_it_is_known() -> None:
    async with stage([images("a", devices=1)]) as on:
        session_id = await granted(on)
        await says(on, session_id, KernelPhase.PULLING, pull=PullProgress(ran_ms=1))
        await pulls(on, session_id, 1)
        pull = on.session(session_id).pull
        assert pull is not None
        assert (pull.bytes_done, pull.bytes_total, pull.layers) == (MIB, 100 * MIB, 2)


async def test_the_pull_of_one_rank_of_a_gang_is_recorded_at_a_time() -> None:
    async with stage([images("a", devices=1), images("b", devices=1)]) as on:
        session_id = await granted(on, kernels=2)
        await pulls(on, session_id, 1, rank=1)
        await pulls(on, session_id, 40, rank=0)
        await says(on, session_id, KernelPhase.STARTED, rank=1, pull=DONE)
        await pulls(on, session_id, 50, rank=0)
        pull = on.session(session_id).pull
        assert pull is not None
        assert (pull.rank, pull.bytes_done) == (0, 50 * MIB)
        await says(on, session_id, KernelPhase.STARTED, rank=0, pull=DONE)
        assert [move for move in await moves(on, session_id) if "pull" in move] == [
            "pulling",
            "pulled",
            "pulling",
            "pulled",
        ]


@pytest.mark.parametrize("code", [IMAGE_NOT_FOUND, IMAGE_UNAUTHORIZED, IMAGE_FAILED])
async def test_an_image_that_no_agent_could_fetch_fails_the_session(code: str) -> None:
    async with stage([images("a", devices=1), images("b", devices=1)]) as on:
        session_id = await granted(on)
        where = kernels_of(on, session_id)[0].agent_id
        await fails(on, session_id, code)
        session = on.session(session_id)
        assert (session.state, session.attempt, session.retries) == (SessionState.FAILED, 1, 0)
        assert session.failure is not None
        assert (session.failure.code, session.failure.message) == (code, f"rank 0 on {where}: it failed")


async def test_a_registry_that_cannot_be_reached_is_tried_again_while_retries_are_left() -> None:
    async with stage([images("a", devices=1)]) as on:
        session_id = await granted(on)
        retries = 0
        while on.session(session_id).state is SessionState.ALLOCATING:
            await fails(on, session_id, REGISTRY_UNREACHABLE)
            if on.session(session_id).state is SessionState.QUEUED:
                retries += 1
                assert on.session(session_id).failure is None
                on.clock.advance(3_600)
                await on.advance()
        session = on.session(session_id)
        assert (session.state, retries) == (SessionState.FAILED, on.state.policy.retries.tries_min)
        assert session.failure is not None
        assert session.failure.code == REGISTRY_UNREACHABLE


@pytest.mark.parametrize("code", [IMAGE_NO_SPACE, WORKSPACE_NO_SPACE])
async def test_without_disk_space_a_session_moves_to_another_agent_without_a_retry(code: str) -> None:
    async with stage([images("a", devices=1), images("b", devices=1)]) as on:
        session_id = await granted(on)
        first = kernels_of(on, session_id)[0].agent_id
        await fails(on, session_id, code)
        await on.advance()
        await on.settle()
        session = on.session(session_id)
        assert (session.attempt, session.retries, session.excluded_agents) == (2, 0, (first,))
        assert kernels_of(on, session_id)[0].agent_id != first
        await fails(on, session_id, code)
        session = on.session(session_id)
        assert session.state is SessionState.FAILED
        assert session.failure is not None
        assert session.failure.code == code


async def test_a_pull_of_a_canceled_session_is_stopped_again() -> None:
    async with stage([images("a", devices=1)]) as on:
        session_id = await granted(on)
        await pulls(on, session_id, 1)
        await on.sessions.cancel_session(CALLER, session_id, None)
        await on.settle()
        (kernel,) = kernels_of(on, session_id)
        assert kernel.state is KernelState.STOPPING
        stopped = on.executor.agents[kernel.agent_id].stopped
        before = len(stopped)
        await pulls(on, session_id, 50)
        assert len(stopped) > before


@pytest.mark.parametrize("role", list(Role))
async def test_only_operators_see_which_images_an_agent_holds(role: Role) -> None:
    holder = images("a", devices=1)
    holder.capabilities = Capabilities(containers="podman", images=(IMAGE,))
    async with stage([holder]) as on:
        caller = Caller(user=UserId("eve"), request_id="req_test", role=role)
        found = on.queries.agent(caller, "a")
        assert found is not None
        assert found.capabilities.images == ((IMAGE,) if role >= Role.OPERATOR else ())
