"""Budgets of API keys: GPU-hours and sessions, and the rule that each request is previewed before it is submitted."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import Forbidden, QuotaExceeded
from aliquot_schema.identity.accounts import KEY_PREFIX, ApiKey
from aliquot_schema.ids import KeyId
from aliquot_schema.requests import Caller
from aliquot_schema.sessions import Session

GPU_HOUR: Final = 1000 * 3_600_000
"""In milli of a device x milliseconds."""
PREVIEWED_S: Final = 600.0
"""How long a preview allows the submission of the same request."""
PREVIEWS_MAX: Final = 10_000
"""Previews in memory, over all keys; the oldest are dropped first."""


class KeyBudgets:
    """Checks of submissions with an API key. Previews are kept in memory, so each server knows its own alone."""

    def __init__(self, state: State, *, monotonic: Callable[[], float]) -> None:
        self._state = state
        self._monotonic = monotonic
        self._previews: dict[tuple[KeyId, str], float] = {}
        """When a key last previewed a request, by the request's hash; the oldest first."""

    def note_preview(self, caller: Caller, request_hash: Callable[[], str]) -> None:
        """Remember that a request was previewed with the caller's key."""
        key = _key_of(self._state, caller)
        if key is None or not key.dry_run_first:
            return
        place = key.id, request_hash()
        self._previews.pop(place, None)
        self._previews[place] = self._monotonic()
        while len(self._previews) > PREVIEWS_MAX:
            del self._previews[next(iter(self._previews))]

    def check_preview(self, caller: Caller, request_hash: Callable[[], str]) -> None:
        """Check that a request was previewed, if the caller's key requires it.

        Raises:
            Forbidden: it was not; the message says what to do.
        """
        key = _key_of(self._state, caller)
        if key is None or not key.dry_run_first:
            return
        at_s = self._previews.get((key.id, request_hash()))
        if at_s is None or self._monotonic() - at_s > PREVIEWED_S:
            raise Forbidden(
                f"key {key.name} must preview each request before it submits it: ask for the preview of exactly this "
                "request (preview_session, `--preview`, or `dry_run` of an MCP tool), then submit it within 10 minutes"
            )

    def count(self, draft: UnitOfWork, caller: Caller, sessions: Sequence[Session], *, now_us: int) -> None:
        """Count new sessions of the caller's key, in the commit that creates them.

        Raises:
            QuotaExceeded: the key's budget does not allow them.
        """
        key = None if caller.key_id is None else draft.key(caller.key_id)
        if key is None or not key.has_budget or not sessions:
            return
        new = sum(1 if one.tasks is None else len(one.tasks.waiting) for one in sessions)
        self._check_use(key, now_us=now_us)
        if key.sessions_max is not None and key.submitted + new > key.sessions_max:
            left = max(key.sessions_max - key.submitted, 0)
            raise _exceeded(key, "sessions", f"{new}", f"{key.sessions_max}", f"has {left} left and needs {new}")
        draft.merge(replace(key, submitted=key.submitted + new), "counted")

    def check_longer(self, draft: UnitOfWork, caller: Caller, session: Session, *, what: str, now_us: int) -> None:
        """Check that the caller's key may retry or extend a session.

        Args:
            what: `a retry` or `an extension`.
        Raises:
            Forbidden: the key must preview each request; or it has a budget of GPU-hours, and the session is charged
                to another key or to none.
            QuotaExceeded: its budget is used up.
        """
        key = None if caller.key_id is None else draft.key(caller.key_id)
        if key is None:
            return
        _check_has_preview(key, what)
        _check_charged(key, session, anew="submit a new session")
        self._check_use(key, now_us=now_us)
        if key.sessions_max is not None and key.submitted >= key.sessions_max:
            raise _exceeded(key, "sessions", "1", f"{key.sessions_max}", "has 0 left")

    def check_change(self, draft: UnitOfWork, caller: Caller, session: Session, *, now_us: int) -> None:
        """Check that the caller's key may change the request of a waiting session.

        Raises:
            Forbidden: it must preview each request, and a changed one was not previewed; or as for `check_longer`.
            QuotaExceeded: its GPU-hours are used up.
        """
        key = None if caller.key_id is None else draft.key(caller.key_id)
        if key is None:
            return
        if key.dry_run_first:
            raise Forbidden(
                f"key {key.name} must preview each request before it submits it, so it cannot change one: cancel the "
                "session, preview the new request, and submit it"
            )
        _check_charged(key, session, anew="submit a new session")
        self._check_use(key, now_us=now_us)

    def _check_use(self, key: ApiKey, *, now_us: int) -> None:
        if key.gpu_use_max is None:
            return
        used = key.gpu_use + open_use(self._state, key.id, now_us=now_us)
        if used >= key.gpu_use_max:
            limit = f"{key.gpu_use_max / GPU_HOUR:g}"
            raise _exceeded(key, "GPU-hours", f"{used / GPU_HOUR:.2f}", limit, f"has used {used / GPU_HOUR:.2f}")


def check_shared(state: State, caller: Caller, held: Session) -> None:
    """Check that the caller's key may renew and use an external allocation. Its own it renews with a spent budget too.

    Raises:
        Forbidden: the key has a budget of GPU-hours, and the allocation is charged to another key or to none.
    """
    key = _key_of(state, caller)
    if key is not None:
        _check_charged(key, held, anew="allocate under another job_id")


def _check_charged(key: ApiKey, session: Session, *, anew: str) -> None:
    if key.gpu_use_max is not None and session.key_id != key.id:
        raise Forbidden(
            f"key {key.name} has a budget of GPU-hours, and those of {session.id}, which was not submitted with it, "
            f"are not charged to it: {anew} with it, or use another key"
        )


def refuse_booking(state: State, caller: Caller) -> None:
    """Bookings are charged to users, not to keys, so a key with a budget of GPU-hours books nothing; nor does one that
    must preview each request, as the preview of a file of bookings is not remembered.

    Raises:
        Forbidden: the caller's key is one of them.
    """
    key = _key_of(state, caller)
    if key is None:
        return
    _check_has_preview(key, "a booking")
    if key.gpu_use_max is not None:
        raise Forbidden(
            f"key {key.name} has a budget of GPU-hours, and what a booking keeps free is not charged to keys: book "
            "with another key, or on the page Calendar"
        )


def refuse_allocation(state: State, caller: Caller) -> None:
    """An external allocation has no preview, so a key that must preview each request makes none.

    Raises:
        Forbidden: the caller's key must.
    """
    key = _key_of(state, caller)
    if key is not None:
        _check_has_preview(key, "an allocation")


def _check_has_preview(key: ApiKey, what: str) -> None:
    """Check that a key may do something that has no preview."""
    if key.dry_run_first:
        raise Forbidden(
            f"key {key.name} must preview each request before it submits it, and {what} has no preview: submit a "
            "session that you have previewed, or use another key"
        )


def open_use(state: State, key_id: KeyId, *, now_us: int) -> int:
    """What the running sessions of a key have held so far, in milli of a device x milliseconds."""
    found = 0
    for leases in state.open_leases.values():
        for lease in leases.values():
            session = None if lease.session_id is None else state.sessions.get(lease.session_id)
            if session is not None and session.key_id == key_id:
                found += state.books.rate(lease.id) * max(now_us // 1000 - lease.granted_us // 1000, 0)
    return found


def key_of(caller: Caller) -> KeyId | None:
    """The API key that a caller used; None for other tokens."""
    return caller.key_id if caller.key_id is not None and caller.key_id.startswith(KEY_PREFIX) else None


def _exceeded(key: ApiKey, resource: str, requested: str, limit: str, why: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"The budget of key {key.name} is {limit} {resource}; it {why}. Ask an admin for a key with a larger one",
        quota=f"key:{key.id}",
        resource=resource,
        requested=requested,
        limit=limit,
    )


def _key_of(state: State, caller: Caller) -> ApiKey | None:
    return None if caller.key_id is None else state.people.keys.get(caller.key_id)
