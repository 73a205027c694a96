"""The ports where the ranks of attempts meet, as kernels come and go."""

from collections.abc import Collection

from aliquot_schema.ids import AgentId, KernelId, kernel_id
from aliquot_schema.leases import Kernel
from aliquot_schema.states import KernelState


class MeetingPorts:
    """A port is taken as long as any rank of its attempt lives: rank 0 itself may have exited before the others."""

    def __init__(self) -> None:
        self._ranks: dict[KernelId, set[KernelId]] = {}
        """Kernels that have not exited, by rank 0 of their attempt."""
        self._on: dict[AgentId, dict[KernelId, int]] = {}

    def put(self, kernel: Kernel, *, leader: Kernel | None) -> None:
        """A kernel is new or has changed; `leader` is rank 0 of its attempt, itself maybe."""
        leader_id = leader_of(kernel)
        ranks = self._ranks.setdefault(leader_id, set())
        if kernel.state is KernelState.EXITED:
            ranks.discard(kernel.id)
        else:
            ranks.add(kernel.id)
        if not ranks:
            del self._ranks[leader_id]
        if leader is None or leader.rendezvous_port is None:
            return
        if ranks:
            self._on.setdefault(leader.agent_id, {})[leader_id] = leader.rendezvous_port
        else:
            self._on.get(leader.agent_id, {}).pop(leader_id, None)

    def taken_on(self, agent_id: AgentId) -> Collection[int]:
        """Those whose rank 0 is an agent's."""
        return self._on.get(agent_id, {}).values()


def leader_of(kernel: Kernel) -> KernelId:
    """Rank 0 of a kernel's attempt."""
    return kernel_id(kernel.session_id, attempt=kernel.attempt, rank=0)
