"""Submission of a session: prints its id or a preview, or waits for its end and exits accordingly."""

import sys
import time
from typing import TYPE_CHECKING, Final

import typer

from aliquot.cli.connection.output import print_json, printable
from aliquot.cli.connection.server import FAILED, INTERRUPTED, failure_text
from aliquot.cli.connection.tables import with_names
from aliquot.cli.session.follow import ArrayFollower, Choice, Follower, ask_what_to_do, wait_for
from aliquot.cli.session.show import outcome_text, preview_text
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.inputs import CancelSessionInput
from aliquot.client.sessions import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aliquot.client import BlockingClient
    from aliquot.client.generated.inputs import CreateSessionInput
    from aliquot.client.generated.sessions import Session


LOOKS_MAX: Final = 10
LOOK_S: Final = 0.1
CHANGED_LOOKS_MIN: Final = 3
WAITING: Final = frozenset({SessionState.QUEUED, SessionState.HELD})
_FOLLOW: Final = "`aliquot session logs -f {id}` follows it"
_NEXT: Final = {
    SessionState.QUEUED: _FOLLOW,
    SessionState.HELD: "`aliquot session release {id}` lets it start",
    SessionState.SCHEDULED: _FOLLOW,
    SessionState.ALLOCATING: _FOLLOW,
    SessionState.RUNNING: _FOLLOW,
    SessionState.COMPLETED: "`aliquot session logs {id}` shows its output",
    SessionState.FAILED: "`aliquot session logs {id}` shows its output",
}
"""By state, the command for what a submitter may want next."""


def submit(
    client: "BlockingClient",
    wanted: "CreateSessionInput",
    *,
    wait: bool,
    follow: bool,
    raw: bool,
    preview: bool,
    as_json: bool,
) -> None:
    """Submit, and exit with the code that the options promise."""
    if preview:
        found = client.preview_session(wanted)
        print_json(found) if as_json else print(preview_text(client, found, wanted))
        return
    session = client.submit_once(wanted)
    if not (wait or follow):
        print_json(session) if as_json else print(session.id, flush=True)
        report_standing(client, session)
    elif follow and not as_json:
        print(session.id, file=sys.stderr)
        follower = (Follower if wanted.array is None else ArrayFollower)(client, session.id, raw=raw)
        conclude(client, session.id, follower.run)
    else:
        if not as_json:
            print(session.id, flush=True)
        conclude(client, session.id, lambda: wait_for(client, session.id), as_json=as_json)


def report_standing(client: "BlockingClient", submitted: "Session", *, done: str = "submitted") -> None:
    """Print on standard error what the first scheduling passes made of a submission, and how to follow it.

    Args:
        done: what was done to the session.
    """
    from aliquot.cli.session.list import count_tasks, waiting_names
    from aliquot.client import ClientFailure
    from aliquot_schema.errors import AliquotError

    try:
        found = _considered(client, submitted, looks_min=0 if done == "submitted" else CHANGED_LOOKS_MIN)
        names = waiting_names(client, [found])
        # `active` also counts tasks that were preempted and wait
        running = count_tasks(client, found, set(SessionState) - ENDED - WAITING)
    except (ClientFailure, AliquotError) as error:
        # It is done, which is what the exit code says.
        print(f"aliquot: {done}; its state could not be read: {failure_text(error)}", file=sys.stderr)
        return
    advice = _NEXT.get(found.state, "`aliquot session show {id}` shows it").format(id=found.id)
    print(f"aliquot: {standing_text(found, names=names, tasks_running=running)}\n         {advice}", file=sys.stderr)


def _considered(client: "BlockingClient", session: "Session", *, looks_min: int) -> "Session":
    """The session once a scheduling pass has considered it, or after `LOOKS_MAX` looks.

    Args:
        looks_min: looks before a reason for waiting is believed, which may be that of an earlier pass.
    """
    for looks in range(LOOKS_MAX):
        if session.state is not SessionState.QUEUED or (session.waits is not None and looks >= looks_min):
            break
        time.sleep(LOOK_S)
        session = client.get_session(session.id)
    return session


def standing_text(session: "Session", *, names: "Mapping[str, str]", tasks_running: int = 0) -> str:
    """What became of a submission: `waiting, position 4: Each kernel needs 2 GPUs, ...`, `running on gpu01`.

    Args:
        names: of the sessions that it waits for, by id.
        tasks_running: of an array.
    """
    if session.state in ENDED:
        return outcome_text(session)
    if session.state is SessionState.HELD:
        return "held"
    tasks = f", {tasks_running} of its tasks running" if tasks_running else ""
    if session.state is SessionState.QUEUED:
        position = "" if session.queue_position is None else f", position {session.queue_position}"
        why = ", not considered by the scheduler yet"
        if session.waits is not None:
            why = f": {printable(with_names(session.waits.message, names)).rstrip('.')}"
        return f"waiting{position}{tasks}{why}"
    places = ", ".join(dict.fromkeys(printable(kernel.agent_id) for kernel in session.kernels))
    word = "running" if session.state is SessionState.RUNNING else "starting"
    return f"{word}{f' on {places}' if places else ''}{tasks}"


def conclude(client: "BlockingClient", id: str, work: "Callable[[], Session]", *, as_json: bool = False) -> None:
    """Wait for the end of a session, and exit according to its outcome. Ctrl-C asks what to do with it."""
    ended = _until_end(client, id, work)
    if as_json:
        print_json(ended)
    else:
        print(outcome_text(ended), file=sys.stderr)
    if ended.state is not SessionState.COMPLETED:
        raise typer.Exit(FAILED)


def _until_end(client: "BlockingClient", id: str, work: "Callable[[], Session]") -> "Session":
    while True:
        try:
            return work()
        except KeyboardInterrupt:
            choice = ask_what_to_do(id)
            if choice is Choice.CANCEL:
                client.cancel_session(CancelSessionInput(id=id))
                print(f"{id} is canceled; its devices are free when its processes have ended", file=sys.stderr)
            if choice is not Choice.STAY:
                raise typer.Exit(INTERRUPTED) from None
