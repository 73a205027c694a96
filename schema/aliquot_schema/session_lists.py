"""Lists of sessions, as they are asked for: which, and in which order."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState


class SessionOrder(StrEnum):
    """In which order sessions are listed.

    Those that are alike in it follow each other by their submission, in the same direction; those that have no such
    time or name come last, whichever the direction.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    PRIORITY_DESC = "priority_desc"
    PRIORITY_ASC = "priority_asc"
    STARTED_DESC = "started_desc"
    STARTED_ASC = "started_asc"
    ENDED_DESC = "ended_desc"
    ENDED_ASC = "ended_asc"
    GPUS_DESC = "gpus_desc"
    GPUS_ASC = "gpus_asc"
    NAME_DESC = "name_desc"
    NAME_ASC = "name_asc"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Aware times, both included; None = without a bound."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions. Empty tuples and None do not filter."""

    ids: tuple[str, ...] = ()
    states: tuple[SessionState, ...] = ()
    owners: tuple[str, ...] = ()
    run_id: str | None = None
    name: str | None = None
    projects: tuple[str, ...] = ()
    search: str | None = None
    """A part of the name or the id; the case of the letters A to Z does not count."""
    pools: tuple[str, ...] = ()
    priorities: tuple[Priority, ...] = ()
    array_id: str | None = None
    """The job array that they are tasks of."""
    queued_at: TimeRange | None = None
    started_at: TimeRange | None = None
    """With a bound, only those that have started."""
    ended_at: TimeRange | None = None
    exit_codes: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    """Codes of `Failure`."""
    agents: tuple[str, ...] = ()
    """Where the newest attempt is or was."""
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


ALL_SESSIONS: Final = SessionFilter()
