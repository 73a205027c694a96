"""Where the ranks of an attempt meet: a port of rank 0's node that nobody else of ours has while one of them lives."""

from collections import defaultdict
from functools import cached_property
from zlib import crc32

from aliquot.service.draft import Draft
from aliquot_schema.ids import KernelId, NodeId, kernel_id
from aliquot_schema.leases import Kernel

LOOPBACK = "127.0.0.1"


class RendezvousPorts:
    """Ports of one change. What it gives is durable once the kernels are that they are given to."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def give(self, leader: Kernel) -> int | None:
        """A port for rank 0 of an attempt; None when the node has none left.

        Where it looks first differs from attempt to attempt: what a stranger has taken is not asked for again.
        """
        agent = self._draft.agent(leader.agent_id)
        assert agent is not None, f"{leader.agent_id} is not known"
        first, last = agent.capabilities.port_first, agent.capabilities.port_last
        count = last - first + 1
        taken = self._taken[agent.node_id]
        start = crc32(leader.id.encode()) % count
        free = (first + (start + step) % count for step in range(count))
        port = next((port for port in free if port not in taken), None)
        if port is not None:
            taken.add(port)
        return port

    @cached_property
    def _taken(self) -> defaultdict[NodeId, set[int]]:
        """Ports by node, of attempts of which some rank is left: rank 0 itself may have exited before the others."""
        taken: defaultdict[NodeId, set[int]] = defaultdict(set)
        leaders = {_leader(kernel) for kernel in self._draft.live_kernels()}
        for leader_id in leaders:
            leader = self._draft.kernel(leader_id)
            agent = None if leader is None else self._draft.agent(leader.agent_id)
            if leader is not None and agent is not None and leader.rendezvous_port is not None:
                taken[agent.node_id].add(leader.rendezvous_port)
        return taken


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


def _leader(kernel: Kernel) -> KernelId:
    return kernel_id(kernel.session_id, attempt=kernel.attempt, rank=0)
