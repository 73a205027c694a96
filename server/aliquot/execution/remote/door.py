"""The door of a server that does not always lead: agents are let in, or sent on to the one that does."""

from collections.abc import Callable

from aliquot.execution.remote.channel import Channel, Wire
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.keys import AgentKeys, key_refusal
from aliquot.execution.remote.link import farewell
from aliquot_schema.agent_protocol import NOT_LEADER, Refusal


class LeaderDoor:
    """Open as long as there is an executor behind it."""

    def __init__(self, keys: AgentKeys, *, leader: Callable[[], str | None]) -> None:
        """
        Args:
            leader: where the server is that leads, as far as it is known.
        """
        self._keys = keys
        self._leader = leader
        self.executor: RemoteExecutor | None = None

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why nobody may dial in so, in words; None when he may."""
        return key_refusal(self._keys, agent_id=agent_id, key=key)

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        """Serve one connection until its end; at once when another server leads."""
        if self.executor is not None:
            await self.executor.meet(wire, agent_id=agent_id, key=key)
            return
        leader = self._leader() or ""
        words = f"{leader} leads; ask there" if leader else "this server does not lead, and nobody does yet; ask again"
        await farewell(Channel(wire), Refusal(code=NOT_LEADER, message=words, leader=leader))
