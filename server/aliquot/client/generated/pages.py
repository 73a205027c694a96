"""Pages.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct

from aliquot.client.generated.agents import Agent
from aliquot.client.generated.audit import AuditChange, LedgerPass
from aliquot.client.generated.connections import PageInfo
from aliquot.client.generated.notices import Alert, Delivery
from aliquot.client.generated.queue import QueueEntry
from aliquot.client.generated.session_steps import SessionStep
from aliquot.client.generated.sessions import Session


class AgentEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: Agent
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class AgentConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, read at one moment."""

    edges: tuple[AgentEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""
    total_count: int
    """How many items match, on all pages."""
    revision: int
    """The number of the last event that this page knows of."""


class AlertEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: Alert
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class AlertUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a record that may be long: how many items there are is not counted."""

    edges: tuple[AlertEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""


class AuditChangeEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: AuditChange
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class AuditChangeUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a record that may be long: how many items there are is not counted."""

    edges: tuple[AuditChangeEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""


class DeliveryEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: Delivery
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class DeliveryUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a record that may be long: how many items there are is not counted."""

    edges: tuple[DeliveryEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""


class LedgerPassEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: LedgerPass
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class LedgerPassUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a record that may be long: how many items there are is not counted."""

    edges: tuple[LedgerPassEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""


class QueueEntryEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: QueueEntry
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class QueueEntryConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, read at one moment."""

    edges: tuple[QueueEntryEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""
    total_count: int
    """How many items match, on all pages."""
    revision: int
    """The number of the last event that this page knows of."""


class SessionEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: Session
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class SessionConnection(Struct, frozen=True, kw_only=True):
    """One page of a list, read at one moment."""

    edges: tuple[SessionEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""
    total_count: int
    """How many items match, on all pages."""
    revision: int
    """The number of the last event that this page knows of."""


class SessionStepEdge(Struct, frozen=True, kw_only=True):
    """One item of a page, and its place."""

    node: SessionStep
    """The item."""
    cursor: str
    """Its place in the list; opaque."""


class SessionStepUncountedConnection(Struct, frozen=True, kw_only=True):
    """One page of a record that may be long: how many items there are is not counted."""

    edges: tuple[SessionStepEdge, ...]
    """The items of this page."""
    pageInfo: PageInfo
    """Where this page lies in its list."""
