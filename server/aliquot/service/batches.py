"""Batches: sessions that are submitted together, and name each other before they have ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from aliquot_schema.errors import AliquotError, InvalidRequest, LimitExceeded, UnknownDependency
from aliquot_schema.ids import SESSION_PREFIX, SessionId
from aliquot_schema.requests import NewSession
from aliquot_schema.sessions import BATCH_SESSIONS_MAX, Session

Told = Callable[[AliquotError, Session], AliquotError]
"""Makes of what stands against a session what the one hears who submitted it."""

NAME_CHARS_MAX: Final = 128
NAMED_MAX: Final = 10
"""Names written out in a message."""


def check_batch(requests: Sequence[NewSession]) -> None:
    """Refuse a batch that cannot be as it is by its names alone.

    Raises:
        InvalidRequest: it is empty or too long, a name is there twice, or sessions wait for each other in a circle.
        UnknownDependency: names that no session of the batch has.
    """
    if not requests:
        raise InvalidRequest("sessions: the batch is empty; give at least one", field="sessions")
    if len(requests) > BATCH_SESSIONS_MAX:
        raise LimitExceeded(
            f"sessions: {len(requests)} are more than {BATCH_SESSIONS_MAX}; submit several batches, or a job array",
            field="sessions",
            limit=BATCH_SESSIONS_MAX,
            actual=len(requests),
        )
    places = _places(requests)
    _check_names(requests, places)
    cycle = _cycle(requests, places)
    if cycle:
        raise InvalidRequest(
            f"depends_on: {' -> '.join(cycle)} wait for each other; none of them could ever start", field="depends_on"
        )


def with_ids(request: NewSession, ids: Mapping[str, SessionId]) -> NewSession:
    """The request with ids in place of the local names that it waits for."""
    links = tuple((ids.get(named, named), condition) for named, condition in request.depends_on)
    return replace(request, depends_on=links)


def told_of(error: AliquotError, request: NewSession, *, place: int) -> AliquotError:
    """The error, saying which session of the batch it is about."""
    name = f" ({request.local_name})" if request.local_name else ""
    error.message = f"sessions[{place}]{name}: {error.message}"
    error.args = (error.message,)
    return error


@contextmanager
def telling(told: Told, session: Session) -> Iterator[None]:
    """What is raised inside is about this session."""
    try:
        yield
    except AliquotError as error:
        raise told(error, session) from None


def as_it_is(error: AliquotError, _session: Session) -> AliquotError:
    """Of a session that was submitted alone."""
    return error


def _places(requests: Sequence[NewSession]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, request in enumerate(requests):
        name = request.local_name
        if name is None:
            continue
        if not 0 < len(name) <= NAME_CHARS_MAX or name.startswith(SESSION_PREFIX):
            raise InvalidRequest(
                f"local_name: give 1 to {NAME_CHARS_MAX} characters that do not begin with {SESSION_PREFIX}",
                field="local_name",
            )
        if name in places:
            raise InvalidRequest(f"local_name: {name} is given to two sessions of the batch", field="local_name")
        places[name] = place
    return places


def _check_names(requests: Sequence[NewSession], places: Mapping[str, int]) -> None:
    named = dict.fromkeys(named for request in requests for named, _ in request.depends_on)
    unknown = [name for name in named if name not in places and not name.startswith(SESSION_PREFIX)]
    if unknown:
        more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
        listed = ", ".join(name[:NAME_CHARS_MAX] for name in unknown[:NAMED_MAX])
        raise UnknownDependency(
            f"depends_on: no session of the batch is named {listed}{more}; name one by its local_name or by its id",
            session_id=unknown[0][:NAME_CHARS_MAX],
        )


def _cycle(requests: Sequence[NewSession], places: Mapping[str, int]) -> list[str]:
    """Names along a circle of dependencies, the first one again at the end; empty when there is none."""
    after = {
        name: [named for named, _ in requests[place].depends_on if named in places] for name, place in places.items()
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
