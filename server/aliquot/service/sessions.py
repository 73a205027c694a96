"""Sessions: create, cancel, and change what may be changed."""

from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot.core.admission import priority_of
from aliquot.service.creation import Creation
from aliquot.service.dispatch import Dispatch
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.kernel_reports import stop_kernels
from aliquot.service.ports import Clock
from aliquot.service.projection import session_view
from aliquot.service.state import State
from aliquot_schema.errors import NotFound, StateConflict, VersionConflict
from aliquot_schema.ids import RequestId, SessionId
from aliquot_schema.requests import Caller, NewSession, SessionChanged
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

ID_CHARS_MAX: Final = 80


class Sessions:
    """What people do to sessions. Every method returns after the commit."""

    def __init__(self, *, state: State, journal: Journal, dispatch: Dispatch, creation: Creation, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._dispatch = dispatch
        self._creation = creation
        self._clock = clock

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged:
        """Put a session into the queue; see `Creation.create` for what it refuses."""
        session, is_new = await self._creation.create(caller, request)
        return self._changed(session, created=is_new)

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        """End a session at once; its kernels are stopped, and hold their devices until they are gone.

        Canceling twice is no error.

        Raises:
            NotFound, VersionConflict, StateConflict: it ended in another way before.
        """

        def change(draft: Draft) -> Session:
            session = self._found(draft, session_id, expected_version)
            if session.state is SessionState.CANCELED:
                return session
            if session.is_ended:
                raise StateConflict(
                    f"{session.id} is {session.state}; it cannot be canceled any more",
                    id=session.id,
                    state=session.state,
                )
            now_us = self._clock.now_us()
            canceled = draft.put(transitions.cancel(session, now_us=now_us), "canceled")
            left = [kernel for kernel in draft.kernels_in(session) if kernel.state is not KernelState.EXITED]
            stopping = stop_kernels(draft, left, now_us=now_us)
            draft.afterwards.append(lambda: self._dispatch.stop(stopping))
            return canceled

        session = await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return self._changed(session)

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged:
        """Change how urgent a session is, for order policies that look at it.

        Raises:
            NotFound, VersionConflict, InvalidRequest, StateConflict: it has ended.
        """
        level = priority_of(priority)

        def change(draft: Draft) -> Session:
            session = self._found(draft, session_id, expected_version)
            if session.is_ended:
                raise StateConflict(
                    f"{session.id} is {session.state}; its priority means nothing any more",
                    id=session.id,
                    state=session.state,
                )
            if session.priority is level:
                return session
            return draft.put(replace(session, priority=level), "priority_changed")

        session = await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return self._changed(session)

    def _found(self, draft: Draft, session_id: str, expected_version: int | None) -> Session:
        session = draft.session(SessionId(session_id))
        if session is None:
            raise NotFound(
                f"there is no session {session_id[:ID_CHARS_MAX]}", kind="session", id=session_id[:ID_CHARS_MAX]
            )
        if expected_version is not None and expected_version != session.version:
            raise VersionConflict(
                f"{session.id} has version {session.version} by now, not {expected_version}; read it again",
                id=session.id,
                expected=expected_version,
                actual=session.version,
            )
        return session

    def _changed(self, session: Session, *, created: bool = False) -> SessionChanged:
        newest = self._state.sessions.get(session.id, session)
        return SessionChanged(session=session_view(self._state, newest), revision=self._state.revision, created=created)
