"""The invariants detect violations and accept valid states."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.invariants import violations
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, SessionId
from aliquot_schema.resources.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState
from allocation_devices import gpus, slice_of
from core_records import agent, kernel, lease_of, session

S = SessionState
K = KernelState
ALLOWED: dict[SessionState, list[KernelState]] = {
    S.SCHEDULED: [K.GRANTED],
    S.ALLOCATING: [K.STARTING, K.RUNNING, K.STOPPING, K.UNKNOWN],
    S.RUNNING: [K.RUNNING, K.STOPPING, K.UNKNOWN],
    S.PREEMPTING: [K.RUNNING, K.STOPPING, K.UNKNOWN],
    S.COMPLETED: [K.EXITED],
    S.FAILED: [K.EXITED],
    S.CANCELED: [K.STOPPING, K.UNKNOWN, K.EXITED],
    S.QUEUED: [K.EXITED],
    S.HELD: [K.EXITED],
}


def found(
    *records: Session | Kernel | Lease | Agent,
) -> list[str]:
    def of(kind: type) -> list[Any]:
        return [record for record in records if isinstance(record, kind)]

    return violations(of(Agent) or [agent()], sessions=of(Session), kernels=of(Kernel), leases=of(Lease))


@pytest.mark.parametrize("state", SessionState)
@pytest.mark.parametrize("rank", KernelState)
def test_mismatched_states_of_a_session_and_its_kernel_are_found(state: SessionState, rank: KernelState) -> None:
    only = kernel(rank)
    assert (found(session(state, attempt=1), only, lease_of(only)) == []) == (rank in ALLOWED[state])


def test_a_gang_with_ranks_in_different_states_violates_no_invariant() -> None:
    ranks = [kernel(K.EXITED, rank=0), kernel(K.RUNNING, rank=1, started_us=11), kernel(K.STOPPING, rank=2)]
    assert found(session(S.RUNNING, kernels=3), *ranks, *map(lease_of, ranks)) == []
    assert found(session(S.QUEUED), session(S.QUEUED, id=SessionId("ses_2"))) == []


RUNS = kernel(K.RUNNING)
GONE = kernel(K.EXITED)
OLD = kernel(K.RUNNING, attempt=1)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([session(S.RUNNING), RUNS], "without a lease"),
        ([session(S.RUNNING), RUNS, lease_of(GONE)], "its lease was released at 80"),
        ([session(S.COMPLETED), GONE, lease_of(RUNS)], "no live kernel has it"),
        ([session(S.QUEUED), lease_of(RUNS)], "no live kernel has it"),
        ([session(S.RUNNING), RUNS, replace(lease_of(RUNS), agent_id=AgentId("b")), agent(), agent("b")], "different"),
        ([session(S.RUNNING, kernels=2), RUNS, lease_of(RUNS)], "has ranks [0] in attempt 1"),
        ([session(S.QUEUED, attempt=2), OLD, lease_of(OLD)], "another attempt"),
        ([session(S.ALLOCATING), GONE, lease_of(GONE)], "none of its kernels is left"),
        ([session(S.COMPLETED), kernel(K.EXITED, exit_code=1), lease_of(GONE)], "exited with 0"),
        ([session(S.COMPLETED, ended_us=None), GONE, lease_of(GONE)], "its end is None"),
        ([session(S.FAILED, failure=None), GONE, lease_of(GONE)], "its failure is None"),
        ([session(S.RUNNING, started_us=7, scheduled_us=8), RUNS, lease_of(RUNS)], "out of order"),
        ([session(S.RUNNING), kernel(K.RUNNING, started_us=9), lease_of(RUNS)], "out of order"),
        ([session(S.COMPLETED), GONE, replace(lease_of(GONE), granted_us=81)], "before it was granted"),
        ([session(S.COMPLETED), GONE, replace(lease_of(GONE), evidence=None)], "on the evidence None"),
        ([session(S.RUNNING), RUNS, lease_of(RUNS, device="cuda9")], "no agent knows it"),
        ([session(S.RUNNING), replace(RUNS, rank=1), lease_of(RUNS)], "is rank 1 of attempt 1"),
    ],
)
def test_each_violated_invariant_is_found(records: list[Any], words: str) -> None:
    sentences = found(*records)
    assert any(words in sentence for sentence in sentences), sentences


def test_an_overbooked_device_is_found_across_agents_of_a_node_and_kinds_of_leases() -> None:
    agents = [agent("a"), agent("b"), agent("c", node="other")]
    held = lease_of(kernel(), session_id=SessionId("old"), id=LeaseId("l1"))
    share = replace(held, id=LeaseId("l2"), kind=LeaseKind.MANUAL, agent_id=AgentId("b"))
    away = replace(share, id=LeaseId("l3"), agent_id=AgentId("c"))
    assert found(*agents, held, away) == []
    assert found(*agents, held, share) == ["cuda0 on n is held to 2000 of 1000"]


def test_a_slice_held_together_with_its_parent_is_found() -> None:
    parent = gpus(1)[0]
    node = agent(devices=(parent, slice_of(parent, 1)))
    whole = lease_of(kernel(), session_id=SessionId("old"), id=LeaseId("l1"))
    part = replace(whole, id=LeaseId("l2"), spec={slot: {DeviceId("cuda0/1"): 1} for slot in whole.spec})
    assert found(node, part) == []
    assert found(node, whole, part) == ["cuda0/1 on n is held together with cuda0, which it is a slice of"]
