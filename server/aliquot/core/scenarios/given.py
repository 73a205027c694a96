"""What a scenario begins with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.core.fairshare import Usage
from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, PendingRow, Request
from aliquot_schema.ids import AgentId, QuotaId, SessionId
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState

START_US: Final = 1_700_000_000_000_000
"""The moment that a scenario begins at, microseconds UTC; any other would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Less:
    """What a session asks for from some time on."""

    at_us: int
    request: Request
    cluster_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A session, and how long it really runs."""

    row: PendingRow
    runs_ms: int | None = None
    """None = as long as it is reckoned to run."""
    fallbacks: tuple[Less, ...] = ()
    max_parallel: int | None = None
    """So many tasks of an array run at one time; None = all."""
    array_id: SessionId | None = None
    """Of a task: its array."""


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
