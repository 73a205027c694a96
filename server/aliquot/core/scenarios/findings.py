"""What was found in the course of a scenario, in words."""

from collections.abc import Iterable

from aliquot.core.plan import Reservation
from aliquot.core.scenarios.course import Course
from aliquot.core.scenarios.given import START_US
from aliquot.core.scenarios.table import OVERDUE, duration_text
from aliquot_schema.ids import SessionId

NOTHING = "-"


def whereabouts(course: Course, name: str) -> str:
    """Of a session that is not where it was looked for: where it is."""
    session_id = SessionId(name)
    if session_id in course.started:
        return "started"
    verdict = course.plan.verdicts.get(session_id)
    return NOTHING if verdict is None else f"waits: {verdict.reason}"


def promised_after(promise: Reservation) -> str:
    """From the beginning to the promised start."""
    return OVERDUE if promise.at_us is None else duration_text((promise.at_us - START_US) // 1000)


def listed(names: Iterable[str]) -> str:
    """Names in a row."""
    return ", ".join(names) or NOTHING
