"""Group `aliquot session`, and its command `wait`."""

from typing import Final

import typer

from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.groups import LazyGroup
from aliquot.cli.session.options import SessionId


class SessionGroup(LazyGroup):
    """Commands of sessions."""

    members = {  # noqa: RUF012 # of a class variable
        "create": "session.create:create_command",
        "list": "session.list:list_sessions",
        "show": "session.show:show",
        "why": "session.why:why",
        "stats": "session.stats:stats",
        "logs": "session.logs:logs",
        "files": "session.files:files",
        "get": "session.files:get",
        "environment": "session.files:environment",
        "metrics": "session.metrics:metrics",
        "shell": "session.shell:shell_in_session",
        "forward": "session.forward:forward",
        "open": "session.app:open_app",
        "wait": "session.command:wait",
        "change": "session.changes:change",
        "extend": "session.changes:extend",
        "give-back": "session.changes:give_back",
        "keep": "session.changes:keep",
        "cancel": "session.changes:cancel",
        "hold": "session.changes:hold",
        "release": "session.changes:release",
        "retry": "session.changes:retry",
    }


session: Final = typer.Typer(
    cls=SessionGroup, no_args_is_help=True, help="Submit sessions; show, follow and change them."
)


def wait(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a session, or all tasks of an array, have ended. The exit code is 1 unless it completed."""
    from aliquot.cli.session.follow import wait_for
    from aliquot.cli.session.names import find_session
    from aliquot.cli.session.submit import conclude

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session_id = find_session(client, session_id)
        conclude(client, session_id, lambda: wait_for(client, session_id), as_json=as_json)
