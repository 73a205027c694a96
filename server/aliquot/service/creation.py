"""Creation: from a request to a committed session, or to a typed error at once."""

import hashlib
import json
from typing import Final

from aliquot.core.admission import label, priority_of, spec_of, tags_of
from aliquot.core.feasibility import impossible
from aliquot.core.policy import Policy
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.ports import Clock, DuplicateKey, Ids, Store
from aliquot.service.snapshots import agent_row, is_present
from aliquot.service.state import State
from aliquot_schema.errors import IdempotencyMismatch, InvalidRequest, UnknownDependency, UnknownSlot
from aliquot_schema.ids import SESSION_PREFIX, RequestId, SessionId
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.sessions import Session, SessionSpec

KEY_CHARS_MAX: Final = 256


class Creation:
    """Creates sessions. Everything that can be known now is checked now."""

    def __init__(self, *, state: State, journal: Journal, store: Store, clock: Clock, ids: Ids, policy: Policy) -> None:
        self._state = state
        self._journal = journal
        self._store = store
        self._clock = clock
        self._ids = ids
        self._policy = policy

    async def create(self, caller: Caller, request: NewSession) -> tuple[Session, bool]:
        """Commit a session and return it, and whether it is new.

        Raises:
            InvalidRequest, UnknownSlot, ImpossibleRequest, UnknownDependency, IdempotencyMismatch: nothing is kept.
        """
        session = self._session(caller, request)
        known = self._known(session)
        if known is not None:
            return known, False
        await self._check(session.spec)
        return await self._insert(caller, session)

    async def _insert(self, caller: Caller, session: Session) -> tuple[Session, bool]:
        def change(draft: Draft) -> Session:
            return draft.put(session, "queued")

        try:
            kept = await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        except DuplicateKey:
            return await self._other_of_key(session), False
        return kept, True

    def _session(self, caller: Caller, request: NewSession) -> Session:
        key = request.idempotency_key
        if key is not None and not 0 < len(key) <= KEY_CHARS_MAX:
            raise InvalidRequest(f"idempotency_key: give 1 to {KEY_CHARS_MAX} characters", field="idempotency_key")
        return Session(
            id=SessionId(self._ids.new(SESSION_PREFIX)),
            version=0,
            owner=caller.user,
            name=label(request.name, field="name"),
            run_id=label(request.run_id, field="run_id"),
            tags=tags_of(request.tags),
            spec=spec_of(request),
            priority=priority_of(request.priority),
            queued_us=self._clock.now_us(),
            idempotency_key=label(key, field="idempotency_key"),
            request_hash=None if key is None else hash_of(request),
        )

    def _known(self, session: Session) -> Session | None:
        if session.idempotency_key is None:
            return None
        known = self._state.by_key(session.owner, session.idempotency_key)
        return None if known is None else _same(known, session)

    async def _other_of_key(self, session: Session) -> Session:
        """The session that took the key first: in the state soon, or in the store since long."""
        assert session.idempotency_key is not None, "an id made here was there before"
        known = await self._store.session_by_key(session.owner, session.idempotency_key)
        assert known is not None, "a key was taken, and nobody has it"
        if known.id not in self._state.sessions:
            await self._journal.catch_up()
        return _same(known, session)

    async def _check(self, spec: SessionSpec) -> None:
        agents = [
            agent_row(self._state, agent, is_open=True) for agent in self._state.agents.values() if is_present(agent)
        ]
        if agents:
            self._check_slots(spec)
            refusal = impossible(spec, agents, self._policy.allocation)
            if refusal is not None:
                raise refusal
        for link in spec.depends_on:
            if link.session_id not in self._state.sessions:
                await self._recall(link.session_id)

    async def _recall(self, session_id: SessionId) -> None:
        """Have an old session in memory that a new one waits for: passes look there alone."""
        records = await self._store.session_records(session_id)
        if not records:
            raise UnknownDependency(f"depends_on: there is no session {session_id[:80]}", session_id=session_id[:80])
        self._state.recall(records)

    def _check_slots(self, spec: SessionSpec) -> None:
        known = tuple(sorted(slot.id for slot in self._state.slots.values() if not slot.retired))
        for slot in spec.slots:
            if slot not in known:
                raise UnknownSlot(
                    f"slots: no agent ever had {slot}; known are {', '.join(known)}", slot=slot, known=known
                )


def hash_of(request: NewSession) -> str:
    """A hash of what was asked, so that a retry can be told from another request under the same key."""
    parts = {name: getattr(request, name) for name in NewSession.__dataclass_fields__ if name != "idempotency_key"}
    text = json.dumps(parts, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _same(known: Session, session: Session) -> Session:
    if known.request_hash != session.request_hash:
        raise IdempotencyMismatch(
            f"idempotency_key: it was used for {known.id} with another request; use a new key for a new request",
            key=session.idempotency_key or "",
            session_id=known.id,
        )
    return known
