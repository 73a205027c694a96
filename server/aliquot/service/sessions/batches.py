"""Batches: sessions submitted together, which refer to each other by local names before they have ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from aliquot_schema.errors import AliquotError, InvalidRequest, LimitExceeded, UnknownDependency
from aliquot_schema.ids import SESSION_PREFIX, SessionId
from aliquot_schema.requests import NewSession
from aliquot_schema.sessions import BATCH_SESSIONS_MAX, Session

ErrorWrapper = Callable[[AliquotError, Session], AliquotError]
"""Adds to an error which session of the submission it is about."""

NAME_CHARS_MAX: Final = 128
NAMED_MAX: Final = 10
"""Names listed in an error message."""


def check_batch(requests: Sequence[NewSession]) -> None:
    """Check the size of a batch, its local names and its idempotency keys.

    Raises:
        InvalidRequest: the batch is empty, a name is malformed, a name or a key is used twice, or dependencies form a
            cycle.
        LimitExceeded: more than `BATCH_SESSIONS_MAX` sessions.
        UnknownDependency: a name that no session of the batch has.
    """
    if not requests:
        raise InvalidRequest("sessions: the batch is empty; give at least one", field="sessions")
    if len(requests) > BATCH_SESSIONS_MAX:
        raise LimitExceeded(
            f"sessions: the batch has {len(requests)} sessions, the limit is {BATCH_SESSIONS_MAX}; "
            "submit several batches, or a job array",
            field="sessions",
            limit=BATCH_SESSIONS_MAX,
            actual=len(requests),
        )
    _check_keys(requests)
    positions = _positions(requests)
    _check_names(requests, positions)
    cycle = _cycle(requests, positions)
    if cycle:
        raise InvalidRequest(
            f"depends_on: {' -> '.join(cycle)} is a cycle, so none of these sessions could ever start",
            field="depends_on",
        )


def check_ids(ids: Sequence[str]) -> None:
    """Check the size of a list of sessions to change together.

    Raises:
        InvalidRequest: it is empty.
        LimitExceeded: more than `BATCH_SESSIONS_MAX`.
    """
    if not ids:
        raise InvalidRequest("ids: the list is empty; give at least one session", field="ids")
    if len(ids) > BATCH_SESSIONS_MAX:
        raise LimitExceeded(
            f"ids: the list has {len(ids)} sessions, the limit is {BATCH_SESSIONS_MAX}; use several requests",
            field="ids",
            limit=BATCH_SESSIONS_MAX,
            actual=len(ids),
        )


def with_ids(request: NewSession, ids: Mapping[str, SessionId]) -> NewSession:
    """The request with the local names in `depends_on` replaced by ids."""
    links = tuple((ids.get(named, named), condition) for named, condition in request.depends_on)
    return replace(request, depends_on=links)


def with_position(error: AliquotError, request: NewSession, *, position: int) -> AliquotError:
    """The error with the index of its session in the batch, and the local name, in front of the message."""
    name = f" ({request.local_name})" if request.local_name else ""
    error.message = f"sessions[{position}]{name}: {error.message}"
    error.args = (error.message,)
    return error


@contextmanager
def wrapping_errors(wrap: ErrorWrapper, session: Session) -> Iterator[None]:
    """Wrap errors raised inside as errors about this session."""
    try:
        yield
    except AliquotError as error:
        raise wrap(error, session) from None


def unchanged(error: AliquotError, _session: Session) -> AliquotError:
    """The error of a session that was submitted alone: nothing to add."""
    return error


def _check_keys(requests: Sequence[NewSession]) -> None:
    positions: dict[str, int] = {}
    for position, request in enumerate(requests):
        key = request.idempotency_key
        first = position if key is None else positions.setdefault(key, position)
        if first != position:
            raise InvalidRequest(
                f"idempotency_key: sessions[{first}] and sessions[{position}] have the same one; give each its own",
                field="idempotency_key",
            )


def _positions(requests: Sequence[NewSession]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for position, request in enumerate(requests):
        name = request.local_name
        if name is None:
            continue
        if not 0 < len(name) <= NAME_CHARS_MAX or name.startswith(SESSION_PREFIX):
            raise InvalidRequest(
                f"local_name: give 1 to {NAME_CHARS_MAX} characters, not beginning with {SESSION_PREFIX}",
                field="local_name",
            )
        if name in positions:
            raise InvalidRequest(f"local_name: two sessions of the batch are named {name}", field="local_name")
        positions[name] = position
    return positions


def _check_names(requests: Sequence[NewSession], positions: Mapping[str, int]) -> None:
    named = dict.fromkeys(named for request in requests for named, _ in request.depends_on)
    unknown = [name for name in named if name not in positions and not name.startswith(SESSION_PREFIX)]
    if unknown:
        more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
        listed = ", ".join(name[:NAME_CHARS_MAX] for name in unknown[:NAMED_MAX])
        raise UnknownDependency(
            f"depends_on: no session of the batch is named {listed}{more}; give a local_name or a session id",
            session_id=unknown[0][:NAME_CHARS_MAX],
        )


def _cycle(requests: Sequence[NewSession], positions: Mapping[str, int]) -> list[str]:
    """Names along a dependency cycle, the first one repeated at the end; empty without a cycle."""
    after = {
        name: [named for named, _ in requests[position].depends_on if named in positions]
        for name, position in positions.items()
    }
    done: set[str] = set()
    for start in after:
        path: dict[str, None] = {}
        stack = [(start, iter(after[start]))] if start not in done else []
        path.update((name, None) for name, _ in stack)
        while stack:
            name, rest = stack[-1]
            following = next((other for other in rest if other not in done), None)
            if following is None:
                stack.pop()
                path.pop(name)
                done.add(name)
            elif following in path:
                names = list(path)
                return [*names[names.index(following) :], following]
            else:
                stack.append((following, iter(after[following])))
                path[following] = None
    return []
