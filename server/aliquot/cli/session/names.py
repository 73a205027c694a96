"""Names of sessions on the command line: a name, the beginning or the end of an id, `@last`, or a task of an array."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from aliquot.cli.connection.output import moment, printable
from aliquot.cli.connection.server import REFUSED, USAGE, fail

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.config import Place
    from aliquot.client.generated.inputs import DependencyInput
    from aliquot.client.generated.sessions import Session


LAST: Final = "@last"
SAME_NAME: Final = "@same-name"
"""As a dependency: the caller's sessions with the name of the new one that have not ended. `singleton` in Slurm."""
FORMS: Final = "a name, the beginning or the end of an id, @last, or ARRAY_3 for a task"
CANDIDATES_MAX: Final = 10
MATCHES_MAX: Final = 100
_WHOLE: Final = re.compile(r"ses_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(_\d+)?")
_PART: Final = re.compile(r"(ses_)?[0-9a-f-]{3,}")
_TASK: Final = re.compile(r"(?P<array>.+)_(?P<index>0|[1-9]\d*)")


def find_session(client: "BlockingClient", text: str) -> str:
    """The id of the session, or of the task of an array, that a text names.

    A session with exactly this name comes first, then a session whose id begins or ends with it, without regard to its
    tasks; then the task of an array that is named in one of these ways, like `sweep_3`.

    Raises:
        typer.Exit: no session is named so, or several are; the message lists them.
    """
    written = text.strip().removeprefix("…")
    if _WHOLE.fullmatch(written):
        return written
    if written == LAST:
        return _last(client)
    found = _named(client, written) if written else []
    if len(found) == 1:
        return found[0].id
    if found:
        _refuse_ambiguous(text, found)
    task = _TASK.fullmatch(written)
    if task is None:
        words = f"there is no session {printable(text)[:80]}; give {FORMS}"
        fail(words, advice="`aliquot session list --all` lists all sessions", code=REFUSED)
    return f"{find_session(client, task['array'])}_{task['index']}"


def find_id(place: "Place", text: str) -> str:
    """As `find_session`; a whole id is not looked up, so that it costs neither a request nor a client."""
    written = text.strip().removeprefix("…")
    if _WHOLE.fullmatch(written):
        return written
    from aliquot.client import BlockingClient

    with BlockingClient.at(place) as client:
        return find_session(client, text)


def look_up(client: "BlockingClient", text: str) -> "Session":
    """The session that a text names; of a task that waits, which is no session yet, its array, with a note.

    Raises:
        NotFound: the array has no such task.
        typer.Exit: as `find_session`.
    """
    from aliquot_schema.errors import NotFound
    from aliquot_schema.intervals import Intervals

    id = find_session(client, text)
    try:
        return client.get_session(id)
    except NotFound:
        task = _TASK.fullmatch(id)
        array = None if task is None else client.session(task["array"])
        if array is None or array.tasks is None or task is None:
            raise
        index = int(task["index"])
        if index not in Intervals.parse(array.tasks.waiting.indices):
            raise
        name = printable(array.name) or array.id
        print(f"task {index} of {name} has not started; it waits with its array:", file=sys.stderr)
        return array


def find_dependencies(
    client: "BlockingClient", links: "Sequence[DependencyInput] | None", *, name: str | None
) -> "list[DependencyInput] | None":
    """The dependencies with the ids of the sessions that they name; `name` is that of the new session."""
    from msgspec.structs import replace

    if links is None:
        return None

    def ids(text: str) -> list[str]:
        return _with_name(client, name) if text == SAME_NAME else [find_session(client, text)]

    return [replace(link, session_id=id) for link in links for id in ids(link.session_id)] or None


def _with_name(client: "BlockingClient", name: str | None) -> list[str]:
    """The caller's sessions with this name that have not ended, newest first."""
    from aliquot.cli.connection.server import nodes, usage
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.sessions import SessionFilter
    from aliquot.client.sessions import ENDED

    if name is None:
        usage(f"{SAME_NAME}: the session has no name; give one with --name")
    open_states = [state for state in SessionState if state not in ENDED]
    wanted = SessionFilter(owners=[client.me().name], name=name, states=open_states)
    found = nodes(lambda first, after: client.sessions(first=first, after=after, filter=wanted))
    return list(dict.fromkeys(_stem(one.id) for one in found))


def _last(client: "BlockingClient") -> str:
    """The newest session of the caller; a task counts as its array."""
    from aliquot.client.generated.sessions import SessionFilter

    me = client.me().name
    edges = client.sessions(first=1, filter=SessionFilter(owners=[me])).edges
    if not edges:
        fail(f"{LAST}: {me} has no sessions yet", code=REFUSED)
    return _stem(edges[0].node.id)


def _named(client: "BlockingClient", text: str) -> "list[Session]":
    from aliquot.client.generated.sessions import SessionFilter

    by_name = client.sessions(first=MATCHES_MAX, filter=SessionFilter(name=text)).edges
    found = _without_tasks(client, (edge.node for edge in by_name))
    if found or _PART.fullmatch(text) is None:
        return found
    by_id = client.sessions(first=MATCHES_MAX, filter=SessionFilter(search=text)).edges
    part = text.removeprefix("ses_")
    ids = (edge.node for edge in by_id)
    return _without_tasks(
        client, (one for one in ids if _stem(one.id)[4:].startswith(part) or _stem(one.id).endswith(part))
    )


def _without_tasks(client: "BlockingClient", found: "Iterable[Session]") -> "list[Session]":
    """The sessions, with each task replaced by its array."""
    sessions = {one.id: one for one in found}
    arrays = {_stem(id) for id in sessions}
    return [sessions[id] if id in sessions else client.get_session(id) for id in sorted(arrays, reverse=True)]


def _stem(id: str) -> str:
    """The id of the array of a task; of another session its own."""
    return id[:40]


def _refuse_ambiguous(text: str, found: "Sequence[Session]") -> NoReturn:
    lines = [
        f"  {one.id}  {printable(one.name)}  {printable(one.owner)}  {one.state}  {moment(one.queued_at)}"
        for one in found[:CANDIDATES_MAX]
    ]
    more = [f"  and {len(found) - CANDIDATES_MAX} more"] if len(found) > CANDIDATES_MAX else []
    listed = "\n".join((*lines, *more))
    fail(f"{printable(text)} names {len(found)} sessions; give more of the id:\n{listed}", code=USAGE)
