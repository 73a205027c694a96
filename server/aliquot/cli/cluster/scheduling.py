"""`aliquot scheduling`: show, stop and start the scheduling of sessions."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.output import print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected

if TYPE_CHECKING:
    from aliquot.client.generated.operations import Orchestrator


scheduling: Final = typer.Typer(
    no_args_is_help=True, help="Show whether sessions are scheduled; for operators, stop and start scheduling."
)

Note = Annotated[str | None, typer.Option("--note", help="The reason, shown to users.")]


@scheduling.command("show")
def show(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show whether sessions are scheduled, and if not, since when, by whom and why."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        _print(client.orchestrator(), as_json=as_json)


@scheduling.command("stop")
def stop(
    note: Note = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Stop starting and preempting sessions until `start`. Running sessions continue, and new ones wait."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        _print(client.orchestrator_stop(note=note).orchestrator, as_json=as_json)


@scheduling.command("start")
def start(
    note: Note = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Start scheduling again."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        _print(client.orchestrator_start(note=note).orchestrator, as_json=as_json)


def _print(found: "Orchestrator", *, as_json: bool) -> None:
    print_json(found) if as_json else print(state_text(found))


def state_text(found: "Orchestrator") -> str:
    """The state in one line: `scheduling was stopped by ann on 2026-01-02 10:00 UTC: moving racks`."""
    state = "scheduling is running"
    if found.stopped_at is not None:
        state = f"scheduling was stopped by {found.stopped_by} on {found.stopped_at:%Y-%m-%d %H:%M} UTC"
    return printable(f"{state}: {found.note}" if found.note else state)
