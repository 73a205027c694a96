"""Passes in a few words, for tests of who is next and who may pass: what runs, what waits, under which policy."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aliquot.core.allocation.occupancy import added, occupancy_of
from aliquot.core.decide import decide
from aliquot.core.plan import KernelPlacement, Plan
from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.policies import Backfill
from core_cluster import NOW_US, snapshot

EASY: Final = Policy(backfill=Backfill.EASY)
SECOND_US: Final = 1_000_000


def runs(name: str, agent: AgentRow, spec: dict[str, dict[str, int]], *, ends_in_s: int) -> RunningRow:
    """A session of one kernel that runs on an agent, and is reckoned to end then."""
    typed: ResourceSpec = {
        SlotName(slot): {DeviceId(device): amount for device, amount in amounts.items()}
        for slot, amounts in spec.items()
    }
    kernel = KernelPlacement(rank=0, agent_id=agent.id, node_id=agent.node_id, spec=typed)
    return RunningRow.of(SessionId(name), (kernel,), ends_us=NOW_US + ends_in_s * SECOND_US, agents=(agent,))


def busy(
    agents: Sequence[AgentRow], running: Iterable[RunningRow], queue: Iterable[PendingRow], **more: Any
) -> Snapshot:
    """A snapshot in which everything that runs is counted as held."""
    running = tuple(running)
    devices = {agent.id: agent.layout.devices for agent in agents}
    used: dict[NodeId, dict[DeviceId, int]] = {}
    for row in running:
        for kernel in row.kernels:
            more_used = occupancy_of((kernel.spec,), devices[kernel.agent_id].values())
            used[kernel.node_id] = added(used.get(kernel.node_id, {}), more_used)
    return snapshot(agents, queue, running=running, **({"used": used} | more))


def passed(state: Snapshot, policy: Policy = EASY, *, now_us: int = NOW_US) -> Plan:
    """One pass."""
    return decide(state, policy, now_us=now_us, seed=0)
