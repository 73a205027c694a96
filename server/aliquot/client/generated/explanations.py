"""Explanations.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import RemedyKind, SessionState
from aliquot.client.generated.inputs import CreateSessionInput
from aliquot.client.generated.policy_inputs import UpdatePolicyInput
from aliquot.client.generated.previews import SessionPreview
from aliquot.client.generated.scalars import SlotAmount
from aliquot.client.generated.sessions import Verdict


class OtherSession(Struct, frozen=True, kw_only=True):
    """Another session, with the fields that every user may see."""

    session_id: str
    """The session."""
    owner: str
    """Its owner."""
    name: str | None
    """Its name."""
    state: SessionState
    """Its state."""
    gpus: float
    """GPUs that it holds, or requests while it waits."""
    until: datetime | None
    """Its expected end; for a waiting session, its latest start; null if unknown."""
    is_overdue: bool
    """Whether it has run longer than planned."""
    preemptible: bool
    """Whether it may be preempted."""


class SessionTerms(Struct, frozen=True, kw_only=True):
    """Changes of a session's request, as `update_session` takes them; null = unchanged."""

    slots: tuple[SlotAmount, ...] | None
    """New GPUs per kernel."""
    cluster_size: int | None
    """Number of kernels."""
    time_limit: float | None
    """Wall-time limit in seconds."""
    preemptible: bool | None
    """Whether it may be preempted."""
    priority: str | None
    """Priority."""
    project: str | None
    """Project to charge."""
    pool: str | None
    """Pool of agents to run in."""
    models: tuple[str, ...] | None
    """Allowed accelerator models; empty = any."""


class SessionDelay(Struct, frozen=True, kw_only=True):
    """A session that would start later."""

    session: OtherSession
    """The session."""
    before: datetime | None
    """Its latest start without the change; null if unknown."""
    after: datetime | None
    """With the change; null if unknown."""


class Remedy(Struct, frozen=True, kw_only=True):
    """
    A change with which the session starts, as tried in the scheduler on the present state, or, with `p50_earlier`, is
    forecast to start earlier.
    """

    kind: RemedyKind
    """What changes."""
    summary: str
    """What changes, as the end of a sentence."""
    starts_now: bool
    """Whether it would start with the next scheduling pass."""
    starts_at: datetime
    """Now, or when the sessions it waits for have ended. With `p50_earlier`, P50 of the start."""
    applies: bool
    """Whether the caller may apply it."""
    command: str | None
    """The command that applies it; null if nothing is to be done."""
    change: SessionTerms | None
    """For `update_session`; null for other kinds."""
    sessions: tuple[OtherSession, ...]
    """Sessions that have to end or to give way first."""
    delays: tuple[SessionDelay, ...]
    """Sessions that would start later because of it."""
    p50_earlier: float | None
    """Seconds by which P50 of its start is earlier; null if it starts at `starts_at`, as tried in the scheduler."""


class SessionExplanation(Struct, frozen=True, kw_only=True):
    """Why a session waits, which sessions are ahead of it, and with which changes it would start."""

    session_id: str
    """The session."""
    revision: int
    """Number of the last event included."""
    at: datetime
    """When it was computed."""
    waits: Verdict | None
    """The reason; null if it does not wait, or starts with the next scheduling pass."""
    position: int | None
    """Position in the queue, from 1."""
    ahead: tuple[OtherSession, ...]
    """Sessions ahead of it, the next one first; at most 10."""
    in_the_way: tuple[OtherSession, ...]
    """Sessions that hold what it needs, that it depends on, or that devices are reserved for."""
    expected_start: datetime | None
    """Latest start by a reservation; null if unknown."""
    remedies: tuple[Remedy, ...]
    """
    The cheapest change of each kind with which it starts, then changes with which it is forecast to start earlier. None
    if nothing helps.
    """
    is_forecasting: bool
    """Whether more changes are being forecast: ask again in a few seconds."""


class WhatIf(Struct, frozen=True, kw_only=True):
    """
    What changes would mean for waiting sessions. Later starts are those of the real policy if all sessions run for
    their planned durations. They compare the two states, and are no forecast.
    """

    revision: int
    """Number of the last event included."""
    at: datetime
    """When it was computed."""
    starts: tuple[OtherSession, ...]
    """Waiting sessions that would start now, and would not otherwise; at most 20."""
    displaced: tuple[OtherSession, ...]
    """Running sessions that would be preempted."""
    restarts: tuple[SessionDelay, ...]
    """The same sessions: `after` is when each would run again, null if unknown; `before` is null."""
    later: tuple[SessionDelay, ...]
    """The sessions with the largest delays, at most 20."""
    later_count: int
    """Number of sessions that would start later."""
    sooner: tuple[SessionDelay, ...]
    """The sessions that gain most, at most 20."""
    sooner_count: int
    """Number of sessions that would start sooner."""
    wait_before: float | None
    """Mean seconds until the start of the sessions that wait; null if unknown."""
    wait_after: float | None
    """The same with the changes."""
    note: str | None
    """Why later starts are unknown, or nothing starts; null = neither."""
    session: SessionPreview | None
    """Preview of the added session."""
    session_start: datetime | None
    """Start of the added session, if all sessions run for their planned durations; null if unknown."""


class WhatIfInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of the present state to ask about, alone or combined. Nothing is changed."""

    session: CreateSessionInput | None = None
    """One more session."""
    drain: str | None = None
    """An agent that takes nothing new."""
    evict: bool = False
    """Whether the sessions on that agent are preempted and queued again."""
    policy: UpdatePolicyInput | None = None
    """Changed fields of the policy, as for `update_policy`."""
    like: str | None = None
    """An agent; agents like it are added, each on a node of its own."""
    count: int = 1
    """How many agents are added, at most 64."""
