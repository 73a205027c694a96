"""Outputs of jobs at a server that does not always lead: agents tell them to the one that does."""

from collections.abc import AsyncIterator, Callable

from aliquot.service.ports import Executor
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LogChunk


class LeaderOutputs:
    """Answers `aliquot.service.watching.Outputs` as long as there is an executor behind it."""

    def __init__(self, *, leader: Callable[[], str | None]) -> None:
        """`leader`: where the server is that leads, as far as it is known."""
        self._leader = leader
        self.source: Executor | None = None

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`.

        Raises:
            Unavailable: another server leads; the message says where it is.
        """
        if self.source is None:
            leader = self._leader()
            where = f"at {leader}, which leads" if leader else "at the server that will lead in a moment"
            raise Unavailable(f"this server follows; outputs are read {where}")
        return self.source.follow_log(agent_id, kernel_id, offset=offset)
