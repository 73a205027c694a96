"""What a scenario comes to: what was expected and what was seen, side by side."""

from collections.abc import Iterable
from dataclasses import dataclass

from aliquot.core.plan import Reservation
from aliquot.core.scenarios.course import Course
from aliquot.core.scenarios.scenario import START_US, Scenario
from aliquot.core.scenarios.table import OVERDUE, duration_text
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import SessionId

NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as expected."""

    what: str
    expected: str
    found: str


def differences(scenario: Scenario) -> tuple[Difference, ...]:
    """Play a scenario; empty when all is as expected.

    Raises:
        InvalidRequest: it cannot be played, as what runs has no room; the message names file and line.
    """
    try:
        course = Course(scenario.given)
        course.run(until_us=START_US + scenario.after_ms * 1000)
    except InvalidRequest as error:
        raise InvalidRequest(f"{scenario.file}:{scenario.line}: {error.message}", field=error.field) from None
    return tuple(_differences(scenario, course))


def _differences(scenario: Scenario, course: Course) -> Iterable[Difference]:
    then = scenario.then
    for what, expected, found in (
        ("starts", then.starts, course.started),
        ("preempts", then.preempts, course.preempted),
        ("fails", then.fails, course.failed),
    ):
        if expected is not None and sorted(expected) != sorted(found):
            yield Difference(what=what, expected=_list(sorted(expected)), found=_list(sorted(found)))
    if then.order is not None:
        line = tuple(str(name) for name in course.order if name in then.order)
        if line != then.order:
            yield Difference(what="order", expected=_list(then.order), found=_list(line))
    yield from _by_name(scenario, course)


def _by_name(scenario: Scenario, course: Course) -> Iterable[Difference]:
    then = scenario.then
    promised = {str(found.session_id): _time(found) for found in course.reservations()}
    waiting = {str(name): str(verdict.reason) for name, verdict in course.plan.verdicts.items()}
    places = {str(name): _list(agents) for name, agents in course.started.items()}
    for what, expected, found in (
        ("waits", then.waits, waiting),
        ("reserved", then.reserved, promised),
        ("on", None if then.on is None else {name: _list(agents) for name, agents in then.on.items()}, places),
    ):
        for name, wanted in (expected or {}).items():
            seen = found.get(name)
            if seen != wanted:
                yield Difference(what=f"{what}.{name}", expected=wanted, found=seen or _became(course, name))


def _became(course: Course, name: str) -> str:
    """Of a session that is not where it was looked for: where it is."""
    session_id = SessionId(name)
    if session_id in course.started:
        return "started"
    verdict = course.plan.verdicts.get(session_id)
    return NOTHING if verdict is None else f"waits: {verdict.reason}"


def _time(promise: Reservation) -> str:
    return OVERDUE if promise.at_us is None else duration_text((promise.at_us - START_US) // 1000)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or NOTHING
