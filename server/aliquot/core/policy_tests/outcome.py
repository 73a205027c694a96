"""Outcome of a scenario: runs it and lists the differences from what was expected."""

from collections.abc import Iterable

from msgspec import Struct

from aliquot.core.model.plan import Reservation
from aliquot.core.policy_tests.runner import ScenarioRun
from aliquot.core.policy_tests.scenario import START_US, Scenario
from aliquot.core.policy_tests.tables import duration_text
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import SessionId

NOTHING = "-"


def actual_state(run: ScenarioRun, name: str) -> str:
    """What became of a session that is not as expected."""
    session_id = SessionId(name)
    if session_id in run.started:
        return "started"
    verdict = run.plan.verdicts.get(session_id)
    return NOTHING if verdict is None else f"waits: {verdict.reason}"


def promised_after(promise: Reservation) -> str:
    """Time from the start of the scenario to the reserved start."""
    assert promise.at_us is not None, f"{promise.session_id} has no reserved time"
    return duration_text((promise.at_us - START_US) // 1000)


def listed(names: Iterable[str]) -> str:
    """Names in one line."""
    return ", ".join(names) or NOTHING


class ExpectationMismatch(Struct, frozen=True, kw_only=True):
    """One difference from what was expected."""

    what: str
    expected: str
    found: str


def differences(scenario: Scenario) -> tuple[ExpectationMismatch, ...]:
    """Run a scenario; empty if everything is as expected.

    Raises:
        InvalidRequest: its running sessions do not fit the cluster; the message names file and line.
    """
    try:
        run = ScenarioRun(scenario.given)
        run.run(until_us=START_US + scenario.after_ms * 1000)
    except InvalidRequest as error:
        raise InvalidRequest(f"{scenario.file}:{scenario.line}: {error.message}", field=error.field) from None
    return tuple(_differences(scenario, run))


def _differences(scenario: Scenario, run: ScenarioRun) -> Iterable[ExpectationMismatch]:
    then = scenario.then
    for what, expected, found in (
        ("starts", then.starts, run.started),
        ("preempts", then.preempts, run.preempted),
        ("fails", then.fails, run.failed),
    ):
        if expected is not None and sorted(expected) != sorted(found):
            yield ExpectationMismatch(what=what, expected=listed(sorted(expected)), found=listed(sorted(found)))
    if then.order is not None:
        line = tuple(str(name) for name in run.order if name in then.order)
        if line != then.order:
            yield ExpectationMismatch(what="order", expected=listed(then.order), found=listed(line))
    yield from _by_name(scenario, run)


def _by_name(scenario: Scenario, run: ScenarioRun) -> Iterable[ExpectationMismatch]:
    then = scenario.then
    promised = {str(found.session_id): promised_after(found) for found in run.reservations()}
    waiting = {str(name): str(verdict.reason) for name, verdict in run.plan.verdicts.items()}
    places = {str(name): listed(agents) for name, agents in run.started.items()}
    for what, expected, found in (
        ("waits", then.waits, waiting),
        ("reserved", then.reserved, promised),
        ("on", None if then.on is None else {name: listed(agents) for name, agents in then.on.items()}, places),
    ):
        for name, wanted in (expected or {}).items():
            seen = found.get(name)
            if seen != wanted:
                yield ExpectationMismatch(what=f"{what}.{name}", expected=wanted, found=seen or actual_state(run, name))
