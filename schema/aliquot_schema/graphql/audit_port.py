"""What resolvers ask about the record of what happened."""

from datetime import datetime
from typing import Protocol

from aliquot_schema.audit_views import AuditFilter, ChangeView, HoldingView, LedgerPassView, Reel
from aliquot_schema.requests import Caller, PageRequest


class Auditor(Protocol):
    """For operators: each raises Forbidden for anybody else."""

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> Reel[ChangeView]:
        """Changes, the newest first."""

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Who held a device at a moment, in the order of the grants."""

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> Reel[LedgerPassView]:
        """Passes that decided something new, the newest first."""
