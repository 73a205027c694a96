"""Where the ranks of an attempt meet: a port of rank 0's node that nobody else of ours has while one of them lives."""

from zlib import crc32

from aliquot.service.draft import Draft
from aliquot_schema.ids import NodeId
from aliquot_schema.leases import Kernel

LOOPBACK = "127.0.0.1"


class RendezvousPorts:
    """Ports of one change. What it gives is durable once the kernels are that they are given to."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._taken: dict[NodeId, set[int]] = {}
        """Those that the draft itself gives are among them; those that it ends still are."""

    def give(self, leader: Kernel) -> int | None:
        """A port for rank 0 of an attempt; None when the node has none left.

        Where it looks first differs from attempt to attempt: what a stranger has taken is not asked for again.
        """
        agent = self._draft.agent(leader.agent_id)
        assert agent is not None, f"{leader.agent_id} is not known"
        first, last = agent.capabilities.port_first, agent.capabilities.port_last
        count = last - first + 1
        taken = self._taken_on(agent.node_id)
        start = crc32(leader.id.encode()) % count
        free = (first + (start + step) % count for step in range(count))
        port = next((port for port in free if port not in taken), None)
        if port is not None:
            taken.add(port)
        return port

    def _taken_on(self, node_id: NodeId) -> set[int]:
        if node_id not in self._taken:
            self._taken[node_id] = self._draft.meeting_ports_on(node_id)
        return self._taken[node_id]


def rendezvous_environment(draft: Draft, gang: list[Kernel]) -> dict[str, str]:
    """MASTER_ADDR and MASTER_PORT for every rank of an attempt, by rank; nothing where it has no port."""
    leader = gang[0]
    if leader.rank != 0 or leader.rendezvous_port is None:
        return {}
    agent = draft.agent(leader.agent_id)
    assert agent is not None, f"{leader.agent_id} is not known"
    together = all(member.agent_id == leader.agent_id for member in gang)
    address = LOOPBACK if together else agent.capabilities.address or agent.hostname
    return {"MASTER_ADDR": address, "MASTER_PORT": str(leader.rendezvous_port)}
