"""What becomes of a submission: its id, a preview, or its course until its end."""

import sys
from typing import TYPE_CHECKING

import typer

from aliquot.cli.connection.exit_codes import FAILED, INTERRUPTED
from aliquot.cli.connection.printing import print_json
from aliquot.cli.session.following import Follower
from aliquot.cli.session.interruption import Choice, ask_what_to_do
from aliquot.cli.session.sentences import ending, preview_text
from aliquot.cli.session.waiting import wait_for
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
    preview: bool,
    as_json: bool,
) -> None:
    """Do what the options say, and end with the exit code that they promise."""
    if preview:
        found = client.preview_session(wanted)
        print_json(found) if as_json else print(preview_text(found))
        return
    session = client.submit_once(wanted)
    if not (wait or follow):
        print_json(session) if as_json else print(session.id)
    elif follow and wanted.array is None and not as_json:
        print(session.id, file=sys.stderr)
        conclude(client, session.id, Follower(client, session.id).run)
    else:
        if not as_json:
            print(session.id, flush=True)
        conclude(client, session.id, lambda: wait_for(client, session.id), as_json=as_json)


def conclude(client: "BlockingClient", id: str, work: "Callable[[], Session]", *, as_json: bool = False) -> None:
    """Stay with a session until its end, and end as it did. Who interrupts is asked what is to become of it."""
    ended = _until_end(client, id, work)
    if as_json:
        print_json(ended)
    else:
        print(ending(ended), file=sys.stderr)
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
                print(f"{id} is canceled; its devices are free once its processes are gone", file=sys.stderr)
            if choice is not Choice.STAY:
                raise typer.Exit(INTERRUPTED) from None
