"""Bulk changes: one action on several sessions, each carried out or refused by itself."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Protocol

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

log: Final = logging.getLogger("aliquot.sessions")

TOGETHER: Final = 32
"""Sessions that are changed at the same time."""


class SessionChange(Protocol):
    """A change of one session."""

    def __call__(
        self, caller: Caller, session_id: str, /, *, expected_version: None
    ) -> Coroutine[Any, Any, SessionChanged]: ...


async def change_each(
    change: SessionChange, caller: Caller, asked: SessionsAction, *, revision: int
) -> SessionOutcomes:
    """Change the sessions, each by itself: a refusal does not stop the others. Some are changed at the same time, so
    that one write of the disk serves them all.

    After `Unavailable` or `RateLimited`, the rest is not tried and refused alike. An error of the server itself is the
    outcome of its session, too: those of the others are not lost.

    Args:
        change: changes one of them.
        revision: the newest event before the change.
    Raises:
        InvalidRequest: no ids, or an argument that the action does not have or needs.
        LimitExceeded: more than `BATCH_SESSIONS_MAX` ids.
        Forbidden: the caller may only read.
        RateLimited: for all that were tried; nothing was changed.
    """
    check_ids(asked.ids)
    check_may_submit(caller)
    _check_arguments(asked)
    results: list[SessionOutcome] = []
    ids, stop = list(dict.fromkeys(asked.ids)), None
    for first in range(0, len(ids), TOGETHER):
        part = ids[first : first + TOGETHER]
        if stop is not None:
            results += (_refused(session_id, stop) for session_id in part)
            continue
        async with asyncio.TaskGroup() as changes:
            tasks = [changes.create_task(_changed(change, caller, session_id)) for session_id in part]
        outcomes = [task.result() for task in tasks]
        if not results and isinstance(outcomes[0], RateLimited) and all(isinstance(o, RateLimited) for o in outcomes):
            raise outcomes[0]
        for session_id, made in zip(part, outcomes, strict=True):
            if isinstance(made, SessionOutcome):
                results.append(made)
            elif isinstance(made, SessionChanged):
                results.append(SessionOutcome(id=session_id, session=made.session))
                revision = max(revision, made.revision)
            else:
                results.append(_refused(session_id, made))
                stop = made if isinstance(made, Unavailable | RateLimited) else stop
    refused = sum(result.session is None for result in results)
    return SessionOutcomes(results=tuple(results), refused=refused, revision=revision)


async def _changed(
    change: SessionChange, caller: Caller, session_id: str
) -> SessionChanged | AliquotError | SessionOutcome:
    try:
        return await change(caller, session_id, expected_version=None)
    except AliquotError as error:
        return error
    except Exception:
        log.exception("a bulk change of %s failed in request %s", session_id, caller.request_id)
        text = (
            f"internal error; the server's log has it under {caller.request_id}. It may have been changed: look first"
        )
        return SessionOutcome(id=session_id, code="internal", message=text)


def _check_arguments(asked: SessionsAction) -> None:
    if (asked.priority is not None) != (asked.action is SessionAction.SET_PRIORITY):
        raise InvalidRequest("priority: give it with the action set_priority, and with no other", field="priority")
    if asked.from_checkpoint and asked.action is not SessionAction.RETRY:
        raise InvalidRequest("from_checkpoint: give it only with the action retry", field="from_checkpoint")


def _refused(session_id: str, error: AliquotError) -> SessionOutcome:
    return SessionOutcome(id=session_id, code=error.code, message=error.message)
