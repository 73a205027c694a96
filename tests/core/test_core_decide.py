"""Scenarios of one pass: placements, and the reasons for waiting."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.snapshot import AgentRow
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.states import SessionState
from allocation_devices import GB, cores, gpu, gpus, pool, slice_of
from core_cluster import NOW_US, after, decided, on, placed, places, row, snapshot, waits

S = SessionState
LATER_US = NOW_US + 5_000_000


def test_sessions_start_in_submission_order_independent_of_the_row_order() -> None:
    queue = [row("c", at=2), row("b", at=1), row("a", at=1)]
    assert placed(decided([on("x", gpus(3))], queue)) == ["a", "b", "c"]


def test_under_fcfs_the_head_of_the_queue_blocks_later_sessions_that_would_fit() -> None:
    queue = [row("a", at=1), row("wide", at=2, cuda_device="2"), row("small", at=3)]
    plan = decided([on("x", gpus(2))], queue)
    assert placed(plan) == ["a"]
    assert waits(plan, "wide").reason is Reason.INSUFFICIENT
    evidence = waits(plan, "wide").evidence
    assert (evidence.slot, evidence.requested, evidence.available) == ("cuda.device", "2", "1")
    assert waits(plan, "small").reason is Reason.BEHIND_HEAD
    assert waits(plan, "small").evidence.blocked_by == ("wide",)
    assert list(plan.verdicts) == ["wide", "small"]


def test_a_waiting_session_names_holders_of_this_pass_and_of_earlier_passes() -> None:
    state = snapshot([on("x", gpus(2))], [row("first")])
    held = after(state, decided(state.agents, state.queue))
    queue = [row("second", at=1), row("third", at=2)]
    plan = decided(held.agents, queue, used=held.used, holders=held.holders)
    assert placed(plan) == ["second"]
    assert waits(plan, "third").evidence.blocked_by == ("first", "second")


def test_a_gang_starts_whole_or_not_at_all() -> None:
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    whole = decided(agents, [row("gang", kernels=4)])
    assert [agent for agent, _ in places(whole)["gang"]] == ["x", "x", "y", "y"]
    assert [kernel.rank for kernel in whole.placements[0].kernels] == [0, 1, 2, 3]
    part = decided(agents, [row("first"), row("gang", at=1, kernels=4), row("last", at=2)])
    assert placed(part) == ["first"]
    assert waits(part, "gang").reason is Reason.GANG_INCOMPLETE
    assert waits(part, "gang").evidence.fits_kernels == 3
    assert waits(part, "gang").evidence.blocked_by == ("first",)


def test_a_share_that_fits_only_in_pieces_waits_as_fragmented() -> None:
    used = {NodeId("node-x"): {DeviceId("cuda0"): 500, DeviceId("cuda1"): 500}}
    plan = decided([on("x", gpus(2))], [row("a", cuda_shares="0.8")], used=used)
    assert waits(plan, "a").reason is Reason.FRAGMENTED


@pytest.mark.parametrize(
    ("asked", "agents"),
    [
        ({"cuda_device": "3"}, [on("x", gpus(2)), on("big", gpus(4), is_open=False)]),
        ({"tpu_device": "1"}, [on("x", gpus(2))]),
        ({"cuda_device": "1", "kernels": 3}, [on("x", gpus(2)), on("y", gpus(2), is_open=False)]),
        ({"cuda_device": "1", "excluded_agents": (AgentId("x"),)}, [on("x", gpus(2))]),
        ({"cuda_device": "1", "gpu_memory_bytes": 96 * GB}, [on("x", gpus(2))]),
        ({"cuda_device": "2"}, [on("x", [gpu(0), gpu(1, health=DeviceHealth.UNHEALTHY)])]),
    ],
    ids=["too-large", "no-slot", "gang-too-wide", "excluded", "memory", "broken-device"],
)
def test_a_session_that_no_open_agent_could_run_does_not_block_others(
    asked: dict[str, Any], agents: list[AgentRow]
) -> None:
    plan = decided(agents, [row("cannot", at=1, **asked), row("can", at=2, cuda_device="1")])
    assert placed(plan) == ["can"]
    assert waits(plan, "cannot").reason is Reason.NO_AGENT


def test_a_waiting_session_names_the_closed_agents_and_broken_devices_it_needs() -> None:
    lost = [on("x", gpus(1)), on("y10", gpus(4), is_open=False), on("y9", gpus(4), is_open=False)]
    assert waits(decided(lost, [row("a", cuda_device="4")]), "a").evidence.agents == ("y9", "y10")
    broken = [on("x", [gpu(0), gpu(1, health=DeviceHealth.UNHEALTHY)]), on("y", gpus(1))]
    evidence = waits(decided(broken, [row("a", cuda_device="2")]), "a").evidence
    assert (evidence.agents, evidence.devices) == (("x",), ("cuda1",))


@pytest.mark.parametrize(
    ("condition", "other", "outcome"),
    [
        ("after_ok", S.COMPLETED, "starts"),
        ("after_ok", S.RUNNING, "waits"),
        ("after_ok", S.FAILED, "fails"),
        ("after_ok", S.CANCELED, "fails"),
        ("after_any", S.QUEUED, "waits"),
        ("after_any", S.COMPLETED, "starts"),
        ("after_any", S.CANCELED, "starts"),
        ("after_fail", S.FAILED, "starts"),
        ("after_fail", S.CANCELED, "starts"),
        ("after_fail", S.PREEMPTING, "waits"),
        ("after_fail", S.COMPLETED, "fails"),
        ("after_any", None, "fails"),
    ],
)
def test_dependencies_let_a_session_start_wait_or_fail(
    condition: str, other: SessionState | None, outcome: str
) -> None:
    known = {} if other is None else {SessionId("other"): other}
    plan = decided([on("x")], [row("a", after=[("other", condition)])], dependencies=known)
    assert _outcome(plan, "a") == outcome
    if outcome == "waits":
        assert waits(plan, "a").reason is Reason.DEPENDENCY
        assert waits(plan, "a").evidence.blocked_by == ("other",)
    if outcome == "fails":
        assert plan.failures[SessionId("a")].code == "dependency"


def test_a_session_waits_for_all_dependencies_and_fails_if_one_is_broken() -> None:
    links = [("done", "after_ok"), ("runs", "after_ok"), ("waits", "after_any")]
    states = {SessionId("done"): S.COMPLETED, SessionId("runs"): S.RUNNING, SessionId("waits"): S.QUEUED}
    plan = decided([on("x")], [row("a", after=links)], dependencies=states)
    assert waits(plan, "a").evidence.blocked_by == ("runs", "waits")
    broken = decided([], [row("a", after=[*links, ("gone", "after_any")])], dependencies=states)
    assert _outcome(broken, "a") == "fails"


def test_a_held_session_with_a_dependency_waits_without_blocking_others() -> None:
    queue = [row("held", state=S.HELD, after=[("b", "after_ok")]), row("b", at=1)]
    plan = decided([on("x")], queue, dependencies={SessionId("b"): S.QUEUED})
    assert waits(plan, "held").reason is Reason.HELD
    assert placed(plan) == ["b"]


def test_a_start_time_is_kept_to_the_microsecond_and_wakes_the_next_pass() -> None:
    queue = [row("later", not_before_us=LATER_US), row("soon", not_before_us=NOW_US + 1), row("now", at=1)]
    plan = decided([on("x", gpus(3))], queue)
    assert placed(plan) == ["now"]
    assert (waits(plan, "soon").reason, waits(plan, "soon").evidence.until_us) == (Reason.NOT_BEFORE, NOW_US + 1)
    assert plan.wake_at_us == NOW_US + 1
    assert placed(decided([on("x", gpus(3))], queue, now_us=NOW_US + 1)) == ["soon", "now"]
    assert decided([on("x", gpus(3))], queue, now_us=LATER_US).wake_at_us is None


def test_a_session_skips_excluded_agents_and_uses_others() -> None:
    plan = decided([on("x"), on("y")], [row("a", excluded_agents=(AgentId("x"),))])
    assert places(plan)["a"][0][0] == "y"


@pytest.mark.parametrize("agents", [[], [on("x", is_open=False)]], ids=["none", "none-open"])
def test_without_an_open_agent_all_sessions_wait_for_the_cluster(agents: list[AgentRow]) -> None:
    plan = decided(agents, [row("a"), row("b", at=1, cuda_device="99")])
    assert {verdict.reason for verdict in plan.verdicts.values()} == {Reason.CLUSTER_UNAVAILABLE}
    assert list(plan.verdicts) == ["a", "b"]


def test_agents_of_one_node_never_grant_a_device_twice() -> None:
    agents = [on("x", gpus(2), node="n"), on("y", gpus(2), node="n")]
    plan = decided(agents, [row("gang", kernels=2), row("next", at=1)])
    assert [spec for _, spec in places(plan)["gang"]] == [{"cuda.device": {"cuda1": 1}}, {"cuda.device": {"cuda0": 1}}]
    assert waits(plan, "next").reason is Reason.INSUFFICIENT
    aside = decided(agents, [row("gang", kernels=3), row("next", at=1)])
    assert waits(aside, "gang").reason is Reason.NO_AGENT
    assert placed(aside) == ["next"]


def test_devices_held_through_one_agent_are_held_for_the_other_agents_of_the_node() -> None:
    first, second, third = gpus(3)
    agents = [on("x", [second, third], node="n"), on("y", [first, second], node="n")]
    given = places(decided(agents, [row("gang", kernels=3)]))["gang"]
    assert [agent for agent, _ in given] in (["x", "x", "y"], ["x", "y", "y"])
    assert sorted(device for _, spec in given for device in spec["cuda.device"]) == ["cuda0", "cuda1", "cuda2"]


def test_the_plan_does_not_depend_on_the_order_of_agents_that_share_a_node() -> None:
    agents = [on("x", [*gpus(2), *cores([0])], node="n"), on("y", [gpu(1), *cores([1])], node="n")]
    queue = [row("gang", kernels=2, cuda_device="1", cpu="1")]
    assert decided(agents, queue) == decided(agents[::-1], queue)


def test_one_request_gets_accelerators_cores_and_memory_on_one_agent() -> None:
    devices = [*gpus(2), *cores(range(4)), pool(0, size=4 * 2**30)]
    queue = [row("a", cuda_device="1", cpu="2", mem="3g"), row("b", at=1, cuda_device="1", cpu="2", mem="2g")]
    plan = decided([on("x", devices)], queue)
    ((agent, spec),) = places(plan)["a"]
    assert (agent, sum(spec["cpu"].values()), spec["mem"]) == ("x", 2, {"mem0": 3 * 2**30})
    evidence = waits(plan, "b").evidence
    assert (evidence.slot, evidence.requested, evidence.available) == ("mem", "2g", "1g")


def test_the_requested_gpu_memory_selects_the_device() -> None:
    devices = [gpu(0, memory_bytes=24 * GB), gpu(1, memory_bytes=80 * GB)]
    plan = decided([on("x", devices)], [row("a", gpu_memory_bytes=40 * GB), row("b", at=1, gpu_memory_bytes=40 * GB)])
    assert places(plan)["a"] == [("x", {"cuda.device": {"cuda1": 1}})]
    assert waits(plan, "b").evidence.blocked_by == ("a",)


def test_a_device_held_under_an_old_slot_name_is_not_free() -> None:
    renamed = [gpu(index, kind="gpu", costs={"gpu.device": 1000, "gpu.shares": 1}) for index in range(2)]
    used = {NodeId("node-x"): {DeviceId("cuda0"): 1000, DeviceId("cuda1"): 700}}
    plan = decided([on("x", renamed)], [row("a", gpu_shares="0.3"), row("b", at=1, gpu_shares="0.1")], used=used)
    assert places(plan)["a"] == [("x", {"gpu.shares": {"cuda1": 300}})]
    assert waits(plan, "b").reason is Reason.INSUFFICIENT


def test_a_slice_and_its_parent_exclude_each_other() -> None:
    parent = gpu(0)
    devices = [parent, slice_of(parent, 1), slice_of(parent, 2)]
    plan = decided([on("x", devices)], [row("a"), row("b", at=1)])
    assert places(plan) == {"a": [("x", {"cuda.device": {"cuda0": 1}})]}
    assert waits(plan, "b").reason is Reason.INSUFFICIENT


def test_a_drained_agent_gets_no_new_kernels() -> None:
    agents = [replace(on("x"), is_open=False), on("y")]
    plan = decided(agents, [row("a", kernels=2)])
    assert {agent for agent, _ in places(plan)["a"]} == {"y"}


def _outcome(plan: Plan, name: str) -> str:
    session_id = SessionId(name)
    if session_id in plan.failures:
        return "fails"
    return "waits" if session_id in plan.verdicts else "starts"
