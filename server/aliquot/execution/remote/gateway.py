"""Agent gateway: accepts agents while this server leads, and redirects them to the leader otherwise."""

from collections.abc import Callable

from aliquot.execution.remote.agent_keys import AgentKeys, key_refusal
from aliquot.execution.remote.codec import Channel, Wire
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.link import farewell
from aliquot_schema.cluster.agent_protocol import NOT_LEADER, Refusal


class RemoteGateway:
    """Accepts agents while this server leads."""

    def __init__(
        self, keys: AgentKeys, *, executor: Callable[[], RemoteExecutor | None], leader: Callable[[], str | None]
    ) -> None:
        """
        Args:
            executor: returns that of the present term; None while this server does not lead.
            leader: returns the address of the leading server; None = unknown.
        """
        self._keys = keys
        self._leader = leader
        self._executor = executor

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why this key is refused for this agent; None = it is valid."""
        return key_refusal(self._keys, agent_id=agent_id, key=key)

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        """Serve one connection until its end; refuse it if another server leads."""
        executor = self._executor()
        if executor is not None:
            await executor.meet(wire, agent_id=agent_id, key=key)
            return
        leader = self._leader() or ""
        message = f"{leader} is leading; connect there" if leader else "no server is leading yet; try again"
        await farewell(Channel(wire), Refusal(code=NOT_LEADER, message=message, leader=leader))
