"""Loader of scenario files: YAML with one scenario per document. Unknown keys are errors."""

from collections.abc import Iterable, Iterator
from typing import Final

from aliquot.core.fairshare import Usage
from aliquot.core.policy_tests import rules, sessions, tables
from aliquot.core.policy_tests.scenario import ExpectedResults, Scenario, ScenarioJob, ScenarioStart
from aliquot.core.policy_tests.tables import Entry, Table, documents
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.reasons import Reason
from aliquot_schema.states import SessionState

ENDED_AS: Final = (SessionState.COMPLETED, SessionState.FAILED, SessionState.CANCELED)


def scenarios(text: str, *, file: str) -> list[Scenario]:
    """All scenarios of a file.

    Raises:
        InvalidRequest: the file is invalid; the message names file, line and key, and the valid values.
    """
    found = [_scenario(entry, file=file, number=number) for number, entry in enumerate(documents(text, file=file), 1)]
    if not found:
        raise InvalidRequest(f"{file}:1: there is no scenario in this file")
    return found


def _scenario(entry: Entry, *, file: str, number: int) -> Scenario:
    table = entry.table()
    name = table.get("name", Entry.text, f"scenario {number}")
    given = table.need("given", _given)
    after_ms = table.get("when", _when, 0)
    names = [name for job in given.queue for name in _names(job)]
    names += [runs.job.row.session_id for runs in given.running]
    then = table.need("then", lambda found: _then(found, names=names, agents=[agent.id for agent in given.agents]))
    table.finish()
    return Scenario(name=name, file=file, line=entry.line, given=given, after_ms=after_ms, then=then)


def _names(job: ScenarioJob) -> Iterator[str]:
    """The name of a session, and the ids of its tasks."""
    yield job.row.session_id
    for index in job.row.tasks or ():
        yield task_id(job.row.session_id, index=index)


def _given(entry: Entry) -> ScenarioStart:
    table = entry.table()
    agents = table.need("agents", tables.agents)
    given = ScenarioStart(
        policy=table.get("policy", rules.policy, rules.default_policy()),
        agents=agents,
        running=table.get("running", lambda found: sessions.running(found, agents=[agent.id for agent in agents]), ()),
        queue=table.get("queue", sessions.queue, ()),
        ended=table.get("ended", _ended, {}),
        usage=table.get("usage", rules.usage, Usage()),
        quotas=table.get("quotas", rules.quotas, {}),
    )
    table.finish()
    _check_names(entry, given)
    return given


def _check_names(entry: Entry, given: ScenarioStart) -> None:
    """Refuse duplicate names, and dependencies on unknown sessions."""
    known: dict[str, None] = dict.fromkeys(given.ended)
    for job in (*(runs.job for runs in given.running), *given.queue):
        if job.row.session_id in known:
            entry.refuse(f"there are two sessions {job.row.session_id}")
        known[job.row.session_id] = None
    for job in given.queue:
        for link in job.row.depends_on:
            if link.session_id not in known:
                entry.refuse(f"{job.row.session_id} depends on {link.session_id}, which does not exist")


def _ended(entry: Entry) -> dict[SessionId, SessionState]:
    return {SessionId(name): SessionState(state.one_of(ENDED_AS)) for name, state in entry.pairs()}


def _when(entry: Entry) -> int:
    """`pass`, or `after: 2h`."""
    if entry.is_table:
        table = entry.table()
        after_ms = table.need("after", Entry.duration_ms)
        table.finish()
        return after_ms
    entry.one_of(["pass"])
    return 0


def _then(entry: Entry, *, names: Iterable[str], agents: Iterable[str]) -> ExpectedResults:
    known, places = list(names), list(agents)
    table = entry.table()

    def some(key: str) -> tuple[str, ...] | None:
        return table.maybe(key, lambda found: tuple(_known(found, name, known) for name in found.names()))

    then = ExpectedResults(
        starts=some("starts"),
        preempts=some("preempts"),
        order=some("order"),
        fails=some("fails"),
        waits=table.maybe("waits", lambda found: _pairs(found, known, list(Reason))),
        reserved=table.maybe("reserved", lambda found: _times(found, known)),
        on=table.maybe(
            "on",
            lambda found: {
                _known(where, name, known): tuple(_known(where, place, places) for place in where.names())
                for name, where in found.pairs()
            },
        ),
    )
    table.finish()
    _is_something(table, then)
    return then


def _is_something(table: Table, then: ExpectedResults) -> None:
    if then == ExpectedResults():
        table.at.refuse("nothing is expected; use starts, waits, order, preempts, reserved, on or fails")


def _known(entry: Entry, name: str, known: list[str]) -> str:
    if name not in known:
        entry.refuse(f"{name[:64]!r} is unknown; use one of {', '.join(sorted(known))}")
    return name


def _pairs(entry: Entry, known: list[str], words: list[str]) -> dict[str, str]:
    return {_known(word, name, known): word.one_of(words) for name, word in entry.pairs()}


def _times(entry: Entry, known: list[str]) -> dict[str, str]:
    return {_known(time, name, known): time.duration_text() for name, time in entry.pairs()}
