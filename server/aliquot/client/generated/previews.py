"""Previews.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.amounts import SlotGrant
from aliquot.client.generated.enums import PreemptionCause
from aliquot.client.generated.sessions import Failure, OrderEstimate, Verdict


class Displaced(Struct, frozen=True, kw_only=True):
    """A session that would be asked to make room."""

    session_id: str
    """Which one."""
    owner: str
    """Whose it is."""
    cause: PreemptionCause
    """By what right."""
    has_run: float | None
    """Seconds that its attempt has run."""


class PlannedKernel(Struct, frozen=True, kw_only=True):
    """Where one kernel would go, and exactly what it would get there."""

    rank: int
    """From 0."""
    agent_id: str
    """The agent."""
    node_id: str
    """Its node."""
    resource_spec: tuple[SlotGrant, ...]
    """Slot by slot, device by device."""


class SessionPreview(Struct, frozen=True, kw_only=True):
    """
    What a scheduling pass at this moment would do with a session. Nothing is kept of it: another one may be faster.
    """

    revision: int
    """The event that the cluster and the queue are looked at after."""
    starts_now: bool
    """Whether it would start at once."""
    kernels: tuple[PlannedKernel, ...]
    """Where it would start now, or at `expected_start`; empty when that is not known."""
    tasks_starting: int
    """Of a job array: how many tasks would start at once."""
    queue_position: int | None
    """From 1; null when it would not wait."""
    waits: Verdict | None
    """Why it would wait; null when it would not."""
    expected_start: datetime | None
    """When it would start at the latest, where known."""
    failure: Failure | None
    """Why it would fail at once."""
    displaces: tuple[Displaced, ...]
    """Who would be asked to make room for it."""
    order_estimate: OrderEstimate | None
    """How long it would be expected to run."""
