"""Creation: from requests to committed sessions, or to a typed error at once."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from aliquot.core.admission import priority_of, spec_of, tags_of
from aliquot.core.admission_terms import tasks_of
from aliquot.core.field_checks import label
from aliquot.service.batches import Told, as_it_is, check_batch, telling, told_of, with_ids
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.permissions import check_may_submit, check_priority, check_project
from aliquot.service.ports import Clock, DuplicateKey, Ids, Store
from aliquot.service.state import State
from aliquot.service.submission_checks import PENDING_MAX, check_queue, check_session
from aliquot.service.vetting import Vetting
from aliquot_schema.errors import AliquotError, IdempotencyMismatch, InvalidRequest, UnknownDependency
from aliquot_schema.ids import SESSION_PREFIX, PoolId, ProjectId, RequestId, SessionId, task_parts
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.sessions import DEFAULT_POOL, DEFAULT_PROJECT, Session
from aliquot_schema.states import SessionState

KEY_CHARS_MAX: Final = 256
TRIES_MAX: Final = 8
"""A batch is tried anew so often when others take its keys meanwhile."""


class Creation:
    """Creates sessions. Everything that can be known now is checked now."""

    vetting: Vetting | None = None
    """What is asked of others first; None asks nobody."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        store: Store,
        clock: Clock,
        ids: Ids,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self._state = state
        self._journal = journal
        self._store = store
        self._clock = clock
        self._ids = ids
        self._pending_max = pending_max

    async def create(self, caller: Caller, request: NewSession) -> tuple[Session, bool]:
        """Commit a session and return it, and whether it is new.

        Raises:
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, UnknownDependency,
            IdempotencyMismatch, Forbidden: nothing is kept.
        """
        if request.local_name is not None:
            raise InvalidRequest("local_name: it has a meaning within create_sessions only", field="local_name")
        check_may_submit(caller)
        [(session, is_new)] = await self._commit(caller, [self._session(caller, request)])
        return session, is_new

    async def tried(self, caller: Caller, request: NewSession, *, vet: bool = True) -> Session:
        """The session that `create` would commit now, checked in the same way; raises the same errors.

        Args:
            vet: False asks nobody about it: it stands for something that is no session like others.
        """
        check_may_submit(caller)
        session = self._session(caller, replace(request, local_name=None, idempotency_key=None))
        await self._check([session], as_it_is, vetting=self.vetting if vet else None)
        check_queue(self._state, [session], pending_max=self._pending_max)
        return session

    async def create_all(self, caller: Caller, requests: Sequence[NewSession]) -> list[tuple[Session, bool]]:
        """Commit a batch, all of it or nothing, and return its sessions in the order given; see `create`."""
        check_may_submit(caller)
        check_batch(requests)
        known = [self._by_key(caller, request) for request in requests]
        ids = [session.id if session is not None else self._fresh_id() for session in known]
        named = {request.local_name: ids[place] for place, request in enumerate(requests) if request.local_name}
        sessions = []
        for place, request in enumerate(requests):
            try:
                sessions.append(self._session(caller, request, session_id=ids[place], named=named))
            except AliquotError as error:
                raise told_of(error, request, place=place) from None
        places = {session.id: place for place, session in enumerate(sessions)}

        def told(error: AliquotError, session: Session) -> AliquotError:
            place = places[session.id]
            return told_of(error, requests[place], place=place)

        return await self._commit(caller, sessions, told=told)

    async def _commit(
        self, caller: Caller, sessions: Sequence[Session], *, told: Told = as_it_is
    ) -> list[tuple[Session, bool]]:
        for _ in range(TRIES_MAX):
            before = [self._known(session) for session in sessions]
            fresh = [session for session, known in zip(sessions, before, strict=True) if known is None]
            await self._check(fresh, told, vetting=self.vetting)
            try:
                made = await self._insert(caller, fresh)
            except DuplicateKey:
                await self._take_in_others(fresh)
                continue
            return [(known, False) if known is not None else (made.pop(0), True) for known in before]
        raise AssertionError(f"the keys of a batch of {caller.user} were taken by others {TRIES_MAX} times")

    async def _insert(self, caller: Caller, sessions: Sequence[Session]) -> list[Session]:
        def change(draft: Draft) -> list[Session]:
            check_queue(self._state, sessions, pending_max=self._pending_max)
            return [draft.put(session, str(session.state)) for session in sessions]

        return await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))

    def _session(
        self,
        caller: Caller,
        request: NewSession,
        *,
        session_id: SessionId | None = None,
        named: dict[str, SessionId] | None = None,
    ) -> Session:
        key = request.idempotency_key
        if key is not None and not 0 < len(key) <= KEY_CHARS_MAX:
            raise InvalidRequest(f"idempotency_key: give 1 to {KEY_CHARS_MAX} characters", field="idempotency_key")
        priority = priority_of(request.priority)
        check_priority(caller, priority, self._state.policy)
        project = _project(request.project)
        check_project(caller, project)
        return Session(
            id=session_id or self._fresh_id(),
            version=0,
            owner=caller.user,
            project=project,
            pool=PoolId(label(request.pool, field="pool") or DEFAULT_POOL),
            name=label(request.name, field="name"),
            run_id=label(request.run_id, field="run_id"),
            tags=tags_of(request.tags),
            spec=spec_of(with_ids(request, named) if named else request),
            priority=priority,
            state=SessionState.HELD if request.held else SessionState.QUEUED,
            held_by=caller.user if request.held else None,
            queued_us=self._clock.now_us(),
            idempotency_key=label(key, field="idempotency_key"),
            request_hash=None if key is None else hash_of(request),
            tasks=tasks_of(request),
        )

    def _fresh_id(self) -> SessionId:
        return SessionId(self._ids.new(SESSION_PREFIX))

    def _by_key(self, caller: Caller, request: NewSession) -> Session | None:
        key = request.idempotency_key
        return None if key is None else self._state.by_key(caller.user, key)

    def _known(self, session: Session) -> Session | None:
        if session.idempotency_key is None:
            return None
        known = self._state.by_key(session.owner, session.idempotency_key)
        return None if known is None else _same(known, session)

    async def _take_in_others(self, sessions: Sequence[Session]) -> None:
        """Have the sessions that took keys first in memory: they are in the state soon, or in the store since long."""
        for session in sessions:
            if session.idempotency_key is None:
                continue
            other = await self._store.session_by_key(session.owner, session.idempotency_key)
            if other is not None and other.id not in self._state.sessions:
                await self._journal.catch_up()
                if other.id not in self._state.sessions:
                    self._state.recall(await self._store.session_records(other.id))

    async def _check(self, sessions: Sequence[Session], told: Told, *, vetting: Vetting | None) -> None:
        for session in sessions:
            try:
                check_session(self._state, session)
            except AliquotError as error:
                raise told(error, session) from None
        if vetting is not None:
            await vetting.check(sessions, told=told)
        own = {session.id for session in sessions}
        for session in sessions:  # last, for what is recalled stays in memory for a while only
            for link in session.spec.depends_on:
                if link.session_id not in own and link.session_id not in self._state.sessions:
                    with telling(told, session):
                        await self._recall(link.session_id)

    async def _recall(self, session_id: SessionId) -> None:
        """Have an old session in memory that a new one waits for: passes look there alone."""
        records = await self._store.session_records(session_id)
        if records:
            self._state.recall(records)
        elif not self._is_task(session_id):
            raise UnknownDependency(f"depends_on: there is no session {session_id[:80]}", session_id=session_id[:80])

    def _is_task(self, session_id: SessionId) -> bool:
        """Whether it is a task of an array that was not split off yet."""
        array_id, index = task_parts(session_id)
        array = self._state.sessions.get(array_id)
        return array is not None and array.tasks is not None and index is not None and index in array.tasks.waiting


def hash_of(request: NewSession) -> str:
    """A hash of what was asked, so that a retry can be told from another request under the same key."""
    parts = {name: getattr(request, name) for name in NewSession.__dataclass_fields__ if name != "idempotency_key"}
    parts["fallbacks"] = [asdict(fallback) for fallback in request.fallbacks]
    text = json.dumps(parts, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _project(text: str | None) -> ProjectId:
    name = label(text, field="project")
    if name is not None and "/" in name:
        raise InvalidRequest("project: a project's name holds no slash", field="project")
    return ProjectId(name or DEFAULT_PROJECT)


def _same(known: Session, session: Session) -> Session:
    if known.request_hash != session.request_hash:
        raise IdempotencyMismatch(
            f"idempotency_key: it was used for {known.id} with another request; use a new key for a new request",
            key=session.idempotency_key or "",
            session_id=known.id,
        )
    return known
