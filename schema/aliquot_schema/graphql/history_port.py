"""What resolvers ask about history."""

from datetime import datetime
from typing import Protocol

from aliquot_schema.history_views import HistoryView, UsageBy, UsageHistoryView
from aliquot_schema.requests import Caller


class Historian(Protocol):
    """Numbers over time. Each raises InvalidRequest for a time that ends before it begins, or too many points, and
    Unavailable where what was measured cannot be read."""

    async def device_history(
        self,
        caller: Caller,
        agent_id: str,
        *,
        device_ids: tuple[str, ...] | None,
        since: datetime | None,
        until: datetime | None,
        points: int,
    ) -> HistoryView:
        """What an agent's accelerators measured. Raises NotFound: there never was such an agent."""

    async def queue_history(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, points: int
    ) -> HistoryView:
        """The queue, and the cluster's GPUs together."""

    async def session_history(self, caller: Caller, session_id: str, *, points: int) -> HistoryView:
        """What the devices of a session measured while it held them.

        Raises:
            NotFound: there is no such session; Forbidden: it is somebody else's.
        """

    async def usage_history(
        self, caller: Caller, *, by: UsageBy, since: datetime | None, until: datetime | None, step: float | None
    ) -> UsageHistoryView:
        """What was held in each step."""
