"""How many of the sessions that ended lately have failed."""

from typing import Final

from aliquot.service.state import State
from aliquot_schema.states import SessionState

WINDOW_US: Final = 3_600_000_000


def failure_rate(state: State, *, now_us: int) -> tuple[int, int]:
    """(failed, ended) within the last hour, of sessions in memory that ran here; an array counts by its tasks."""
    since_us = now_us - WINDOW_US
    failed = ended = 0
    for session in state.sessions.values():
        if session.ended_us is None or session.ended_us < since_us or session.tasks is not None:
            continue
        if session.started_us is None or session.is_outside or session.state is SessionState.CANCELED:
            continue
        ended += 1
        failed += session.state is SessionState.FAILED
    return failed, ended
