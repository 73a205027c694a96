"""What the resolvers of administration ask of the server."""

from collections.abc import Sequence
from typing import Protocol

from aliquot_schema.admin_views import (
    AgentChanged,
    NewQuota,
    PolicyChanged,
    PolicyChanges,
    PolicyView,
    QuotaChanged,
    QuotaView,
    UsageView,
)
from aliquot_schema.doctor_views import DatabaseCopy, ExaminationView, RescanView
from aliquot_schema.graphql.audit_port import Auditor
from aliquot_schema.graphql.notices_port import Notifier
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller


class Administrator(Auditor, Notifier, Protocol):
    """Acts of operators: each raises Forbidden for anybody else, and returns after the commit."""

    def policy(self, caller: Caller) -> PolicyView: ...

    def quotas(self, caller: Caller) -> tuple[QuotaView, ...]: ...

    def usage(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[UsageView, ...]: ...

    async def update_policy(
        self, caller: Caller, changes: PolicyChanges, expected_version: int | None
    ) -> PolicyChanged: ...

    async def stop_orchestrator(self, caller: Caller, note: str | None) -> int: ...

    async def start_orchestrator(self, caller: Caller, note: str | None) -> int: ...

    async def set_quota(self, caller: Caller, asked: NewQuota, expected_version: int | None) -> QuotaChanged: ...

    async def remove_quota(
        self, caller: Caller, scope: QuotaScope, name: str, expected_version: int | None
    ) -> QuotaChanged: ...

    async def drain_agent(self, caller: Caller, agent_id: str, *, note: str | None, evicts: bool) -> AgentChanged: ...

    async def resume_agent(self, caller: Caller, agent_id: str) -> AgentChanged: ...

    async def set_agent_schedulable(
        self, caller: Caller, agent_id: str, *, schedulable: bool, note: str | None
    ) -> AgentChanged: ...

    async def label_agent(self, caller: Caller, agent_id: str, labels: Sequence[tuple[str, str]]) -> AgentChanged: ...

    async def assign_agent_pool(self, caller: Caller, agent_id: str, pool: str) -> AgentChanged: ...

    async def copy_database(self, caller: Caller) -> DatabaseCopy: ...

    async def examine(self, caller: Caller) -> ExaminationView: ...

    async def rescan(self, caller: Caller, agent_id: str) -> RescanView:
        """Have an agent read its kernels' resource specs again. Raises NotFound, Unavailable."""

    async def release_lost_agent(self, caller: Caller, agent_id: str) -> AgentChanged: ...
