"""Metrics.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct

from aliquot.client.generated.enums import SessionState


class MetricSeries(Struct, frozen=True, kw_only=True):
    """A metric of one output. A point without a printed step has its number, from 0, as step."""

    name: str
    """Its name."""
    count: int
    """Number of points that were printed."""
    last: float
    """The newest value."""
    low: float
    """The lowest value of all points."""
    low_step: int
    """Its step."""
    high: float
    """The highest value of all points."""
    high_step: int
    """Its step."""
    steps: tuple[int, ...]
    """Steps of at most 400 points, thinned out."""
    values: tuple[float, ...]
    """Values of these points."""


class TaskMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of a task of a job array."""

    index: int
    """Index of the task."""
    session_id: str
    """Its session."""
    state: SessionState
    """Its state."""
    series: tuple[MetricSeries, ...]
    """By name."""


class ArrayMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of tasks of a job array that have started and whose agent answers, by index."""

    tasks: tuple[TaskMetrics, ...]
    """The tasks of this page."""
    end: int | None
    """Index to pass as `after` for the next page; null at the end."""


class SessionMetrics(Struct, frozen=True, kw_only=True):
    """The metrics in the output of one kernel."""

    series: tuple[MetricSeries, ...]
    """By name."""
    is_partial: bool
    """Whether there is more output to read than one request reads; the next one goes on."""
