"""Spot nodes and nodes with a known departure: eligible sessions, reservations, and reasons."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import KernelPlacement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.feasibility import impossible
from aliquot.core.scheduler.reason_text import explain
from aliquot.core.scheduler.temporary_agents import may_start
from aliquot_schema.errors import ImpossibleRequest
from aliquot_schema.ids import AgentId, DeviceId, SessionId, SlotName
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import SessionSpec
from core_cluster import NOW_US, decided, on, places, row, snapshot
from core_plan_probe import encoded
from core_states import states

MINUTE_US = 60_000_000


def spot(name: str = "spot", **more: Any) -> AgentRow:
    return replace(on(name), is_spot=True, **more)


def leaving(name: str = "leaves", *, minutes: int) -> AgentRow:
    return replace(on(name), until_us=NOW_US + minutes * MINUTE_US)


def placed_on(plan: Plan) -> dict[str, str]:
    return {name: kernels[0][0] for name, kernels in places(plan).items()}


def test_a_spot_node_takes_only_preemptible_sessions() -> None:
    queue = [row("stays", at=0, limit_ms=1), row("gives", at=1, is_preemptible=True)]
    plan = decided([spot()], queue)
    assert placed_on(plan) == {"gives": "spot"}
    verdict = plan.verdicts[queue[0].session_id]
    assert (verdict.reason, verdict.evidence.agents) == (Reason.NO_AGENT, ("spot",))
    assert explain(verdict) == (
        "Only spot can run it, on spot nodes, which may be taken away at any time: these take only preemptible "
        "sessions."
    )


@pytest.mark.parametrize(("limit", "starts"), [(None, False), (59, True), (60, True), (61, False)])
def test_a_leaving_node_takes_only_sessions_whose_time_limit_ends_before(limit: int | None, starts: bool) -> None:
    limit_ms = None if limit is None else limit * 60_000
    plan = decided([leaving(minutes=60)], [row("a", limit_ms=limit_ms)])
    assert bool(plan.placements) is starts
    if not starts:
        (verdict,) = plan.verdicts.values()
        assert "it is there until 1970-01-01 01:16 UTC: it takes only preemptible" in explain(verdict)


def test_nothing_starts_on_a_node_whose_time_is_over() -> None:
    queue = [row("a", is_preemptible=True), row("b", limit_ms=1)]
    assert not decided([leaving(minutes=0)], queue).placements
    assert decided([leaving(minutes=1)], queue).placements


def test_sessions_not_allowed_on_a_spot_node_start_on_other_agents() -> None:
    queue = [row("a"), row("b")]
    assert placed_on(decided([spot(), on("plain")], queue)) == {"a": "plain", "b": "plain"}


def test_a_leaving_node_is_not_reserved_if_the_time_limit_would_not_fit() -> None:
    agents = [leaving(minutes=90), on("plain")]
    kernels = {
        agent.id: decided([replace(agent, until_us=None)], [row(f"on-{agent.id}", cuda_device="2")]).placements[0]
        for agent in agents
    }
    running = tuple(
        RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + ends * MINUTE_US, agents=agents)
        for one, ends in zip(kernels.values(), (40, 80), strict=True)
    )
    used = {
        kernel.node_id: dict.fromkeys(kernel.spec["cuda.device"], 1000)
        for one in kernels.values()
        for kernel in one.kernels
    }
    for backfill in (Backfill.EASY, Backfill.CONSERVATIVE):
        for limit, agent in ((60, "plain"), (45, "leaves")):
            head = row("head", cuda_device="2", limit_ms=limit * 60_000)
            state = snapshot(agents, [head], used=used, running=running)
            plan = decide(state, Policy(backfill=backfill), now_us=NOW_US, seed=0)
            assert plan.reservation is not None
            assert [kernel.agent_id for kernel in plan.reservation.kernels] == [agent]


def test_a_request_that_only_temporary_nodes_could_run_is_refused_with_the_reason() -> None:
    spec = SessionSpec(argv=("x",), slots=ResourceSlot({"cuda.device": 2}))
    options = Policy().allocation
    refusal = impossible(spec, [leaving(minutes=60), spot()], options)
    assert isinstance(refusal, ImpossibleRequest)
    assert refusal.slot == "preemptible"
    assert "only leaves, spot can run this" in refusal.message
    assert impossible(replace(spec, preemptible=True), [spot()], options) is None
    assert impossible(replace(spec, time_limit_ms=1), [leaving(minutes=60)], options) is None
    assert impossible(replace(spec, time_limit_ms=1), [spot()], options) is not None
    assert impossible(spec, [spot(), on("plain")], options) is None
    wide = replace(spec, slots=ResourceSlot({"cuda.device": 3}), preemptible=True)
    too_wide = impossible(wide, [spot()], options)
    assert isinstance(too_wide, ImpossibleRequest)
    assert too_wide.slot == "cuda.device"


@settings(deadline=None, max_examples=80)
@given(state=states(), data=st.data())
def test_every_placement_ends_before_its_node_leaves_or_is_preemptible(state: Snapshot, data: st.DataObject) -> None:
    times = st.sampled_from([None, None, -1, 20_000, 60_000, 100_000])
    agents = tuple(
        replace(
            agent,
            is_spot=data.draw(st.booleans()),
            until_us=None if (in_ms := data.draw(times)) is None else NOW_US + in_ms * 1000,
        )
        for agent in state.agents
    )
    state = replace(state, agents=agents)
    cache = PassCache()
    plan = decide(state, Policy(), now_us=NOW_US, seed=0, known=cache)
    assert encoded(decide(state, Policy(), now_us=NOW_US, seed=0, known=cache)) == encoded(plan)
    by_id = {agent.id: agent for agent in agents}
    rows = {pending.session_id: pending for pending in state.queue}
    for placement in plan.placements:
        for kernel in placement.kernels:
            assert may_start(rows[placement.session_id], by_id[kernel.agent_id], at_us=NOW_US)
    again = decide(state, Policy(), now_us=NOW_US + 30 * 1_000_000, seed=0, known=cache)
    for placement in again.placements:
        for kernel in placement.kernels:
            agent = by_id[kernel.agent_id]
            assert may_start(rows[placement.session_id], agent, at_us=NOW_US + 30 * 1_000_000)


def test_without_backfill_the_next_pass_is_when_the_first_session_can_no_longer_start_on_a_node_that_leaves() -> None:
    """It holds back the others until then, and is not eligible any more afterwards."""
    agents = [leaving(minutes=60), on("stays")]
    first = row("first", at=0, kernels=2, limit_ms=20 * 60_000, cuda_device="2")
    state = snapshot(agents, [first, row("next", at=1)], used={agents[1].node_id: {DeviceId("cuda0"): 1000}})
    policy = Policy(order="fcfs", backfill=Backfill.NONE)
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    assert (placed_on(plan), plan.wake_at_us) == ({}, NOW_US + 40 * MINUTE_US + 1)
    assert plan.wake_at_us is not None
    late = decide(state, policy, now_us=plan.wake_at_us, seed=0)
    assert (list(placed_on(late)), late.wake_at_us) == (["next"], None)


def holding(agents: Sequence[AgentRow], ends: Mapping[tuple[str, str], int], queue: Sequence[PendingRow]) -> Snapshot:
    """A state in which each of these devices is held by a session; the values are planned ends, minutes from now."""
    nodes = {str(agent.id): agent.node_id for agent in agents}
    running, used = [], {agent.node_id: dict[DeviceId, int]() for agent in agents}
    for (name, device), minutes in ends.items():
        spec = {SlotName("cuda.device"): {DeviceId(device): 1}}
        kernel = KernelPlacement(rank=0, agent_id=AgentId(name), node_id=nodes[name], spec=spec)
        ends_us = NOW_US + minutes * MINUTE_US
        running.append(RunningRow.of(SessionId(f"{name}-{device}"), [kernel], ends_us=ends_us, agents=agents))
        used[nodes[name]][DeviceId(device)] = 1000
    return snapshot(agents, queue, used=used, running=tuple(running))


def reserved(plan: Plan) -> dict[str, tuple[str, int | None]]:
    """Agent and minutes from now of each reservation."""
    return {
        one.session_id: (one.kernels[0].agent_id, None if one.at_us is None else (one.at_us - NOW_US) // MINUTE_US)
        for one in plan.promises or (plan.reservation,)
        if one is not None
    }


def test_the_head_is_reserved_a_leaving_node_even_if_its_time_limit_would_not_fit_there_at_later_ends() -> None:
    agents = [leaving("leaves", minutes=100), on("a"), on("b"), on("c")]
    ends = {("leaves", "cuda0"): 30, ("leaves", "cuda1"): 30, ("a", "cuda0"): 10, ("b", "cuda0"): 10}
    ends |= {("c", "cuda0"): 50, ("a", "cuda1"): 300, ("b", "cuda1"): 400, ("c", "cuda1"): 500}
    state = holding(agents, ends, [row("head", cuda_device="2", limit_ms=60 * 60_000)])
    plan = decide(state, Policy(backfill=Backfill.EASY), now_us=NOW_US, seed=0)
    assert reserved(plan) == {"head": ("leaves", 30)}


def test_a_leaving_node_is_reserved_for_a_preemptible_session_behind_one_whose_time_limit_does_not_fit() -> None:
    agents = [leaving("leaves", minutes=100), on("stays")]
    ends = {("leaves", "cuda0"): 50, ("leaves", "cuda1"): 50, ("stays", "cuda0"): 300, ("stays", "cuda1"): 300}
    limited = row("limited", at=0, cuda_device="2", limit_ms=60 * 60_000)
    preemptible = row("preemptible", at=1, cuda_device="2", is_preemptible=True)
    state = holding(agents, ends, [limited, preemptible])
    plan = decide(state, Policy(backfill=Backfill.CONSERVATIVE), now_us=NOW_US, seed=0)
    assert reserved(plan) == {"limited": ("stays", 300), "preemptible": ("leaves", 50)}


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_with_backfill_a_reservation_that_has_become_too_late_for_a_leaving_node_holds_back_no_session(
    backfill: Backfill,
) -> None:
    """The session on `stays` runs longer than planned, so no event triggers a pass."""
    agents = [leaving(minutes=60), on("stays")]
    first = row("first", at=0, kernels=2, limit_ms=20 * 60_000, cuda_device="2")
    state = holding(agents, {("stays", "cuda0"): 30}, [first, row("next", at=1)])
    plan = decide(state, Policy(backfill=backfill), now_us=NOW_US, seed=0)
    assert (placed_on(plan), plan.wake_at_us) == ({}, NOW_US + 40 * MINUTE_US + 1)
    assert reserved(plan)["first"] == ("leaves", 30)
    late = decide(state, Policy(backfill=backfill), now_us=NOW_US + 40 * MINUTE_US + 1, seed=0)
    assert placed_on(late) == {"next": "stays"}
