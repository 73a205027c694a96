"""Outside.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.sessions import AllocatedGpu


class AllocateGpusInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """GPUs for work that is run outside. The same `job_id` again holds them for longer."""

    job_id: str
    """What the caller calls it."""
    gpu_count: float = 1.0
    """Whole GPUs, or shares of one like 0.25."""
    memory_gb: float | None = None
    """The least memory per GPU, in 10^9 bytes."""
    lease: float | None = None
    """Seconds until it has to be called for again; an hour unless given."""
    project: str | None = None
    """The project it is charged to."""
    pool: str | None = None
    """The pool of agents."""


class GpusAllocated(Struct, frozen=True, kw_only=True):
    """What a job holds, or has just given back."""

    job_id: str
    """What the caller calls it."""
    session_id: str
    """The session that it is shown as."""
    gpu_ids: tuple[str, ...]
    """For CUDA_VISIBLE_DEVICES."""
    gpus: tuple[AllocatedGpu, ...]
    """The same, with nodes and shares."""
    expires_at: datetime | None
    """Unless it is called for again before; null when it holds nothing any more."""
    renewed: bool
    """Whether it was held before."""
    revision: int
    """For `min_revision`."""
