"""Divisions.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct

from aliquot.client.generated.administration import Quota, Usage
from aliquot.client.generated.cluster import SlotCapacity


class ClusterPool(Struct, frozen=True, kw_only=True):
    """
    A part of the cluster that sessions choose by name, and what is in it. A device that agents of several pools see
    counts in each of them.
    """

    name: str
    """Its name."""
    agents: tuple[str, ...]
    """Its agents, but for those that left."""
    nodes: tuple[str, ...]
    """The hosts that these are on."""
    schedulable: bool
    """Whether any of its agents is given new work now."""
    gpu_count: int
    """GPUs of its agents that can be asked, each once; those included that are not healthy."""
    gpu_type: str
    """Their models, most of them first; empty without GPUs."""
    total_gpus: float
    """Healthy GPUs, each once."""
    available_gpus: float
    """
    What of these may be given to somebody, in fractions and in whatever pieces; those of drained agents, and those that
    processes of others are on, are not.
    """
    allocated_gpus: float
    """What of these is held, in fractions."""
    capacity: tuple[SlotCapacity, ...]
    """By slot."""
    total_queued: int
    """Tasks that wait for it; a job array counts those of it that do."""
    running: int
    """Sessions and tasks of arrays that were given devices of it."""


class Project(Struct, frozen=True, kw_only=True):
    """What people do together. A project is known once somebody used it, or gave it a quota."""

    name: str
    """Its name."""
    users: tuple[str, ...]
    """Who has held something for it, or has a session of it now."""
    total_queued: int
    """Tasks that wait; a job array counts those of it that do."""
    running: int
    """Sessions and tasks of arrays that were given devices."""
    allocated_gpus: float
    """GPUs that its sessions hold, parts as parts."""
    gpu_hours: float
    """Of a whole device, weighted by `charges`: all of it."""
    gpu_hours_month: float
    """The same in this calendar month, UTC."""
    share: float
    """Of all use that counts in fair share now, 0 to 1."""
    usage: tuple[Usage, ...]
    """By user, of those who ever held something for it."""
    quota: Quota | None
    """Its limits; null when nothing but the cluster's limits it."""
