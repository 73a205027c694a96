"""Previews.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.billing import Cost
from aliquot.client.generated.enums import PreemptionCause
from aliquot.client.generated.forecasts import Forecast
from aliquot.client.generated.history import RightSize
from aliquot.client.generated.scalars import SlotAmount, SlotGrant
from aliquot.client.generated.sessions import Failure, OrderEstimate, Verdict


class Displaced(Struct, frozen=True, kw_only=True):
    """A session that would be preempted."""

    session_id: str
    """The session."""
    owner: str
    """Its owner."""
    cause: PreemptionCause
    """Cause of the preemption."""
    has_run: float | None
    """Run time of its attempt in seconds; null = not started."""


class PlannedKernel(Struct, frozen=True, kw_only=True):
    """Agent and allocation that one kernel would get."""

    rank: int
    """Rank of the kernel, from 0."""
    agent_id: str
    """The agent."""
    node_id: str
    """Node of the agent."""
    resource_spec: tuple[SlotGrant, ...]
    """Its allocation by slot and device."""


class PreviewForecast(Struct, frozen=True, kw_only=True):
    """When a session would start and end if it were submitted alone."""

    forecast: Forecast
    """Its forecast; `missing` says why there is none."""


class SessionPreview(Struct, frozen=True, kw_only=True):
    """
    The decision a scheduling pass would take now on a session. Nothing is reserved: other sessions may be placed first.
    """

    revision: int
    """Number of the last event included."""
    slots: tuple[SlotAmount, ...]
    """Slots per kernel, with the CPUs and memory that the pool gives with each GPU."""
    starts_now: bool
    """Whether it would start now."""
    kernels: tuple[PlannedKernel, ...]
    """Placement now, or at `expected_start`; empty if unknown."""
    tasks_starting: int
    """Job arrays: number of tasks that would start now."""
    queue_position: int | None
    """From 1; null if it would not wait."""
    waits: Verdict | None
    """Why it would wait; null if it would not."""
    expected_start: datetime | None
    """Latest start; null if unknown."""
    failure: Failure | None
    """Why it would fail immediately."""
    displaces: tuple[Displaced, ...]
    """Sessions that would be preempted for it."""
    order_estimate: OrderEstimate | None
    """Expected run time."""
    estimated_start: datetime | None
    """
    Without `expected_start`: until when it would wait if all sessions keep to their limits and estimates. It is not a
    promise; null if unknown.
    """
    right_size: RightSize | None
    """What the caller's last runs of this command needed; null if fewer than 3 are known."""
    cost: Cost | None
    """What it would cost; null without prices or GPUs."""
