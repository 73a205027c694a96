"""Queue statistics: wait times and throughput of the last hour, from the sessions in memory."""

from statistics import fmean, median
from typing import Final

from aliquot.service.state.state import State
from aliquot_schema.sessions import Session
from aliquot_schema.views.statistics import QueueStatisticsView, WaitBucketView

WINDOW_US: Final = 3_600_000_000
BUCKETS_S: Final = (0, 1, 10, 60, 300, 1_800, 3_600, 21_600, 86_400)
"""Lower edges of the wait-time buckets, in seconds."""


def queue_statistics(state: State, *, now_us: int) -> QueueStatisticsView:
    """The queue now, and the last hour. O(sessions in memory).

    When ended sessions were evicted, the window is shortened to the time that memory covers.
    """
    own = [
        session for session in state.sessions.values() if session.tasks is None and not session.is_external_allocation
    ]
    since_us = max(now_us - WINDOW_US, 0 if state.ended_complete else _oldest_end_us(own, now_us=now_us))
    waits = [_wait_s(session) for session in own if (session.scheduled_us or 0) > since_us]
    finished = sum(session.started_us is not None and (session.ended_us or 0) > since_us for session in own)
    window_s = (now_us - since_us) / 1e6
    waiting = [state.sessions[session_id].queued_us for session_id in state.pending]
    return QueueStatisticsView(
        revision=state.revision,
        total_queued=state.tasks_pending,
        oldest_wait=max(0.0, (now_us - min(waiting)) / 1e6) if waiting else None,
        window=window_s,
        started=len(waits),
        finished=finished,
        average_wait_time=fmean(waits) if waits else None,
        median_wait_time=median(waits) if waits else None,
        throughput=finished * 3600 / window_s if window_s > 0 else 0.0,
        wait_distribution=_distribution(waits),
    )


def _oldest_end_us(sessions: list[Session], *, now_us: int) -> int:
    """Since when all ended sessions are in memory."""
    return min((session.ended_us for session in sessions if session.ended_us is not None), default=now_us)


def _wait_s(session: Session) -> float:
    assert session.scheduled_us is not None
    return max(0, session.scheduled_us - session.queued_us) / 1e6


def _distribution(waits: list[float]) -> tuple[WaitBucketView, ...]:
    edges = [*BUCKETS_S, None]
    return tuple(
        WaitBucketView(
            at_least=float(low),
            below=None if high is None else float(high),
            count=sum(low <= wait and (high is None or wait < high) for wait in waits),
        )
        for low, high in zip(BUCKETS_S, edges[1:], strict=True)
    )
