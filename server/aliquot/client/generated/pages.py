"""Pages.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct

from aliquot.client.generated.agents import Agent
from aliquot.client.generated.alerts import Alert, Delivery
from aliquot.client.generated.audit import AuditChange, DeviceHolding, LedgerPass
from aliquot.client.generated.pagination import PageInfo
from aliquot.client.generated.queries_types import QueueEntry
from aliquot.client.generated.sessions import Session, SessionStep


class AgentEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: Agent
    """The item."""
    cursor: str
    """Opaque position in the list."""


class AgentConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, consistent at one revision."""

    edges: tuple[AgentEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""
    total_count: int
    """Number of matching items on all pages."""
    revision: int
    """Number of the last event included in this page."""


class AlertEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: Alert
    """The item."""
    cursor: str
    """Opaque position in the list."""


class AlertUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[AlertEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""


class AuditChangeEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: AuditChange
    """The item."""
    cursor: str
    """Opaque position in the list."""


class AuditChangeUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[AuditChangeEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""


class DeliveryEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: Delivery
    """The item."""
    cursor: str
    """Opaque position in the list."""


class DeliveryUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[DeliveryEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""


class DeviceHoldingEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: DeviceHolding
    """The item."""
    cursor: str
    """Opaque position in the list."""


class DeviceHoldingUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[DeviceHoldingEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""


class LedgerPassEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: LedgerPass
    """The item."""
    cursor: str
    """Opaque position in the list."""


class LedgerPassUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[LedgerPassEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""


class QueueEntryEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: QueueEntry
    """The item."""
    cursor: str
    """Opaque position in the list."""


class QueueEntryConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, consistent at one revision."""

    edges: tuple[QueueEntryEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""
    total_count: int
    """Number of matching items on all pages."""
    revision: int
    """Number of the last event included in this page."""


class SessionEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: Session
    """The item."""
    cursor: str
    """Opaque position in the list."""


class SessionConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, consistent at one revision."""

    edges: tuple[SessionEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""
    total_count: int
    """Number of matching items on all pages."""
    revision: int
    """Number of the last event included in this page."""


class SessionStepEdge(Struct, frozen=True, kw_only=True):
    """An item of a page with its cursor."""

    node: SessionStep
    """The item."""
    cursor: str
    """Opaque position in the list."""


class SessionStepUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a log, without a total count."""

    edges: tuple[SessionStepEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Position of this page in its list."""
