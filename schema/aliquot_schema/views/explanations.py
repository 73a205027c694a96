"""Read models of explanations: why a session waits, which changes would let it start, and what changes would mean."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.reasons import RemedyKind
from aliquot_schema.states import SessionState
from aliquot_schema.views.preview import SessionPreview
from aliquot_schema.views.sessions import SlotAmountView, VerdictView


class OtherSessionView(Struct, frozen=True, kw_only=True):
    """Another session, as far as everybody may see it."""

    session_id: str
    owner: str
    name: str | None
    state: SessionState
    gpus: float
    """Held by a session with devices, requested by one that waits; shares count as fractions."""
    until: datetime | None
    """Its expected end, or of one that waits its latest start; None = unknown."""
    is_overdue: bool
    """Whether it has outlived its planned run time, so that `until` is a guess."""
    preemptible: bool


class DelayView(Struct, frozen=True, kw_only=True):
    """A session that would start later. None = unknown."""

    session: OtherSessionView
    before: datetime | None
    after: datetime | None


class SessionTermsView(Struct, frozen=True, kw_only=True):
    """Changes of a session's request; None = unchanged."""

    slots: tuple[SlotAmountView, ...] | None = None
    cluster_size: int | None = None
    time_limit: float | None = None
    preemptible: bool | None = None
    priority: str | None = None
    project: str | None = None
    pool: str | None = None
    models: tuple[str, ...] | None = None


class RemedyView(Struct, frozen=True, kw_only=True):
    """A change with which the session starts, proved by a scheduling pass."""

    kind: RemedyKind
    summary: str
    """What changes, as the end of a sentence: `with 1 GPU instead of 2`."""
    starts_now: bool
    starts_at: datetime
    """The time of the explanation, or when what it waits for has ended; P50 of the start, with `p50_earlier`."""
    applies: bool
    """Whether this caller can apply it, with `command`, or with `change`."""
    command: str | None
    """The command that applies it, for those who may; None = nothing is to be done."""
    change: SessionTermsView | None
    """For `update_session`; None for other kinds."""
    sessions: tuple[OtherSessionView, ...]
    """Sessions that have to end or to give way first."""
    delays: tuple[DelayView, ...]
    """Sessions that would start later than without the change."""
    p50_earlier: float | None = None
    """Seconds by which P50 of its start is earlier; None = it starts at `starts_at`, as tried in the scheduler."""


class ExplanationView(Struct, frozen=True, kw_only=True):
    """Why a session waits, and what would help."""

    session_id: str
    revision: int
    """Number of the last event included."""
    at: datetime
    """When it was computed."""
    waits: VerdictView | None
    """None = it does not wait, or starts with the next pass."""
    position: int | None
    """From 1."""
    ahead: tuple[OtherSessionView, ...]
    """The sessions in front of it, the next one first; at most `AHEAD_MAX`."""
    in_the_way: tuple[OtherSessionView, ...]
    """Sessions that hold what it needs, that it depends on, or that devices are reserved for."""
    expected_start: datetime | None
    """Latest start by a reservation; None = unknown."""
    remedies: tuple[RemedyView, ...]
    """The cheapest of each kind; kinds in the order of what they cost the owner. Those that were forecast come last."""
    is_forecasting: bool = False
    """Whether more changes are being forecast: ask again in a few seconds."""


class WhatIfView(Struct, frozen=True, kw_only=True):
    """What changes would mean for all sessions that wait."""

    revision: int
    at: datetime
    starts: tuple[OtherSessionView, ...]
    """Waiting sessions that would start now, and would not otherwise."""
    displaced: tuple[OtherSessionView, ...]
    """Running sessions that would be preempted."""
    restarts: tuple[DelayView, ...]
    """When each of these would run again."""
    later: tuple[DelayView, ...]
    """The sessions with the largest delays, at most `SHOWN_MAX`."""
    later_count: int
    sooner: tuple[DelayView, ...]
    sooner_count: int
    wait_before: float | None
    """Mean seconds until waiting sessions start, if all run for their planned durations; None = unknown."""
    wait_after: float | None
    note: str | None
    """Why later starts are unknown, or nothing starts; None = neither."""
    session: SessionPreview | None
    """Of the one more session."""
    session_start: datetime | None
    """Its start, if all sessions run for their planned durations."""
