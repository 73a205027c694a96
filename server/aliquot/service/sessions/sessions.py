"""Sessions: create, cancel, hold, release, retry, extend, and change the request."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.core.validation.session import priority_of
from aliquot.service.access import (
    check_may_change,
    check_may_release,
    check_may_submit,
    check_priority,
    check_project,
    is_held_by_user,
    session_seen,
)
from aliquot.service.accounts.rate_limit import SubmissionRateLimit
from aliquot.service.lifecycle import arrays
from aliquot.service.lifecycle.idle_sessions import keep
from aliquot.service.ports import Clock, Store
from aliquot.service.sessions.amendments import amended
from aliquot.service.sessions.batches import check_batch, check_ids
from aliquot.service.sessions.bulk_changes import SessionChange, change_each
from aliquot.service.sessions.extensions import conflict, decided, version_conflict, with_request
from aliquot.service.sessions.session_loader import EvictedSessionLoader
from aliquot.service.sessions.submission import Submission, yield_turn
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.sessions import session_view
from aliquot_schema.errors import AliquotError, Forbidden, NotFound, StateConflict
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import RequestId, SessionId, task_id, task_parts
from aliquot_schema.requests import (
    Caller,
    NewSession,
    SessionAction,
    SessionAmendment,
    SessionChanged,
    SessionOutcomes,
    SessionsAction,
    SessionsChanged,
    SessionsCreated,
)
from aliquot_schema.sessions import HELD_BY_ARRAY, Priority, Session
from aliquot_schema.states import SessionState

ID_CHARS_MAX: Final = 80


class Sessions:
    """Use cases of sessions. Every method returns after the commit."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        store: Store,
        creation: Submission,
        clock: Clock,
        feed: Feed,
        rate_limit: SubmissionRateLimit | None = None,
    ) -> None:
        """
        Args:
            rate_limit: of submissions; None = no limit.
        """
        self._state = state
        self._journal = journal
        self._store = store
        self._creation = creation
        self._clock = clock
        self._feed = feed
        self._rate_limit = rate_limit

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged:
        """Submit a session; for errors see `Submission.create` and `SubmissionRateLimit.check`."""
        self._check_rate(caller, sessions=1)
        session, is_new = await self._creation.create(caller, request)
        return self._changed(caller, session, created=is_new)

    async def create_sessions(self, caller: Caller, requests: Sequence[NewSession]) -> SessionsCreated:
        """Submit a batch, all of it or nothing; for errors see `create_session`, and `LimitExceeded` for its size."""
        check_may_submit(caller)
        check_batch(requests)
        self._check_rate(caller, sessions=len(requests))
        try:
            made = await self._creation.create_all(caller, requests)
        except AliquotError:
            if self._rate_limit is not None:  # a refused batch is charged as one submission
                self._rate_limit.refund(caller, sessions=len(requests) - 1)
            raise
        results = []
        for position, (session, is_new) in enumerate(made):
            await yield_turn(position)
            results.append(self._changed(caller, session, created=is_new))
        return SessionsCreated(results=tuple(results), revision=self._state.revision)

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        """Cancel a session. Its kernels are stopped, and hold their devices until they have exited.

        Canceling a job array cancels all its tasks that have not ended. Canceling twice is no error.

        Raises:
            NotFound, Forbidden, VersionConflict.
            StateConflict: the session has ended in another way.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            now_us = self._clock.now_us()
            if index is not None:
                return arrays.cancel_waiting(draft, session, index, now_us=now_us)
            if session.state is SessionState.CANCELED:
                return session
            if session.is_ended:
                raise conflict(session, "it has ended and cannot be canceled")
            return arrays.cancel(draft, session, now_us=now_us)

        return await self._change(caller, session_id, expected_version, change)

    async def hold_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        """Hold a queued session until it is released; of an array also the preempted and retried tasks that wait.

        Holding a held session is no error; an operator's hold replaces that of a user.

        Raises:
            NotFound, Forbidden, VersionConflict.
            StateConflict: the session is not queued.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            _check_whole(session, index)
            _check_own_hold(session)
            tasks = _tasks_in(draft, session, SessionState.QUEUED)
            for task in tasks:
                draft.put(transitions.hold(task, caller.user), "held")
            if session.state is SessionState.HELD:
                is_stronger = caller.role >= Role.OPERATOR and caller.user != session.held_by
                if is_stronger and is_held_by_user(session, users=self._state.people.users):
                    return draft.put(replace(session, held_by=caller.user), "held")
                return session
            if session.state is not SessionState.QUEUED:
                if tasks:
                    return session
                raise conflict(session, "only a queued session can be held")
            return draft.put(transitions.hold(session, caller.user), "held")

        return await self._change(caller, session_id, expected_version, change)

    async def release_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        """Release a held session; it keeps its place in the queue. Of an array also the held tasks that the caller may
        release. Releasing a queued session is no error.

        Raises:
            NotFound, Forbidden, VersionConflict.
            StateConflict: the session is not held.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            _check_whole(session, index)
            _check_own_hold(session)
            if session.state is SessionState.HELD:
                check_may_release(caller, session, users=self._state.people.users)
            tasks = [one for one in _tasks_in(draft, session, SessionState.HELD) if self._may_release(caller, one)]
            for task in tasks:
                draft.put(transitions.release_hold(task), "released")
            if session.state is SessionState.QUEUED or (tasks and session.state is not SessionState.HELD):
                return session
            if session.state is not SessionState.HELD:
                raise conflict(session, "only a held session can be released")
            return draft.put(transitions.release_hold(session), "released")

        return await self._change(caller, session_id, expected_version, change)

    async def retry_session(
        self, caller: Caller, session_id: str, expected_version: int | None, *, from_checkpoint: bool = False
    ) -> SessionChanged:
        """Run an ended session again, as a new attempt at the end of the queue.

        Retrying a job array runs its failed and canceled tasks again, or all tasks if none failed or was canceled.

        Args:
            from_checkpoint: start from its last acknowledged checkpoint.
        Raises:
            NotFound, Forbidden, VersionConflict.
            StateConflict: the session has not ended, some of its processes have not exited, or it has no acknowledged
                checkpoint to start from.
            The errors of `create_session`: it may not be submitted any more.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            now_us = self._clock.now_us()
            self._creation.budgets.check_longer(draft, caller, session, what="a retry", now_us=now_us)
            self._creation.check_queue(caller, [_waiting_again(session, index)])
            if session.is_external_allocation:
                raise conflict(session, "an external allocation cannot be retried; allocate its GPUs again")
            if from_checkpoint:
                _check_checkpoint(session, index)
            if index is not None:
                return arrays.run_index_again(draft, session, index, now_us=now_us)
            looked_up = recall.looked_up
            return arrays.run_again(draft, session, looked_up=looked_up, now_us=now_us, from_checkpoint=from_checkpoint)

        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            await recall.session(SessionId(session_id))
            await recall.tasks_to_retry(SessionId(session_id))
            await self._check_again(caller, session_id)
            return await self._change(caller, session_id, expected_version, change)

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged:
        """Change the priority of a session, of an array that of all its tasks; only some order policies use it.

        Raises:
            NotFound, Forbidden, VersionConflict.
            InvalidRequest: unknown priority.
            StateConflict: the session has ended.
        """
        level = priority_of(priority)

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            return _prioritized(caller, draft, session, index, level=level)

        return await self._change(caller, session_id, expected_version, change)

    async def update_session_priorities(
        self, caller: Caller, session_ids: Sequence[str], priority: str
    ) -> SessionsChanged:
        """Change the priority of several sessions, of all of them or none.

        Raises:
            InvalidRequest: no ids, or an unknown priority.
            LimitExceeded: more than `BATCH_SESSIONS_MAX` ids.
            NotFound, Forbidden, StateConflict: as for the first session that it is about.
        """
        level = priority_of(priority)
        check_ids(session_ids)
        check_may_submit(caller)

        def on_draft(draft: UnitOfWork) -> int:
            changed = 0
            for session_id in session_ids:
                session, index = self._found(draft, session_id)
                check_may_change(caller, session)
                changed += any(one.priority is not level for one in (session, *_tasks_in(draft, session)))
                _prioritized(caller, draft, session, index, level=level)
            return changed

        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            for session_id in session_ids:
                await recall.session(SessionId(session_id))
                if (found := self._state.sessions.get(SessionId(session_id))) is not None:
                    check_may_change(caller, found)
            changed = await self._journal.transact(
                on_draft, actor=caller.actor, request_id=RequestId(caller.request_id)
            )
            return SessionsChanged(changed=changed, revision=self._state.revision)

    async def change_sessions(self, caller: Caller, asked: SessionsAction) -> SessionOutcomes:
        """See `change_each`."""
        changes: dict[SessionAction, SessionChange] = {
            SessionAction.CANCEL: self.cancel_session,
            SessionAction.HOLD: self.hold_session,
            SessionAction.RELEASE: self.release_session,
            SessionAction.KEEP: self.keep_session,
            SessionAction.RETRY: partial(self.retry_session, from_checkpoint=asked.from_checkpoint),
            SessionAction.SET_PRIORITY: partial(self.update_session_priority, priority=asked.priority or ""),
        }
        return await change_each(changes[asked.action], caller, asked, revision=self._state.revision)

    async def update_session(
        self, caller: Caller, session_id: str, amendment: SessionAmendment, expected_version: int | None
    ) -> SessionChanged:
        """Change the request of a waiting session; it keeps its place in the queue. Of a job array, that of the tasks
        that have not started.

        Raises:
            NotFound, Forbidden, VersionConflict: the last also if it changes while the new request is checked.
            StateConflict: it does not wait.
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, Unavailable: as for a submission.
        """
        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            await recall.session(SessionId(session_id))
            known = self._state.sessions.get(SessionId(session_id))
            asked = known
            if known is not None:
                check_may_change(caller, known)
                asked = amended(self._state, known, amendment, caller)
                await self._creation.check(asked)

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            _check_whole(session, index)
            if asked is None or known is None or session != known:
                raise version_conflict(session, expected=session.version if known is None else known.version)
            self._creation.budgets.check_change(draft, caller, session, now_us=self._clock.now_us())
            return session if asked == session else draft.put(asked, "request_changed")

        return await self._change(caller, session_id, expected_version, change)

    async def extend_session(
        self, caller: Caller, session_id: str, seconds: float, expected_version: int | None
    ) -> SessionChanged:
        """Move the time limit of a running session, unless a session of another user or a booking would start later.

        Raises NotFound, Forbidden, VersionConflict, QuotaExceeded, and the errors of `with_request` and `decided`.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            _check_whole(session, index)
            now_us = self._clock.now_us()
            self._creation.budgets.check_longer(draft, caller, session, what="an extension", now_us=now_us)
            return draft.put(with_request(draft, session, seconds=seconds), "extension_requested")

        asked = await self._change(caller, session_id, expected_version, change)
        session = await decided(SessionId(asked.session.id), state=self._state, journal=self._journal, feed=self._feed)
        return self._changed(caller, session)

    async def keep_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        """State that a session is still needed although it does not use its GPUs; see `core.idle_process`.

        Raises:
            NotFound, Forbidden, VersionConflict.
            StateConflict: no step was taken against it.
        """

        def change(draft: UnitOfWork, session: Session, index: int | None) -> Session:
            _check_whole(session, index)
            if not keep(draft, session, now_us=self._clock.now_us()):
                raise conflict(session, "it is not reported for unused GPUs, so there is nothing to keep")
            return session

        return await self._change(caller, session_id, expected_version, change)

    async def _check_again(self, caller: Caller, session_id: str) -> None:
        """Check a session that is to run again as a submission is; for errors see `retry_session`. The change itself
        refuses unknown sessions and external allocations."""
        known = self._state.sessions.get(SessionId(session_id)) or self._state.sessions.get(task_parts(session_id)[0])
        if known is None or known.is_external_allocation:
            return
        check_may_change(caller, known)
        self._check_rate(caller, sessions=1)
        check_project(caller, known.project)
        await self._creation.check(known)

    def _may_release(self, caller: Caller, task: Session) -> bool:
        try:
            check_may_release(caller, task, users=self._state.people.users)
        except Forbidden:
            return False
        return task.held_by != HELD_BY_ARRAY

    def _check_rate(self, caller: Caller, *, sessions: int) -> None:
        check_may_submit(caller)
        if self._rate_limit is not None:
            self._rate_limit.check(caller, sessions=sessions)

    async def _change(
        self,
        caller: Caller,
        session_id: str,
        expected_version: int | None,
        change: Callable[[UnitOfWork, Session, int | None], Session],
    ) -> SessionChanged:
        """Change a session. For a task without a session of its own, `change` gets the array and the task's index."""

        def on_draft(draft: UnitOfWork) -> Session:
            session, index = self._found(draft, session_id)
            check_may_change(caller, session)
            if expected_version is not None and expected_version != session.version:
                raise version_conflict(session, expected=expected_version)
            return change(draft, session, index)

        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            await recall.session(SessionId(session_id))
            session = await self._journal.transact(
                on_draft, actor=caller.actor, request_id=RequestId(caller.request_id)
            )
            return self._changed(caller, session)

    def _found(self, draft: UnitOfWork, session_id: str) -> tuple[Session, int | None]:
        session = draft.session(SessionId(session_id))
        if session is not None:
            return session, None
        array_id, index = task_parts(session_id)
        array = draft.session(array_id)
        if array is not None and array.tasks is not None and index is not None:
            without_session = (array.tasks.waiting, array.tasks.canceled)
            if any(index in indices for indices in without_session):
                return array, index
        raise NotFound(f"there is no session {session_id[:ID_CHARS_MAX]}", kind="session", id=session_id[:ID_CHARS_MAX])

    def _changed(self, caller: Caller, session: Session, *, created: bool = False) -> SessionChanged:
        view = session_seen(caller, session_view(self._state, self._state.sessions.get(session.id, session)))
        return SessionChanged(session=view, revision=self._state.revision, created=created)


def _waiting_again(session: Session, index: int | None) -> Session:
    """What waits after a retry, to be counted: the session, one task of it, or the tasks that run again."""
    if index is not None or session.tasks is None:
        return replace(session, tasks=None)
    return replace(session, tasks=replace(session.tasks, waiting=arrays.to_retry(session)))


def _prioritized(caller: Caller, draft: UnitOfWork, session: Session, index: int | None, *, level: Priority) -> Session:
    _check_whole(session, index)
    if session.is_ended:
        raise conflict(session, "it has ended, so its priority cannot be changed")
    check_priority(caller, level, draft.policy())
    for task in _tasks_in(draft, session):
        if task.priority is not level:
            draft.put(replace(task, priority=level), "priority_changed")
    return session if session.priority is level else draft.put(replace(session, priority=level), "priority_changed")


def _check_whole(session: Session, index: int | None) -> None:
    if index is not None:
        name = task_id(session.id, index=index)
        raise StateConflict(
            f"{name} has no session of its own yet; apply this to the whole array {session.id}",
            id=name,
            state=session.state,
        )


def _check_checkpoint(session: Session, index: int | None) -> None:
    """Refuse to start from a checkpoint that does not exist."""
    _check_whole(session, index)
    if session.tasks is not None:
        raise conflict(session, "an array has no checkpoint of its own; retry its tasks one by one")
    if session.work is None or not session.work.kept_ms:
        raise conflict(session, "it has acknowledged no checkpoint; retry it without --from-checkpoint")


def _tasks_in(draft: UnitOfWork, array: Session, *states: SessionState) -> list[Session]:
    """The tasks of an array that have a session of their own in these states; without any, in all but ended ones."""
    found = [draft.session(task_id(array.id, index=index)) for index in (array.tasks.active if array.tasks else ())]
    return [task for task in found if task is not None and (task.state in states if states else not task.is_ended)]


def _check_own_hold(session: Session) -> None:
    if session.held_by == HELD_BY_ARRAY:
        text = f"its array {session.array_id} starts it when fewer of its tasks run; hold or release the array"
        raise conflict(session, text)
