"""Read models for operators: what does not agree just now, and copies of the database."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.findings import Discrepancy


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceView:
    """One thing that store, agent and devices do not agree about."""

    kind: Discrepancy
    agent_id: str
    subject: str
    """The kernel or the device."""
    evidence: str
    since: datetime | None
    """When the reaper was sure of it; None = it was seen just now, and may be gone with the next message."""
    repair: str | None
    """What the reaper does about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationView:
    """All agents, looked at once."""

    differences: tuple[DifferenceView, ...]
    asked: tuple[str, ...]
    """Agents that were asked and answered."""
    silent: tuple[str, ...]
    """Agents that cannot be asked, so that nothing is known of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescanView:
    """The resource specs of one agent, read from its files."""

    agent_id: str
    scanned: int
    """Files of kernels that have not ended."""
    unreadable: tuple[str, ...]
    """Kernels of which the file cannot be read; they are not in the map."""
    differences: tuple[DifferenceView, ...]
    """Between these files and what was granted."""
    gpu_alloc_map: str
    """By the files; see `AgentView`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCopy:
    """A copy of the server's database."""

    path: str
    """On the server's machine."""
    size_bytes: int
