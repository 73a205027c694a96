"""Submission: turns requests into committed sessions, or into a typed error."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import Final

from msgspec.structs import asdict, replace

from aliquot.core.validation.fields import label, tasks_of
from aliquot.core.validation.session import priority_of, spec_of, tags_of
from aliquot.service.access import check_may_submit, check_priority, check_project
from aliquot.service.accounts.key_budgets import KeyBudgets, key_of
from aliquot.service.ports import Clock, DuplicateKey, Ids, Store
from aliquot.service.sessions.batches import (
    ErrorWrapper,
    check_batch,
    unchanged,
    with_ids,
    with_position,
    wrapping_errors,
)
from aliquot.service.sessions.submission_checks import (
    DEFAULT_QUEUE_LIMIT,
    QueueLimit,
    SubmissionPolicyCheck,
    check_project_exists,
    check_queue,
    check_session,
    complete,
)
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.bookings import BookingKind
from aliquot_schema.errors import AliquotError, Forbidden, IdempotencyMismatch, InvalidRequest, UnknownDependency
from aliquot_schema.ids import SESSION_PREFIX, BookingId, PoolId, ProjectId, RequestId, SessionId, task_parts
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.sessions import DEFAULT_POOL, DEFAULT_PROJECT, Session
from aliquot_schema.states import SessionState

KEY_CHARS_MAX: Final = 256
SESSIONS_PER_STEP: Final = 50
"""Sessions of a batch that are checked before the event loop gets a turn."""
TRIES_MAX: Final = 8
"""Attempts to commit a batch while concurrent submissions take its idempotency keys."""


class Submission:
    """Checks and commits new sessions."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        store: Store,
        clock: Clock,
        ids: Ids,
        vetting: SubmissionPolicyCheck | None = None,
        queue_limit: QueueLimit = DEFAULT_QUEUE_LIMIT,
    ) -> None:
        """
        Args:
            vetting: checks outside the cluster state, such as secrets and commands; None = no such checks.
            queue_limit: limits of waiting tasks, over all users and of one user.
        """
        self._state = state
        self._journal = journal
        self._store = store
        self._clock = clock
        self._ids = ids
        self._vetting = vetting
        self._queue_limit = queue_limit
        self.budgets: Final = KeyBudgets(state, monotonic=clock.monotonic)

    async def create(self, caller: Caller, request: NewSession) -> tuple[Session, bool]:
        """Commit a session; returns it and whether it is new.

        Raises:
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, UnknownDependency,
            IdempotencyMismatch, Forbidden: the session is not stored.
        """
        if request.local_name is not None:
            raise InvalidRequest("local_name: it may only be set in create_sessions", field="local_name")
        check_may_submit(caller)
        self._check_preview(caller, request)
        [(session, is_new)] = await self._commit(caller, [self._session(caller, request)])
        return session, is_new

    async def dry_run(self, caller: Caller, request: NewSession, *, with_vetting: bool = True) -> Session:
        """Dry run: the session that `create` would commit now; raises the same errors.

        Args:
            with_vetting: False skips the checks of secrets and commands, for a session that is never submitted.
        """
        check_may_submit(caller)
        session = self._session(caller, replace(request, local_name=None, idempotency_key=None))
        await self._check([session], unchanged, vetting=self._vetting if with_vetting else None)
        self.check_queue(caller, [session])
        self.budgets.note_preview(caller, lambda: hash_of(replace(request, local_name=None)))
        return session

    async def check(self, session: Session) -> None:
        """Check a waiting session with another request as if it were submitted now; raises the errors of `create`."""
        await self._check([session], unchanged, vetting=self._vetting)

    async def create_all(self, caller: Caller, requests: Sequence[NewSession]) -> list[tuple[Session, bool]]:
        """Commit a batch, all of it or nothing, and return its sessions in the order given; see `create`."""
        check_may_submit(caller)
        check_batch(requests)
        for request in requests:
            self._check_preview(caller, request)
        known = [self._by_key(caller, request) for request in requests]
        ids = [session.id if session is not None else self._fresh_id() for session in known]
        named = {request.local_name: ids[position] for position, request in enumerate(requests) if request.local_name}
        sessions = []
        for position, request in enumerate(requests):
            await yield_turn(position)
            try:
                sessions.append(self._session(caller, request, session_id=ids[position], named=named))
            except AliquotError as error:
                raise with_position(error, request, position=position) from None
        positions = {session.id: position for position, session in enumerate(sessions)}

        def wrap(error: AliquotError, session: Session) -> AliquotError:
            position = positions[session.id]
            return with_position(error, requests[position], position=position)

        return await self._commit(caller, sessions, wrap=wrap)

    async def _commit(
        self, caller: Caller, sessions: Sequence[Session], *, wrap: ErrorWrapper = unchanged
    ) -> list[tuple[Session, bool]]:
        for _ in range(TRIES_MAX):
            before = [self._known(session, wrap) for session in sessions]
            fresh = [session for session, known in zip(sessions, before, strict=True) if known is None]
            await self._check(fresh, wrap, vetting=self._vetting)
            try:
                made = await self._insert(caller, fresh)
            except DuplicateKey:
                await self._load_key_holders(fresh)
                continue
            return [(known, False) if known is not None else (made.pop(0), True) for known in before]
        raise AssertionError(f"concurrent submissions took the keys of a batch of {caller.user} {TRIES_MAX} times")

    async def _insert(self, caller: Caller, sessions: Sequence[Session]) -> list[Session]:
        def change(draft: UnitOfWork) -> list[Session]:
            self.check_queue(caller, sessions)
            if caller.key_id is not None:
                self.budgets.count(draft, caller, sessions, now_us=self._clock.now_us())
            return [draft.put(session, str(session.state)) for session in sessions]

        return await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))

    def _check_preview(self, caller: Caller, request: NewSession) -> None:
        """A repeated call returns the first session, so it needs no preview."""
        if caller.key_id is not None and self._by_key(caller, request) is None:
            self.budgets.check_preview(caller, lambda: hash_of(replace(request, local_name=None)))

    def check_queue(self, caller: Caller, sessions: Sequence[Session]) -> None:
        """See `submission_checks.check_queue`."""
        check_queue(self._state, sessions, limit=self._queue_limit, is_operator=caller.role >= Role.OPERATOR)

    def _session(
        self,
        caller: Caller,
        request: NewSession,
        *,
        session_id: SessionId | None = None,
        named: dict[str, SessionId] | None = None,
    ) -> Session:
        key, asked = request.idempotency_key, request
        if key is not None and not 0 < len(key) <= KEY_CHARS_MAX:
            raise InvalidRequest(f"idempotency_key: give 1 to {KEY_CHARS_MAX} characters", field="idempotency_key")
        priority = priority_of(request.priority)
        check_priority(caller, priority, self._state.policy)
        project = _project(request.project, caller)
        check_project(caller, project)
        if project not in caller.projects:
            check_project_exists(self._state, project)
        pool = PoolId(label(request.pool, field="pool") or DEFAULT_POOL)
        request = complete(self._state, with_ids(request, named) if named else request, pool=pool)
        spec, booking = spec_of(request), self._booking(caller, request)
        return Session(
            id=session_id or self._fresh_id(),
            version=1,
            owner=caller.user,
            project=project,
            pool=pool,
            name=label(request.name, field="name") or None,
            run_id=label(request.run_id, field="run_id"),
            tags=tags_of(request.tags),
            spec=spec if booking is None else replace(spec, booking=booking),
            priority=priority,
            state=SessionState.HELD if request.held else SessionState.QUEUED,
            held_by=caller.user if request.held else None,
            queued_us=self._clock.now_us(),
            idempotency_key=label(key, field="idempotency_key"),
            request_hash=None if key is None else hash_of(asked),
            tasks=tasks_of(request),
            key_id=None if caller.key_id is None else key_of(caller),
        )

    def _booking(self, caller: Caller, request: NewSession) -> BookingId | None:
        """The booking that a request names; operators may name any by its id."""
        if request.booking is None:
            return None
        found = self._state.bookings.named(request.booking, caller=caller)
        if found is None:
            name = request.booking[:80]
            raise InvalidRequest(
                f"booking: there is no open booking {name} of yours or of your projects", field="booking"
            )
        if found.kind is BookingKind.MAINTENANCE:
            raise InvalidRequest(f"booking: {found.name} is for maintenance, so nothing runs in it", field="booking")
        is_own = caller.user == found.owner or found.project in caller.projects
        if not is_own and caller.role < Role.OPERATOR:
            raise Forbidden(f"booking: {found.name} belongs to {found.owner}, and you are not in its project")
        return found.id

    def _fresh_id(self) -> SessionId:
        return SessionId(self._ids.new(SESSION_PREFIX))

    def _by_key(self, caller: Caller, request: NewSession) -> Session | None:
        key = request.idempotency_key
        return None if key is None else self._state.by_key(caller.user, key)

    def _known(self, session: Session, wrap: ErrorWrapper) -> Session | None:
        key = session.idempotency_key
        if key is None or (known := self._state.by_key(session.owner, key)) is None:
            return None
        with wrapping_errors(wrap, session):
            return _same(known, session)

    async def _load_key_holders(self, sessions: Sequence[Session]) -> None:
        """Load the sessions that took the keys first: new ones come by the event log, evicted ones from the store."""
        for session in sessions:
            if session.idempotency_key is None:
                continue
            other = await self._store.session_by_key(session.owner, session.idempotency_key)
            if other is not None and other.id not in self._state.sessions:
                await self._journal.catch_up()
                if other.id not in self._state.sessions:
                    self._state.recall(await self._store.session_records(other.id))

    async def _check(
        self, sessions: Sequence[Session], wrap: ErrorWrapper, *, vetting: SubmissionPolicyCheck | None
    ) -> None:
        for position, session in enumerate(sessions):
            await yield_turn(position)
            try:
                check_session(self._state, session)
            except AliquotError as error:
                raise wrap(error, session) from None
        if vetting is not None:
            await vetting.check(sessions, wrap=wrap)
        own = {session.id for session in sessions}
        for session in sessions:  # last: recalled sessions are soon evicted again
            for link in session.spec.depends_on:
                if link.session_id not in own and link.session_id not in self._state.sessions:
                    with wrapping_errors(wrap, session):
                        await self._recall(link.session_id)

    async def _recall(self, session_id: SessionId) -> None:
        """Load an ended dependency: scheduling passes read dependencies from memory only."""
        records = await self._store.session_records(session_id)
        if records:
            self._state.recall(records)
        elif not self._is_task(session_id):
            raise UnknownDependency(f"depends_on: there is no session {session_id[:80]}", session_id=session_id[:80])

    def _is_task(self, session_id: SessionId) -> bool:
        """Whether it is a task without a session of its own yet."""
        array_id, index = task_parts(session_id)
        array = self._state.sessions.get(array_id)
        return array is not None and array.tasks is not None and index is not None and index in array.tasks.waiting


async def yield_turn(position: int) -> None:
    """Give the event loop a turn after every `SESSIONS_PER_STEP` sessions of a large batch."""
    if position % SESSIONS_PER_STEP == SESSIONS_PER_STEP - 1:
        await asyncio.sleep(0)


def hash_of(request: NewSession) -> str:
    """Hash of a request, to tell a retry from another request with the same idempotency key."""
    parts = {name: getattr(request, name) for name in NewSession.__struct_fields__ if name != "idempotency_key"}
    # Fields that were not part of the hash in earlier versions.
    if request.booking is None:
        del parts["booking"]
    if not request.apps:
        del parts["apps"]
    for name in ("workspace", "activates", "image", "shares_access", "preflight", "preflight_limit"):
        if not parts[name] and parts[name] != ():
            del parts[name]
    parts["fallbacks"] = [asdict(fallback) for fallback in request.fallbacks]
    text = json.dumps(parts, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _project(text: str | None, caller: Caller) -> ProjectId:
    """The requested project; without one the caller's only project, or the default project."""
    name = label(text, field="project")
    if name is not None and "/" in name:
        raise InvalidRequest("project: a project's name must not contain a slash", field="project")
    if name is None and len(caller.projects) == 1:
        return caller.projects[0]
    return ProjectId(name or DEFAULT_PROJECT)


def _same(known: Session, session: Session) -> Session:
    if known.request_hash != session.request_hash:
        raise IdempotencyMismatch(
            f"idempotency_key: it was used for {known.id} with another request; use a new key for a new request",
            key=session.idempotency_key or "",
            session_id=known.id,
        )
    return known
