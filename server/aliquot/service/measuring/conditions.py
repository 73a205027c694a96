"""Conditions: what keeps a server from serving, or from serving as it should, with a code for machines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that is wrong now."""

    code: str
    """From a closed list; it names nothing of the cluster, and may be told to everybody."""
    message: str
    """In words, with what is concerned; for those who may see the cluster."""
    is_fatal: bool
    """Whether requests had better go to another server."""
