"""Idle cases: the sessions that do not use their GPUs, with the last step for each, from the event log.

A case is stored as an `Action` named after the first GPU of its session, so that there are never more records than
GPUs and sessions that share them; the earlier ones are in the event log.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from aliquot.core.idle_process import IdleCase
from aliquot.core.model.snapshot import IdleHold
from aliquot_schema.ids import SessionId
from aliquot_schema.orchestration import Action
from aliquot_schema.policies import IdleAction, IdleStep

PREFIX: Final = "idle/"
CASE: Final = "case"
ROOM_US: Final = 24 * 3600 * 1_000_000
"""For how long the record of a session that lost its GPUs is not replaced: the next holder is shown it."""


def action_of(case: IdleCase, *, name: str, owner: str, words: str) -> Action:
    """The record of a case."""
    stored = json.dumps(case.as_facts(), sort_keys=True)
    facts = {"session": case.session_id, "step": case.step.value, "owner": owner, "words": words, CASE: stored}
    return Action(id=name, facts=facts)


def case_of(action: Action) -> IdleCase:
    """The case of a record."""
    return IdleCase.of(json.loads(action.facts[CASE]))


class IdleCases:
    """Index of the records, kept by the state."""

    def __init__(self) -> None:
        self._cases: dict[str, IdleCase] = {}
        self._records: dict[str, Action] = {}
        self._names: dict[SessionId, str] = {}
        self.holds: Mapping[SessionId, IdleHold] = {}
        """What a pass reads; never changed in place."""
        self.made_room_for: Mapping[SessionId, IdleCase] = {}
        """By session that got the GPUs, the case of the one that had to leave for it."""

    def put(self, action: Action) -> None:
        """Note a record; those of other kinds are ignored."""
        if not action.id.startswith(PREFIX):
            return
        former = self._cases.get(action.id)
        if former is not None:
            self._names.pop(former.session_id, None)
        case = self._cases[action.id] = case_of(action)
        self._records[action.id] = action
        self._names[case.session_id] = action.id
        self.holds = {case.session_id: hold for case in self._cases.values() if (hold := _hold(case)) is not None}
        self.made_room_for = {case.by_session: case for case in self._cases.values() if case.by_session is not None}

    def of(self, session_id: SessionId) -> IdleCase | None:
        """The last case of a session."""
        name = self._names.get(session_id)
        return None if name is None else self._cases[name]

    def open(self) -> Iterator[IdleCase]:
        """Cases that are not closed."""
        yield from (case for case in list(self._cases.values()) if case.is_open)

    def name_of(self, session_id: SessionId) -> str | None:
        """The name of a session's record; None if it has none."""
        return self._names.get(session_id)

    def free_name(self, place: str, *, now_us: int) -> str:
        """A name for a new case.

        Args:
            place: `<agent>/<device>` of the session's first GPU.
        """
        number = 0
        while not self._is_free(name := f"{PREFIX}{place}/{number}", now_us=now_us):
            number += 1
        return name

    def records(self) -> tuple[Action, ...]:
        """All records."""
        return tuple(self._records.values())

    def _is_free(self, name: str, *, now_us: int) -> bool:
        case = self._cases.get(name)
        if case is None or case.step is IdleStep.OVER:
            return True
        return case.step is IdleStep.ACTED and now_us - case.step_us >= ROOM_US


def _hold(case: IdleCase) -> IdleHold | None:
    if not case.is_due and case.step is not IdleStep.ACTED:
        return None
    ends = case.action is IdleAction.END
    return IdleHold(idle_us=case.idle_us, ends=ends, by_session=case.by_session)
