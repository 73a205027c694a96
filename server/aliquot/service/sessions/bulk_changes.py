"""Bulk changes: one action on several sessions, each carried out or refused by itself."""

from collections.abc import Coroutine
from typing import Any, Protocol

from aliquot.service.access import check_may_submit
from aliquot.service.sessions.batches import check_ids
from aliquot_schema.errors import AliquotError, InvalidRequest, RateLimited, Unavailable
from aliquot_schema.requests import (
    Caller,
    SessionAction,
    SessionChanged,
    SessionOutcome,
    SessionOutcomes,
    SessionsAction,
)


class SessionChange(Protocol):
    """A change of one session."""

    def __call__(
        self, caller: Caller, session_id: str, /, *, expected_version: None
    ) -> Coroutine[Any, Any, SessionChanged]: ...


async def change_each(
    change: SessionChange, caller: Caller, asked: SessionsAction, *, revision: int
) -> SessionOutcomes:
    """Change the sessions in the order given, each in a commit of its own. A refusal does not stop the others.

    After `Unavailable` or `RateLimited`, the rest is not tried and refused alike.

    Args:
        change: changes one of them.
        revision: the newest event before the change.
    Raises:
        InvalidRequest: no ids, or an argument that the action does not have or needs.
        LimitExceeded: more than `BATCH_SESSIONS_MAX` ids.
        Forbidden: the caller may only read.
        RateLimited: already for the first session.
    """
    check_ids(asked.ids)
    check_may_submit(caller)
    _check_arguments(asked)
    results: list[SessionOutcome] = []
    stop: AliquotError | None = None
    for session_id in dict.fromkeys(asked.ids):
        if stop is not None:
            results.append(_refused(session_id, stop))
            continue
        try:
            changed = await change(caller, session_id, expected_version=None)
        except AliquotError as error:
            if isinstance(error, RateLimited) and not results:
                raise
            results.append(_refused(session_id, error))
            stop = error if isinstance(error, Unavailable | RateLimited) else None
        else:
            results.append(SessionOutcome(id=session_id, session=changed.session))
            revision = changed.revision
    refused = sum(result.session is None for result in results)
    return SessionOutcomes(results=tuple(results), refused=refused, revision=revision)


def _check_arguments(asked: SessionsAction) -> None:
    if (asked.priority is not None) != (asked.action is SessionAction.SET_PRIORITY):
        raise InvalidRequest("priority: give it with the action set_priority, and with no other", field="priority")
    if asked.from_checkpoint and asked.action is not SessionAction.RETRY:
        raise InvalidRequest("from_checkpoint: give it only with the action retry", field="from_checkpoint")


def _refused(session_id: str, error: AliquotError) -> SessionOutcome:
    return SessionOutcome(id=session_id, code=error.code, message=error.message)
