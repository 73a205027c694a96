"""What a scenario comes to: what was expected and what was seen, side by side."""

from collections.abc import Iterable
from dataclasses import dataclass

from aliquot.core.scenarios.course import Course
from aliquot.core.scenarios.findings import listed, promised_after, whereabouts
from aliquot.core.scenarios.given import START_US
from aliquot.core.scenarios.scenario import Scenario
from aliquot_schema.errors import InvalidRequest


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
            yield Difference(what=what, expected=listed(sorted(expected)), found=listed(sorted(found)))
    if then.order is not None:
        line = tuple(str(name) for name in course.order if name in then.order)
        if line != then.order:
            yield Difference(what="order", expected=listed(then.order), found=listed(line))
    yield from _by_name(scenario, course)


def _by_name(scenario: Scenario, course: Course) -> Iterable[Difference]:
    then = scenario.then
    promised = {str(found.session_id): promised_after(found) for found in course.reservations()}
    waiting = {str(name): str(verdict.reason) for name, verdict in course.plan.verdicts.items()}
    places = {str(name): listed(agents) for name, agents in course.started.items()}
    for what, expected, found in (
        ("waits", then.waits, waiting),
        ("reserved", then.reserved, promised),
        ("on", None if then.on is None else {name: listed(agents) for name, agents in then.on.items()}, places),
    ):
        for name, wanted in (expected or {}).items():
            seen = found.get(name)
            if seen != wanted:
                yield Difference(what=f"{what}.{name}", expected=wanted, found=seen or whereabouts(course, name))
