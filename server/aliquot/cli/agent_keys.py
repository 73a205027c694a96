"""`aliquot agent key`: creates and revokes the keys of agents, on the machine of a running server.

Also the actor that the event log names for commands on this machine: the Unix account that runs them.
"""

import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.output import cells, print_json, print_result, show_table, table
from aliquot.cli.connection.server import AsJson

if TYPE_CHECKING:
    from aliquot.execution.remote.agent_keys import KeyEntry, KeyFile
    from aliquot.store.audit.log import AuditAuthor
    from aliquot.store.store import Database


def unix_actor() -> str:
    """`unix:<account>` of the process's real uid, whatever its environment says. No user's name has a colon."""
    try:
        return f"unix:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # as in a container whose passwd file lacks the account
        return f"unix:{os.getuid()}"


def command_actor() -> "AuditAuthor":
    """The actor, a request id and the time for events of this command."""
    from aliquot.clock import RandomIds, SystemClock
    from aliquot.store.audit.log import AuditAuthor
    from aliquot_schema.ids import REQUEST_PREFIX, RequestId

    request_id = RequestId(RandomIds().new(REQUEST_PREFIX))
    return AuditAuthor(actor=unix_actor(), request_id=request_id, at_us=SystemClock().now_us())


async def record_event(opened: "Database", what: str, facts: Mapping[str, object]) -> None:
    """Add an event about this command to the event log."""
    from aliquot.store.audit.log import note

    texts = {name: str(value) for name, value in facts.items()}
    await opened.write(partial(note, what=what, facts=texts, by=command_actor()))


key: Final = typer.Typer(
    no_args_is_help=True, help="Create, list and revoke the keys of agents, on the server's machine."
)

Folder = Annotated[Path | None, typer.Option(help="The server's data folder.")]
AgentName = Annotated[str, typer.Argument(metavar="AGENT_ID", help="The agent's name.")]


@key.command("create")
def create(
    agent_id: AgentName,
    data_folder: Folder = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a key that is still valid.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it once. Store it on the agent's machine, in a file that only its account can read."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        secret = keys.create(AgentId(agent_id), now_us=SystemClock().now_us(), replace=replace, by=unix_actor())
        made = _plain(agent_id, keys.entries()[AgentId(agent_id)])
    print_result({**made, "secret": secret}, text=secret, as_json=as_json)


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
    show_table(rows)


@key.command("revoke")
def revoke(agent_id: AgentName, data_folder: Folder = None, as_json: AsJson = False) -> None:
    """Revoke a key. An agent connected with it is disconnected; its jobs keep running."""
    from aliquot.clock import SystemClock
    from aliquot_schema.ids import AgentId

    with _key_file(data_folder) as keys:
        keys.revoke(AgentId(agent_id), now_us=SystemClock().now_us(), by=unix_actor())
        revoked = _plain(agent_id, keys.entries()[AgentId(agent_id)])
    print_result(revoked, text=f"the key of {agent_id} is revoked", as_json=as_json)


@contextmanager
def _key_file(data_folder: Path | None) -> "Iterator[KeyFile]":
    from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
    from aliquot.settings import default_data_folder
    from aliquot_schema.errors import AliquotError

    folder = (data_folder or default_data_folder()) / "server"
    try:
        if not folder.is_dir():
            print(f"{folder.parent} is not a server's data folder; name it with --data-folder", file=sys.stderr)
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
