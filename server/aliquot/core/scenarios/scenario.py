"""A scenario as a value: what there is, when it is looked at, and what is to be seen then."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.core.fairshare import Usage
from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, PendingRow
from aliquot_schema.ids import AgentId, QuotaId, SessionId
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState

START_US: Final = 1_700_000_000_000_000
"""The moment that a scenario begins at, microseconds UTC; any other would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A session, and how long it really runs."""

    row: PendingRow
    runs_ms: int | None = None
    """None = as long as it is reckoned to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A session that runs when the scenario begins."""

    job: Job
    on: tuple[AgentId, ...]
    """Where; empty = where there is room."""
    since_ms: int
    ends_in_ms: int | None
    """None = when its guard ends."""
    preemptions: int
    grace_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What there is."""

    policy: Policy
    agents: tuple[AgentRow, ...]
    running: tuple[Running, ...]
    queue: tuple[Job, ...]
    ended: Mapping[SessionId, SessionState]
    usage: Usage
    quotas: Mapping[QuotaId, Quota]


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """What is to be seen. None = not looked at."""

    starts: tuple[str, ...] | None = None
    """All that started, in any order."""
    preempts: tuple[str, ...] | None = None
    """All that were asked to make room, in any order."""
    order: tuple[str, ...] | None = None
    """The order that the queue is looked at in; those who are not named may stand anywhere."""
    waits: Mapping[str, str] | None = None
    """Reasons; others may wait, too."""
    reserved: Mapping[str, str] | None = None
    """From the beginning to the promised start."""
    on: Mapping[str, tuple[str, ...]] | None = None
    """The agents of those that started, by rank."""
    fails: tuple[str, ...] | None = None
    """All that can never run any more, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario of a file."""

    name: str
    file: str
    line: int
    given: Given
    after_ms: int
    """How much later it is looked at; 0 = after one pass."""
    then: Then
