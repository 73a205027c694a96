"""Reports of agents that are late, repeated, reordered or interleaved never corrupt the state."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot_schema.cluster.launching import AgentMessage, KernelChanged, KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.states import KernelState, SessionState
from service_bench import agent
from service_stage import CALLER, Stage, granting_only, stage

K = KernelState
S = SessionState
P = KernelPhase

WORDS: dict[str, dict[str, Any]] = {
    "checking": {"phase": P.CHECKING},
    "checked": {"phase": P.CHECKED},
    "started": {"phase": P.STARTED},
    "uncertain": {"phase": P.UNCERTAIN, "message": "the shim is gone"},
    "well": {"phase": P.EXITED, "exit_code": 0, "evidence": EndEvidence.EXIT_FILE},
    "badly": {"phase": P.EXITED, "exit_code": 3, "evidence": EndEvidence.EXIT_FILE},
    "killed": {"phase": P.EXITED, "signal": 15, "evidence": EndEvidence.EXIT_FILE},
    "never": {"phase": P.EXITED, "evidence": EndEvidence.TOMBSTONE},
    "refused": {"phase": P.REFUSED, "code": "insufficient_resource", "evidence": EndEvidence.REFUSED},
    "unchecked": {
        "phase": P.REFUSED,
        "code": "preflight_failed",
        "message": "it exited with code 1",
        "evidence": EndEvidence.REFUSED,
    },
    "unfit": {"phase": P.REFUSED, "code": "unsupported_resource", "evidence": EndEvidence.REFUSED},
}


def says(kernel_id: KernelId, word: str, *, agent_id: str) -> KernelChanged:
    report = KernelReport(**({"kernel_id": kernel_id, "at_us": 5} | WORDS[word]))
    return KernelChanged(agent_id=AgentId(agent_id), report=report)


def about(on: Stage, session_id: SessionId, rank: int, word: str, *, attempt: int = 0) -> list[AgentMessage]:
    """A report of the rank's agent; nothing when there is no such rank."""
    kernel_id = KernelId(f"{session_id}.{attempt or on.session(session_id).attempt}.{rank}")
    kernel = on.state.kernels.get(kernel_id)
    return [] if kernel is None else [says(kernel_id, word, agent_id=kernel.agent_id)]


@dataclass(frozen=True)
class Report:
    rank: int
    word: str
    attempt: int = 0

    async def happen(self, on: Stage, gang: SessionId) -> None:
        await on.on_event(*about(on, gang, self.rank, self.word, attempt=self.attempt))


@dataclass(frozen=True)
class Step:
    """Any other interleaved action."""

    what: str

    async def happen(self, on: Stage, gang: SessionId) -> None:
        match self.what:
            case "cancel" if not on.session(gang).is_ended:
                await on.cancel(gang)
            case "priority" if not on.session(gang).is_ended:
                level = "high" if on.session(gang).priority == 2 else "normal"
                await on.sessions.update_session_priority(CALLER, gang, level, None)
            case "decide":
                await on.allocator.run_once()
            case "later":
                on.clock.advance(400)
            case "silent" | "good-bye":
                on.executor.disconnect_agent(AgentId("a"), gone=self.what == "good-bye")
            case "back":
                on.executor.reconnect_agent(AgentId("a"))
            case "boot":
                on.executor.reboot_agent(AgentId("a"))
            case "deliver":
                await on.settle()
        on.check()


REPORTS = st.builds(Report, st.integers(0, 3), st.sampled_from(sorted(WORDS)), st.sampled_from([0, 0, 0, 1, 2]))
STEPS = st.sampled_from(["cancel", "priority", "decide", "later", "silent", "good-bye", "back", "boot", "deliver"])
STORIES = st.lists(REPORTS | REPORTS | st.builds(Step, STEPS), max_size=25)


async def play(story: list[Report | Step], *, kernels: int) -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        on.executor.start_by_itself = False
        gang = await on.submit(kernels=kernels)
        for step in story:
            await step.happen(on, gang)
        await end(on, gang)


async def end(on: Stage, gang: SessionId) -> None:
    """All agents return, every session is canceled, and every process ends."""
    for name in ("a", "b"):
        on.executor.reconnect_agent(AgentId(name))
    await on.settle()
    if not on.session(gang).is_ended:
        await on.cancel(gang)
    await on.settle()
    live = on.live()
    await on.on_event(
        *(says(KernelId(name), "killed", agent_id=on.state.kernels[KernelId(name)].agent_id) for name in live)
    )
    assert on.session(gang).is_ended
    assert on.held() == {}
    assert on.live() == []
    on.executor.start_by_itself = True
    again = await on.submit(devices=2, kernels=2)
    await on.advance()
    assert on.session(again).state is S.RUNNING


@settings(max_examples=150, deadline=None)
@given(STORIES, st.integers(1, 4))
def test_any_sequence_of_reports_keeps_the_state_valid_and_frees_all_devices(
    story: list[Report | Step], kernels: int
) -> None:
    asyncio.run(play([Step("decide"), Step("deliver"), *story], kernels=kernels))


@settings(max_examples=60, deadline=None)
@given(st.permutations([Report(rank, word) for rank in range(3) for word in ("started", "well")]), st.data())
def test_every_order_of_starts_and_good_ends_completes_a_gang(order: list[Report], data: st.DataObject) -> None:
    repeats = data.draw(st.lists(st.sampled_from(order), max_size=6))

    async def scenario() -> None:
        async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
            on.executor.start_by_itself = False
            gang = await on.submit(kernels=3)
            await on.advance()
            for report in [*order, *repeats]:
                await report.happen(on, gang)
            session = on.session(gang)
            assert (session.state, session.exit_code, session.attempt) == (S.COMPLETED, 0, 1)
            assert on.held() == {}

    asyncio.run(scenario())


Act = Callable[[Stage, SessionId], Any]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("words", "state", "kernels", "code"),
    [
        ([(0, "started"), (1, "started")], S.RUNNING, [K.RUNNING, K.RUNNING], None),
        ([(0, "started"), (1, "well")], S.RUNNING, [K.RUNNING, K.EXITED], None),
        ([(0, "well"), (1, "well")], S.COMPLETED, [K.EXITED, K.EXITED], None),
        ([(0, "well"), (1, "badly")], S.FAILED, [K.EXITED, K.EXITED], "exit_code"),
        ([(0, "badly")], S.ALLOCATING, [K.EXITED, K.STOPPING], None),
        ([(0, "badly"), (1, "never")], S.FAILED, [K.EXITED, K.EXITED], "exit_code"),
        ([(0, "badly"), (1, "started"), (1, "killed")], S.FAILED, [K.EXITED, K.EXITED], "exit_code"),
        ([(0, "started"), (1, "refused")], S.ALLOCATING, [K.STOPPING, K.EXITED], None),
        ([(0, "started"), (1, "refused"), (0, "killed")], S.QUEUED, [K.EXITED, K.EXITED], None),
        ([(0, "uncertain"), (1, "started")], S.ALLOCATING, [K.UNKNOWN, K.RUNNING], None),
        ([(0, "uncertain"), (1, "started"), (0, "started")], S.RUNNING, [K.RUNNING, K.RUNNING], None),
        ([(0, "started"), (1, "started"), (0, "uncertain")], S.RUNNING, [K.UNKNOWN, K.RUNNING], None),
        ([(0, "uncertain"), (1, "badly"), (0, "started")], S.ALLOCATING, [K.STOPPING, K.EXITED], None),
    ],
    ids=str,
)
async def test_reports_determine_the_state_of_a_gang_of_two(
    words: list[tuple[int, str]], state: SessionState, kernels: list[KernelState], code: str | None
) -> None:
    async with stage([agent("a", devices=2)]) as on:
        on.executor.start_by_itself = False
        gang = await on.submit(kernels=2)
        await on.advance()
        for rank, word in words:
            await on.on_event(*about(on, gang, rank, word))
        session = on.session(gang)
        assert session.state is state
        assert [on.state.kernels[KernelId(f"{gang}.1.{rank}")].state for rank in range(2)] == kernels
        assert (session.failure and session.failure.code) == code


@pytest.mark.anyio
async def test_a_gang_whose_ranks_end_together_shows_the_exit_code_of_the_lowest_failed_rank() -> None:
    async with stage([agent("a", devices=2)]) as on:
        gang = await on.submit(kernels=2)
        await on.advance()
        await on.on_event(*about(on, gang, 1, "killed"), *about(on, gang, 0, "badly"))
        assert on.session(gang).exit_code == 3


@pytest.mark.anyio
@pytest.mark.parametrize("word", sorted(WORDS))
async def test_reports_by_other_agents_or_about_unsent_kernels_are_ignored(word: str) -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        first = await on.submit()
        with granting_only():
            await on.allocator.run_once()
        before = on.state.revision
        await on.on_event(*about(on, first, 0, word))
        await on.on_event(says(KernelId(f"{first}.1.0"), word, agent_id="b"))
        await on.on_event(says(KernelId(f"{first}.2.0"), word, agent_id="a"))
        await on.on_event(says(KernelId("ses_none.1.0"), word, agent_id="a"))
        assert on.state.revision == before
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()
        assert on.session(first).state is S.RUNNING


@pytest.mark.anyio
async def test_a_cancelled_kernel_that_turns_out_to_run_is_stopped_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        await on.advance()
        await on.cancel(first)
        await on.on_event(*about(on, first, 0, "uncertain"))
        await on.settle()
        stops = on.executor.agents[AgentId("a")].stopped
        assert stops == [f"{first}.1.0"]
        await on.on_event(*about(on, first, 0, "started"))
        await on.settle()
        assert stops == [f"{first}.1.0"] * 2
        assert on.held() == {"a-gpu-0": 1000}


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["queued", "allocating"])
async def test_a_gang_cancelled_before_it_runs_releases_its_devices(when: str) -> None:
    async with stage([agent("a", devices=2)]) as on:
        on.executor.start_by_itself = False
        gang = await on.submit(kernels=2)
        if when != "queued":
            await on.allocator.run_once()
        await on.cancel(gang)
        on.check()
        assert (on.held() == {}) == (when != "allocating")
        evidence = {on.state.leases[LeaseId(name)].evidence for name in on.state.kernels}
        assert evidence == {"queued": set(), "allocating": {None}}[when]
        await on.on_event(*about(on, gang, 0, "never"), *about(on, gang, 1, "never"))
        assert on.session(gang).state is S.CANCELED
        assert on.held() == {}


@pytest.mark.anyio
@pytest.mark.parametrize("unwanted", [True, False])
async def test_a_kernel_in_unknown_state_is_started_only_if_not_cancelled(unwanted: bool) -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.agents[AgentId("a")].loses_orders = True
        first = await on.submit()
        await on.advance()
        if unwanted:
            await on.cancel(first)
        await on.on_event(*about(on, first, 0, "uncertain"))
        assert on.state.kernels[KernelId(f"{first}.1.0")].state is K.UNKNOWN
        on.executor.agents[AgentId("a")].loses_orders = False
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()
        assert on.executor.agents[AgentId("a")].starts == ([] if unwanted else [f"{first}.1.0"])
        assert on.session(first).state is (S.CANCELED if unwanted else S.RUNNING)
        assert on.held() == {"a-gpu-0": 1000}
