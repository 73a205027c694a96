"""Statistics.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct


class WaitBucket(Struct, frozen=True, kw_only=True):
    """How many sessions waited for so long before devices were granted to them."""

    at_least: float
    """Seconds."""
    below: float | None
    """Seconds; null is however long."""
    count: int
    """How many."""


class QueueStatistics(Struct, frozen=True, kw_only=True):
    """The queue now, and how it went in the time just before. Times are seconds."""

    revision: int
    """The event number that it was read at."""
    total_queued: int
    """Tasks that wait; a job array counts those of it that do."""
    oldest_wait: float | None
    """How long the one has waited that waits longest."""
    window: float
    """What the rest is about: the last hour, or what of it is in memory."""
    started: int
    """Sessions and tasks of arrays that devices were granted to."""
    finished: int
    """Those that ran and ended."""
    average_wait_time: float | None
    """Of those started; null when none was."""
    median_wait_time: float | None
    """Of those started; null when none was."""
    throughput: float
    """Finished, per hour."""
    wait_distribution: tuple[WaitBucket, ...]
    """Of those started."""
