"""External allocations.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.sessions import AllocatedGpu


class AllocateGpusInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    A request for GPUs for processes that Aliquot does not start. Repeating it with the same `job_id` renews the lease.
    """

    job_id: str
    """The caller's id of the allocation."""
    gpu_count: float = 1.0
    """Number of whole GPUs, or a share of one like 0.25."""
    memory_gb: float | None = None
    """Minimum memory per GPU, in 10^9 bytes."""
    lease: float | None = None
    """Lease time in seconds, until which it has to be renewed; null = one hour."""
    time_limit: float | None = None
    """
    Seconds after the grant at which it ends, however often it is renewed; null = no limit. With it, the allocation may
    use GPUs that are reserved for a session that starts later.
    """
    project: str | None = None
    """Project to charge; null = the default project."""
    pool: str | None = None
    """Pool of agents; null = the default pool."""


class GpusAllocated(Struct, frozen=True, kw_only=True):
    """An external allocation, after it was granted, renewed or released."""

    job_id: str
    """The caller's id of the allocation."""
    session_id: str
    """The session that represents it."""
    gpu_ids: tuple[str, ...]
    """Ids for `CUDA_VISIBLE_DEVICES`."""
    gpus: tuple[AllocatedGpu, ...]
    """The GPUs with their nodes and shares."""
    expires_at: datetime | None
    """End of the lease unless it is renewed; null = released."""
    renewed: bool
    """
    Whether another call had allocated the GPUs: an earlier one, whose lease this call renews, or one at the same
    moment.
    """
    revision: int
    """Event number of the change; for `min_revision`."""
