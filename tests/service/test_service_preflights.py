"""Preflights: a gang starts when all ranks have passed; a node where one fails is left out without using a retry."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import AgentJoined, KernelChanged, KernelPhase, KernelReport, PreflightOrder
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.resources.confinement import ABILITIES
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import PREFLIGHT_FAILED, PREFLIGHT_REPLACEMENTS_MAX, Preflight
from aliquot_schema.states import KernelState, SessionState
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

CHECK = ("check-links", "--fast")


async def granted(on: Stage, *, kernels: int = 1, devices: int = 1, **fields: object) -> SessionId:
    """A session with a preflight, sent to its agents, with no report yet."""
    on.executor.start_by_itself = False
    session_id = await on.submit(devices=devices, kernels=kernels, preflight=CHECK, preflight_limit=5.0, **fields)
    await on.advance()
    await on.settle()
    assert on.session(session_id).state is SessionState.ALLOCATING
    return session_id


REPORTS: Final[dict[str, dict[str, Any]]] = {
    "checking": {"phase": KernelPhase.CHECKING},
    "checked": {"phase": KernelPhase.CHECKED},
    "started": {"phase": KernelPhase.STARTED},
    "killed": {"phase": KernelPhase.EXITED, "signal": 15, "evidence": EndEvidence.EXIT_FILE},
    "unchecked": {
        "phase": KernelPhase.REFUSED,
        "code": PREFLIGHT_FAILED,
        "message": "it exited with code 1",
        "evidence": EndEvidence.REFUSED,
    },
}


async def says(on: Stage, session_id: SessionId, rank: int, word: str) -> None:
    """Let a rank's agent report, with the consequences."""
    kernel = kernels(on, session_id)[rank]
    report = KernelReport(kernel_id=kernel.id, at_us=5, **REPORTS[word])
    await on.on_event(KernelChanged(agent_id=kernel.agent_id, report=report))
    await on.settle()


def order_of(on: Stage, kernel: Kernel) -> PreflightOrder:
    check = on.executor.agents[kernel.agent_id].orders[kernel.id].preflight
    assert check is not None
    return check


def kernels(on: Stage, session_id: SessionId) -> list[Kernel]:
    return on.state.kernels_in(on.session(session_id))


async def test_a_gang_is_released_when_its_last_rank_has_passed() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        gang = await granted(on, kernels=2)
        assert on.session(gang).spec.preflight == Preflight(argv=CHECK, limit_ms=5000)
        waits = [order_of(on, kernel) for kernel in kernels(on, gang)]
        await says(on, gang, 0, "checked")
        await says(on, gang, 1, "checking")
        assert [order_of(on, kernel) for kernel in kernels(on, gang)] == waits
        assert not any(one.is_released for one in waits)
        await says(on, gang, 1, "checked")
        released = [order_of(on, kernel) for kernel in kernels(on, gang)]
        assert released == [replace(one, is_released=True) for one in waits]
        assert on.session(gang).state is SessionState.ALLOCATING
        await says(on, gang, 0, "started")
        await says(on, gang, 1, "started")
        assert on.session(gang).state is SessionState.RUNNING
        assert all(kernel.checked_us is not None for kernel in kernels(on, gang))


async def test_a_session_with_one_kernel_is_released_immediately() -> None:
    async with stage([agent("a", devices=1)]) as on:
        alone = await granted(on)
        assert order_of(on, kernels(on, alone)[0]).is_released


async def test_a_rank_on_an_agent_without_preflights_does_not_block_its_gang() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        gang = await granted(on, kernels=2)
        await says(on, gang, 0, "checked")
        await says(on, gang, 1, "started")
        assert order_of(on, kernels(on, gang)[0]).is_released


async def test_a_lost_release_is_sent_again_when_the_rank_reports_again() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        gang = await granted(on, kernels=2)
        await says(on, gang, 0, "checked")
        await says(on, gang, 1, "checked")
        first = kernels(on, gang)[0]
        orders = on.executor.agents[first.agent_id].orders
        orders[first.id] = replace(orders[first.id], preflight=None)
        await says(on, gang, 0, "checked")
        assert order_of(on, first).is_released


async def test_a_failed_check_moves_the_gang_to_another_node_without_using_a_retry() -> None:
    async with stage([agent(name, devices=1) for name in ("a", "b", "c")]) as on:
        gang = await granted(on, kernels=2)
        bad, good = kernels(on, gang)
        await says(on, gang, 1, "checked")
        await says(on, gang, 0, "unchecked")
        assert on.state.kernels[good.id].state is KernelState.STOPPING
        await says(on, gang, 1, "killed")
        waiting = on.session(gang)
        assert (waiting.state, waiting.retries, waiting.not_before_us) == (SessionState.QUEUED, 0, None)
        assert waiting.excluded_agents == (bad.agent_id,)
        failed = waiting.preflight
        assert failed is not None
        assert (failed.failures, failed.attempt, failed.agent_id) == (1, 1, bad.agent_id)
        assert failed.message == "rank 0: it exited with code 1"
        await on.advance()
        assert {kernel.agent_id for kernel in kernels(on, gang)} == {"a", "b", "c"} - {bad.agent_id}
        for rank in (0, 1):
            await says(on, gang, rank, "checked")
        for rank in (0, 1):
            await says(on, gang, rank, "started")
        assert (on.session(gang).state, on.session(gang).retries) == (SessionState.RUNNING, 0)


async def test_a_failed_preflight_without_another_node_fails_the_session() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        gang = await granted(on, kernels=2)
        await says(on, gang, 0, "unchecked")
        await says(on, gang, 1, "killed")
        failed = on.session(gang)
        assert failed.state is SessionState.FAILED
        assert failed.failure is not None
        assert failed.failure.code == PREFLIGHT_FAILED
        assert failed.failure.message.endswith("rank 0: it exited with code 1; no other node could run it")


async def test_the_number_of_replacements_after_failed_preflights_is_limited() -> None:
    names = [f"n{number}" for number in range(PREFLIGHT_REPLACEMENTS_MAX + 3)]
    async with stage([agent(name, devices=1) for name in names]) as on:
        alone = await granted(on, max_retries=5)
        for _ in range(PREFLIGHT_REPLACEMENTS_MAX):
            await says(on, alone, 0, "unchecked")
            assert on.session(alone).state is SessionState.QUEUED
            await on.advance()
        await says(on, alone, 0, "unchecked")
        failed = on.session(alone)
        assert (failed.state, failed.retries) == (SessionState.FAILED, 0)
        assert failed.failure is not None
        assert f"failed in {PREFLIGHT_REPLACEMENTS_MAX + 1} attempts" in failed.failure.message


async def test_a_session_that_waits_after_a_failed_check_says_where_it_may_not_start() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        other = await granted(on)
        alone = await granted(on)
        await says(on, alone, 0, "unchecked")
        await on.advance()
        name = on.session(alone).excluded_agents[0]
        view = await on.queries.session(CALLER, alone)
        assert view is not None
        assert view.waits is not None
        assert view.waits.message.endswith(f"not on {name} after a failed preflight")
        assert view.preflight is not None
        assert (view.preflight.failures, view.preflight.agent_id) == (1, name)
        assert on.session(other).excluded_agents == ()


@pytest.mark.parametrize(
    ("asks", "able"),
    [
        ({"preflight": CHECK}, "can run preflights"),
        ({"activates": "uv"}, "can activate environments"),
        ({"workspace": 40 * "a"}, "can unpack uploaded files"),
        ({"checkpoint_signal": "SIGUSR1"}, "can send checkpoint signals"),
        ({}, ""),
    ],
)
async def test_an_agent_that_would_ignore_a_part_of_the_order_gets_the_session_once_it_is_upgraded(
    asks: dict[str, Any], able: str
) -> None:
    old = agent("a", devices=1)
    old.capabilities = Capabilities(lacks=tuple(ABILITIES))
    async with stage([old]) as on:
        waits = await on.submit(**asks)
        await on.advance()
        if able:
            view = await on.queries.session(CALLER, waits)
            assert view is not None
            assert view.waits is not None
            said = f"GPU {able} now. Agents of an earlier release cannot: upgrade them."
            assert view.waits.message.endswith(said)
            old.capabilities = Capabilities()
            await on.on_event(AgentJoined(inventory=old.inventory()))
            await on.advance()
        await on.settle()
        assert on.session(waits).state is not SessionState.QUEUED


async def test_a_run_after_the_failure_starts_without_exclusions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        alone = await granted(on)
        await says(on, alone, 0, "unchecked")
        assert on.session(alone).state is SessionState.FAILED
        assert on.session(alone).excluded_agents == (AgentId("a"),)
        await on.sessions.retry_session(CALLER, alone, None)
        again = on.session(alone)
        assert (again.state, again.excluded_agents, again.preflight) == (SessionState.QUEUED, (), None)
