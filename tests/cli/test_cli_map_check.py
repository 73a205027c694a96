"""The checker itself finds every kind of difference, and none where all agrees."""

import pytest
from msgspec.structs import replace

from aliquot.cli.acceptance.checks import LiveKernel, differences
from aliquot.cli.acceptance.cluster_view import AgentNow, ClusterNow, HoldingKernel
from aliquot_schema.states import KernelState

RUNNING = HoldingKernel(id="ses_a.1.0", state=KernelState.RUNNING, shares={"gpu1": 600, "gpu2": 600})
GRANTED = HoldingKernel(id="ses_b.1.0", state=KernelState.GRANTED, shares={"gpu2": 200})
STOPPING = HoldingKernel(id="ses_c.1.0", state=KernelState.STOPPING, shares={"gpu3": 1000})
AGENT = AgentNow(
    id="node-a",
    node_id="n",
    alloc_map={"gpu1": 600, "gpu2": 800, "gpu3": 1000, "gpu4": 0},
    kernels=(RUNNING, GRANTED, STOPPING),
)
CLUSTER = ClusterNow(revision=9, agents=(AGENT,))


def process(kernel: HoldingKernel) -> LiveKernel:
    return LiveKernel(kernel_id=kernel.id, pid=1, visible=tuple(kernel.shares), shares=kernel.shares)


LIVE = {kernel.id: process(kernel) for kernel in (RUNNING, STOPPING)}


@pytest.mark.parametrize("live", [LIVE, {RUNNING.id: LIVE[RUNNING.id]}], ids=["stopping", "stopped"])
def test_no_differences_are_found_when_processes_match_the_cluster(live: dict[str, LiveKernel]) -> None:
    assert differences(CLUSTER, live) == []


def test_a_running_kernel_without_a_process_is_found() -> None:
    assert differences(CLUSTER, {}) == ["ses_a.1.0 is running but has no process"]


def test_a_process_that_holds_nothing_is_found() -> None:
    leaked = replace(LIVE[RUNNING.id], kernel_id="ses_x.1.0", pid=77)
    assert differences(CLUSTER, {**LIVE, "ses_x.1.0": leaked}) == ["ses_x.1.0 runs (pid 77) but holds nothing"]


def test_devices_freed_before_the_process_is_gone_are_found() -> None:
    freed = replace(AGENT, kernels=(RUNNING, GRANTED), alloc_map={**AGENT.alloc_map, "gpu3": 0})
    found = differences(replace(CLUSTER, agents=(freed,)), LIVE)
    assert found == ["ses_c.1.0 runs (pid 1) but holds nothing"]


def test_an_allocation_map_that_is_not_the_sum_of_shares_is_found() -> None:
    wrong = replace(AGENT, alloc_map={**AGENT.alloc_map, "gpu2": 600})
    found = differences(replace(CLUSTER, agents=(wrong,)), LIVE)
    assert found == ["node-a: the map says 0.60 of gpu2, the processes 0.80"]


def test_a_process_with_another_share_is_found_twice() -> None:
    other = replace(LIVE[RUNNING.id], shares={"gpu1": 600, "gpu2": 500})
    found = differences(CLUSTER, {**LIVE, RUNNING.id: other})
    assert len(found) == 2
    assert "was granted" in found[0]
    assert found[1] == "node-a: the map says 0.80 of gpu2, the processes 0.70"


def test_a_process_that_sees_more_than_it_was_granted_is_found() -> None:
    nosy = replace(LIVE[RUNNING.id], visible=("gpu1", "gpu2", "gpu4"))
    (found,) = differences(CLUSTER, {**LIVE, RUNNING.id: nosy})
    assert "sees ['gpu1', 'gpu2', 'gpu4']" in found


def test_agents_that_share_devices_must_show_each_others_allocations() -> None:
    other = replace(AGENT, id="node-b", alloc_map={"gpu1": 600, "gpu2": 800}, kernels=())
    assert differences(ClusterNow(revision=9, agents=(AGENT, other)), LIVE) == []
    mine = replace(other, alloc_map={"gpu1": 600, "gpu2": 0})
    (found,) = differences(ClusterNow(revision=9, agents=(AGENT, mine)), LIVE)
    assert found == "node-b: the map says 0.00 of gpu2, the processes 0.80"
    far = replace(other, node_id="m", alloc_map={"gpu1": 0, "gpu2": 0})
    assert differences(ClusterNow(revision=9, agents=(AGENT, far)), LIVE) == []
