"""Builders of passes for tests of order and backfill: running and waiting sessions, and the policy."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aliquot.core.allocation.occupancy import added, occupancy_of
from aliquot.core.model.plan import KernelPlacement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.policies import Backfill
from aliquot_schema.resources.devices import ResourceSpec
from core_cluster import NOW_US, snapshot

EASY: Final = Policy(backfill=Backfill.EASY)
SECOND_US: Final = 1_000_000


def runs(name: str, agent: AgentRow, spec: dict[str, dict[str, int]], *, ends_in_s: int) -> RunningRow:
    """A session of one kernel that runs on an agent, with its expected end."""
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
