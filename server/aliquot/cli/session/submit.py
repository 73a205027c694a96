"""Submission of a session: prints its id or a preview, or waits for its end and exits accordingly."""

import sys
from typing import TYPE_CHECKING

import typer

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import FAILED, INTERRUPTED
from aliquot.cli.session.follow import ArrayFollower, Choice, Follower, ask_what_to_do, wait_for
from aliquot.cli.session.show import outcome_text, preview_text
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.inputs import CancelSessionInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from aliquot.client import BlockingClient
    from aliquot.client.generated.inputs import CreateSessionInput
    from aliquot.client.generated.sessions import Session


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
        print_json(found) if as_json else print(preview_text(found))
        return
    session = client.submit_once(wanted)
    if not (wait or follow):
        print_json(session) if as_json else print(session.id)
    elif follow and not as_json:
        print(session.id, file=sys.stderr)
        follower = (Follower if wanted.array is None else ArrayFollower)(client, session.id, raw=raw)
        conclude(client, session.id, follower.run)
    else:
        if not as_json:
            print(session.id, flush=True)
        conclude(client, session.id, lambda: wait_for(client, session.id), as_json=as_json)


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
