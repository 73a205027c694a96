"""Extensions: a request for a later time limit of a running session, which the next scheduling pass decides."""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from aliquot.core.validation.fields import check_limit, milliseconds
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import InvalidRequest, StateConflict, Unavailable, VersionConflict
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import DURATION_S_MAX, Extension, Session
from aliquot_schema.states import AgentState, SessionState

PASS_WAIT_S: Final = 10.0
ACTOR: Final = "system:extensions"
ADVICE: Final = "Ask for less time, or book GPUs for a later window"


def with_request(draft: UnitOfWork, session: Session, *, seconds: float) -> Session:
    """A running session that asks for a time limit which is later by some seconds.

    Raises:
        InvalidRequest, LimitExceeded: the time is wrong.
        StateConflict: it does not run, has no time limit, or one of its nodes cannot change the time limit now.
    """
    more_ms = milliseconds(seconds, field="seconds")
    if not more_ms:
        raise InvalidRequest("seconds: give the time to add, more than 0", field="seconds")
    limit_ms = session.spec.time_limit_ms
    if session.is_external_allocation:
        raise conflict(session, "renew an external allocation by allocating it again")
    if session.state is not SessionState.RUNNING or session.tasks is not None:
        raise conflict(session, "only a running session, or a running task of an array, can be extended")
    if limit_ms is None:
        raise conflict(session, "it has no time limit, so there is nothing to extend")
    if _is_undecided(session):
        raise conflict(session, "an earlier request for more time is being decided; try again in a few seconds")
    check_limit((limit_ms + more_ms) // 1000, field="seconds", most=DURATION_S_MAX, unit="seconds in all")
    _check_nodes(draft, session)
    asked = Extension(attempt=session.attempt, time_limit_ms=limit_ms + more_ms)
    return replace(session, extension=asked)


async def decided(session_id: SessionId, *, state: State, journal: Journal, feed: Feed) -> Session:
    """The session after the pass that decided about its extension.

    Raises:
        StateConflict: a session or a booking would start later for it; the message says which.
        Unavailable: no pass within `PASS_WAIT_S`; the request was withdrawn.
    """

    def find() -> Session | None:
        return state.sessions.get(session_id)

    try:
        async with asyncio.timeout(PASS_WAIT_S):
            while _is_undecided(find()):
                await feed.reached(state.revision + 1)
    except TimeoutError:
        await journal.transact(_withdrawal(session_id), actor=ACTOR)
    session = find()
    if session is None or session.extension is None:
        raise Unavailable(
            "no server is scheduling right now, so nothing can be extended; try again in a few seconds, or ask an "
            "operator whether scheduling is stopped"
        )
    if session.extension.refusal is not None:
        raise conflict(session, f"it was not extended. {session.extension.refusal}. {ADVICE}")
    if not session.extension.is_granted(session.attempt):
        raise conflict(session, "it ended before it could be extended")
    return session


def _is_undecided(session: Session | None) -> bool:
    if session is None or session.is_ended or session.extension is None:
        return False
    return session.extension.is_open and session.extension.attempt == session.attempt


def _withdrawal(session_id: SessionId) -> Callable[[UnitOfWork], None]:
    def withdraw(draft: UnitOfWork) -> None:
        session = draft.session(session_id)
        if session is not None and _is_undecided(session):
            draft.put(replace(session, extension=None), "extension_withdrawn")

    return withdraw


def _check_nodes(draft: UnitOfWork, session: Session) -> None:
    """Refuse where the new end could not reach the running processes."""
    for kernel in draft.kernels_in(session):
        agent = draft.agent(kernel.agent_id)
        if agent is None or agent.state is not AgentState.ALIVE:
            raise conflict(session, f"agent {kernel.agent_id} is not connected; try again when it is")
        if not kernel.takes_limit:
            what = "was started by an earlier release of Aliquot, which cannot change the time limit of a running one"
            raise conflict(session, f"it {what}. Upgrade agent {agent.id}; sessions started after that can be extended")


def conflict(session: Session, what: str) -> StateConflict:
    """The error of a request that the present state of a session does not allow."""
    return StateConflict(f"{session.id} is {session.state}; {what}", id=session.id, state=session.state)


def version_conflict(session: Session, *, expected: int) -> VersionConflict:
    """A session has another version than the caller expects."""
    return VersionConflict(
        f"{session.id} has version {session.version}, not {expected}; read it again",
        id=session.id,
        expected=expected,
        actual=session.version,
    )
