"""`aliquot agent key`: the keys by which agents dial in, made and revoked beside a running server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.printing import cells, console, print_json, table
from aliquot.cli.stopped_server import AsJson

if TYPE_CHECKING:
    from aliquot.execution.remote.keys import KeyFile

key: Final = typer.Typer(
    no_args_is_help=True, help="Make, list and revoke the keys of agents, on the server's machine."
)

Folder = Annotated[Path | None, typer.Option(help="The server's data folder.")]
AgentName = Annotated[str, typer.Argument(metavar="AGENT_ID", help="The agent's name.")]


@key.command("create")
def create(
    agent_id: AgentName,
    data_folder: Folder = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a key that holds.")] = False,
) -> None:
    """Make a key, and print it once. Keep it in a file of the agent's machine that nobody else can read."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        print(keys.create(AgentId(agent_id), now_us=SystemClock().now_us(), replace=replace))


@key.command("list")
def list_keys(data_folder: Folder = None, as_json: AsJson = False) -> None:
    """List the agents that have or had a key."""
    with _key_file(data_folder) as keys:
        found = [(id, _moment(entry.created_us), _moment(entry.revoked_us)) for id, entry in keys.entries().items()]
    if as_json:
        print_json([{"agent_id": id, "created_at": at, "revoked_at": revoked or None} for id, at, revoked in found])
        return
    rows = table("agent", "created", "revoked")
    for line in found:
        rows.add_row(*cells(*line))
    console().print(rows)


@key.command("revoke")
def revoke(agent_id: AgentName, data_folder: Folder = None) -> None:
    """Take a key out of use. An agent that is connected by it is cut off; what it runs goes on."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        keys.revoke(AgentId(agent_id), now_us=SystemClock().now_us())
    print(f"the key of {agent_id} is revoked")


@contextmanager
def _key_file(data_folder: Path | None) -> "Iterator[KeyFile]":
    from aliquot.execution.remote.keys import KEY_FILE, KeyFile
    from aliquot.settings import default_data_folder
    from aliquot_schema.errors import AliquotError

    folder = (data_folder or default_data_folder()) / "server"
    try:
        if not folder.is_dir():
            print(f"there is no server in {folder.parent}; give its folder with --data-folder", file=sys.stderr)
            raise typer.Exit(2)
        yield KeyFile(folder / KEY_FILE)
    except (AliquotError, OSError, ValueError) as error:
        print(f"aliquot agent key: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _moment(at_us: int | None) -> str:
    return "" if at_us is None else datetime.fromtimestamp(at_us / 1e6, tz=UTC).isoformat(timespec="seconds")
