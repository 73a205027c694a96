"""Where it is read."""

from collections.abc import AsyncIterator
from typing import Protocol

from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LogChunk


class Outputs(Protocol):
    """Where kernels' outputs are read: the part of `Executor` that is asked for here."""

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`."""
