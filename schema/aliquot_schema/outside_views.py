"""Work that is run outside: what it asks for, and what it was given."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aliquot_schema.gpu_views import AllocatedGpuView

LEASE_S: Final = 3600.0
"""How long it is held unless it is called for again, where nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutside:
    """A request as it came in."""

    job_id: str
    gpu_count: str
    """Decimal text: whole GPUs, or shares of them."""
    memory_gb: str | None = None
    """The least memory per GPU."""
    lease: float | None = None
    """Seconds until it has to be called for again; None = `LEASE_S`."""
    project: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerView:
    """Somebody who holds what a job asks for, or who is to get it before."""

    session_id: str
    user: str
    name: str | None
    until: datetime | None
    """When it is reckoned to give it back; None = nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideView:
    """What somebody holds for work that is run outside."""

    job_id: str
    session_id: str
    gpu_ids: tuple[str, ...]
    """To be given to `CUDA_VISIBLE_DEVICES`."""
    gpus: tuple[AllocatedGpuView, ...]
    expires_at: datetime | None
    """Unless it is called for again before; None when it holds nothing any more."""
    renewed: bool
    """Whether it was held before."""
    revision: int
