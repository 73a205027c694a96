"""`aliquot session shell` and `aliquot shell`: a terminal in a running session, or in a new one made for it."""

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.screen import exit_on_hangup
from aliquot.cli.connection.server import (
    REFUSED,
    AtServer,
    InCluster,
    TokenFile,
    connected,
    fail,
    failures_shown,
    usage,
)
from aliquot.cli.session import options as o
from aliquot.cli.session.names import find_id
from aliquot.cli.session.options import seconds_of, slots_of

if TYPE_CHECKING:
    from aliquot.cli.session.terminal import TerminalClient
    from aliquot.client import BlockingClient
    from aliquot.client.config import Place

Words = Annotated[
    list[str] | None, Argument(metavar="-- COMMAND...", help="Runs instead of the account's shell.", show_default=False)
]
Rank = Annotated[int, Option(min=0, help="The kernel of a session with several.")]
TerminalName = Annotated[
    str | None, Option("--name", metavar="NAME", help="Share this terminal; default: a new one.", show_default=False)
]
WaitLimit = Annotated[
    str | None, Option("--time-limit", "-t", metavar="DURATION", help="The longest run time; default: 8h.")
]
TIME_LIMIT_S: Final = 8 * 3600.0
HOLD: Final = """n=0
while [ ! -s "$CHECKPOINT_DIR/.terminal" ]; do n=$((n + 1)); [ $n -gt 3000 ] && exit 0; sleep 0.2; done
read -r shell < "$CHECKPOINT_DIR/.terminal"
while kill -0 "$shell" 2> /dev/null; do sleep 1; done"""
"""Command of a session that is made for a terminal: waits 10 minutes for its shell, and ends with it."""
SHELL: Final = """echo $$ > "$CHECKPOINT_DIR/.terminal"
[ $# -gt 0 ] || case "$SHELL" in "" | */nologin | */false) set -- /bin/sh ;; *) set -- "$SHELL" ;; esac
exec "$@\""""
"""What the terminal of such a session runs: a command, or the account's shell."""
TERMINAL: Final = "shell"
"""Name of that terminal, by which another window comes back to it."""


def shell_in_session(
    session_id: o.SessionId,
    command: Words = None,
    rank: Rank = 0,
    name: TerminalName = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Open a shell in a running session, with its account, limits, devices and environment.

    Enter, ~ and . leave it; it is kept for 10 minutes. With input from a pipe it runs without a terminal. The exit code
    is that of the shell.
    """
    import asyncio

    from aliquot.client import find_place

    if name is not None and not sys.stdin.isatty():
        usage("--name: a terminal is shared by terminals; the input is none")
    with failures_shown():
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        terminal = _terminal(place, find_id(place, session_id), rank=rank, name=name, command=tuple(command or ()))
        code = asyncio.run(terminal.run())
    raise typer.Exit(code)


def shell(
    command: Words = None,
    gpus: o.Gpus = None,
    resources: o.Resources = None,
    time_limit: WaitLimit = None,
    project: o.Project = None,
    pool: o.Pool = None,
    sandbox: o.Sandbox = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Get a new session with a shell in it; the session ends with the shell. The exit code is that of the shell.

    Without a connection the shell is kept for 10 minutes: aliquot session shell ID --name shell comes back.
    """
    import asyncio

    from aliquot.client import find_place
    from aliquot.client.errors import ServerUnreachable
    from aliquot.client.generated.inputs import CancelSessionInput, CommandInput, CreateSessionInput

    wanted = CreateSessionInput(
        command=CommandInput(argv=("/bin/sh", "-c", HOLD)),
        name="shell",
        slots=slots_of(resources, gpus=gpus),
        time_limit=seconds_of(time_limit, option="--time-limit") or TIME_LIMIT_S,
        project=project,
        pool=pool,
        sandbox=o.sandbox_of(sandbox),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        session = client.submit_once(wanted)
        words = ("/bin/sh", "-c", SHELL, "shell", *(command or ()))
        terminal = _terminal(place, session.id, rank=0, name=TERMINAL, command=words)
        try:
            with exit_on_hangup():
                until_running(client, session.id)
            code = asyncio.run(terminal.run())
        except BaseException as error:
            # The session ends with its shell, which is kept for some time without a connection.
            if not (terminal.was_attached and isinstance(error, ServerUnreachable)):
                client.cancel_session(CancelSessionInput(id=session.id))
            raise
    raise typer.Exit(code)


def until_running(client: "BlockingClient", id: str) -> None:
    """Wait until a session runs, and show why it waits. Exits when it ends instead."""
    from aliquot.cli.session.follow import WaitReasons
    from aliquot.cli.session.show import outcome_text
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.sessions import ENDED

    reasons = WaitReasons()
    with closing(client.states(id)) as states:
        for session in states:
            if session.state is SessionState.RUNNING:
                return
            if session.state in ENDED:
                fail(outcome_text(session), code=REFUSED)
            reasons.show(session)


def _terminal(place: "Place", id: str, *, rank: int, name: str | None, command: tuple[str, ...]) -> "TerminalClient":
    from aliquot.cli.session.terminal import TerminalClient

    return TerminalClient(place, id, rank=rank, name=name, command=command, is_tty=sys.stdin.isatty())
