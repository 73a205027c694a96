"""First fit: agents in natural order of their ids, as many kernels on each as it can take."""

from aliquot.core.plan import KernelPlacement
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow
from aliquot_schema.ids import DeviceId, NodeId


def place(row: PendingRow, room: Room) -> tuple[KernelPlacement, ...]:
    """Place as many kernels as fit; a gang fills one agent before it goes on to the next, and so uses few."""
    kernels: list[KernelPlacement] = []
    tried: dict[NodeId, dict[DeviceId, int]] = {}
    for agent in room.open_agents(row):
        used = tried.get(agent.node_id, room.used_on(agent.node_id))
        while len(kernels) < row.cluster_size and (spec := room.try_kernel(row, agent, used)) is not None:
            rank = len(kernels)
            kernels.append(KernelPlacement(rank=rank, agent_id=agent.id, node_id=agent.node_id, spec=spec))
            used = room.with_spec(agent, used, spec)
        tried[agent.node_id] = used
        if len(kernels) == row.cluster_size:
            break
    return tuple(kernels)
