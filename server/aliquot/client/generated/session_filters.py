"""Session filters.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import SessionState


class TimeRange(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A time from one moment to another, both included."""

    since: datetime | None = None
    """Not before this."""
    until: datetime | None = None
    """Not after this."""


class SessionFilter(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which sessions; what is not given does not filter."""

    ids: Sequence[str] | None = None
    """One of these."""
    states: Sequence[SessionState] | None = None
    """In one of these states."""
    owners: Sequence[str] | None = None
    """Submitted by one of these."""
    run_id: str | None = None
    """With this id of the client's own; of those whose run_id you are shown."""
    name: str | None = None
    """With exactly this name."""
    projects: Sequence[str] | None = None
    """Charged to one of these."""
    search: str | None = None
    """With this in their name or id; the case of the letters A to Z does not count."""
    pools: Sequence[str] | None = None
    """For one of these pools of agents."""
    priorities: Sequence[str] | None = None
    """Of one of these priorities."""
    array_id: str | None = None
    """Tasks of this job array."""
    queued_at: TimeRange | None = None
    """Submitted within this time."""
    started_at: TimeRange | None = None
    """Started within this time."""
    ended_at: TimeRange | None = None
    """Ended within this time."""
    exit_codes: Sequence[int] | None = None
    """Ended with one of these exit codes; of those whose exit code you are shown."""
    failures: Sequence[str] | None = None
    """
    Failed for a reason with one of these codes, like time_limit, signal, exit_code or kernel_lost; of those whose
    failure you are shown.
    """
    agents: Sequence[str] | None = None
    """The newest attempt is, or was, on one of these agents."""
    nodes: Sequence[str] | None = None
    """The newest attempt is, or was, on an agent that is on one of these nodes."""
    devices: Sequence[str] | None = None
    """The newest attempt holds, or held, a part of one of these devices, by their ids."""
