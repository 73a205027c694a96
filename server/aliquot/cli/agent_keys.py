"""`aliquot agent key`: the keys by which agents dial in, made and revoked beside a running server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.options import AsJson
from aliquot.cli.connection.printing import cells, console, print_json, print_result, table
from aliquot.cli.unix_account import unix_actor

if TYPE_CHECKING:
    from aliquot.execution.remote.key_records import KeyEntry
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
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it once. Keep it in a file of the agent's machine that nobody else can read."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        secret = keys.create(AgentId(agent_id), now_us=SystemClock().now_us(), replace=replace, by=unix_actor())
        made = _plain(agent_id, keys.entries()[AgentId(agent_id)])
    print_result({**made, "secret": secret}, words=secret, as_json=as_json)


@key.command("list")
def list_keys(data_folder: Folder = None, as_json: AsJson = False) -> None:
    """List the agents that have or had a key."""
    with _key_file(data_folder) as keys:
        found = [_plain(id, entry) for id, entry in keys.entries().items()]
    if as_json:
        print_json(found)
        return
    rows = table("agent", "created", "revoked")
    for line in found:
        rows.add_row(*cells(*line.values()))
    console().print(rows)


@key.command("revoke")
def revoke(agent_id: AgentName, data_folder: Folder = None, as_json: AsJson = False) -> None:
    """Take a key out of use. An agent that is connected by it is cut off; what it runs goes on."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        keys.revoke(AgentId(agent_id), now_us=SystemClock().now_us(), by=unix_actor())
        revoked = _plain(agent_id, keys.entries()[AgentId(agent_id)])
    print_result(revoked, words=f"the key of {agent_id} is revoked", as_json=as_json)


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


def _plain(agent_id: str, entry: "KeyEntry") -> dict[str, str | None]:
    return {
        "agent_id": agent_id,
        "created_at": _moment(entry.created_us),
        "revoked_at": _moment(entry.revoked_us),
    }


def _moment(at_us: int | None) -> str | None:
    return None if at_us is None else datetime.fromtimestamp(at_us / 1e6, tz=UTC).isoformat(timespec="seconds")
