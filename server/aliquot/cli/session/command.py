"""Group `aliquot session`, and its command `wait`."""

from typing import Final

import typer

from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.session.changes import cancel, hold, release, retry
from aliquot.cli.session.create import HELP, CreateCommand, create
from aliquot.cli.session.list import list_sessions
from aliquot.cli.session.logs import logs
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId
from aliquot.cli.session.show import show, why


def wait(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a session, or all tasks of an array, have ended. The exit code is 1 unless it completed."""
    from aliquot.cli.session.follow import wait_for
    from aliquot.cli.session.submit import conclude

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session_id = find_session(client, session_id)
        conclude(client, session_id, lambda: wait_for(client, session_id), as_json=as_json)


session: Final = typer.Typer(no_args_is_help=True, help="Submit sessions; show, follow and change them.")

# No interspersed options: words after a script are the script's, even if they look like options.
session.command("create", cls=CreateCommand, help=HELP, context_settings={"allow_interspersed_args": False})(create)
session.command("list")(list_sessions)
session.command("show")(show)
session.command("why")(why)
session.command("logs")(logs)
session.command("wait")(wait)
session.command("cancel")(cancel)
session.command("hold")(hold)
session.command("release")(release)
session.command("retry")(retry)
