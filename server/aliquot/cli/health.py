"""`aliquot health`: whether a server can serve, or the agents of this machine are connected; for health checks."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from aliquot.cli.connection.asking import fail
from aliquot.cli.connection.exit_codes import FAILED, UNREACHABLE
from aliquot.cli.connection.options import AsJson
from aliquot.cli.connection.printing import print_json
from aliquot.errors import ConfigurationError

TIMEOUT_S: Final = 4.0

At = Annotated[
    str | None, typer.Option("--server", help="A server by its address; else $ALIQUOT_SERVER, or this machine's.")
]
CaFile = Annotated[Path | None, typer.Option(help="The authority of its certificate; else $ALIQUOT_CA_FILE.")]
Agent = Annotated[bool, typer.Option("--agent", help="Look at the agents that run here instead.")]
Folder = Annotated[Path | None, typer.Option(help="The agents' data folder; else that of the settings.")]


def health(
    server: At = None,
    ca_file: CaFile = None,
    agent: Agent = False,
    data_folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Ask a server whether it can serve; no key is needed. The exit code is 0 if it can, 1 if not, 4 without one."""
    if agent:
        _agents(data_folder, as_json=as_json)
    else:
        _server(server, ca_file, as_json=as_json)


def _server(server: str | None, ca_file: Path | None, *, as_json: bool) -> None:
    from aliquot.client import NoPlace
    from aliquot.client.failures import ServerUnreachable, UnexpectedAnswer
    from aliquot.client.places import CA_VARIABLE, LOCAL_URL, SERVER_VARIABLE
    from aliquot.client.readiness import readiness

    url = server or os.environ.get(SERVER_VARIABLE) or LOCAL_URL
    authority = ca_file or (Path(os.environ[CA_VARIABLE]) if os.environ.get(CA_VARIABLE) else None)
    try:
        found = readiness(url, ca_file=authority, timeout_s=TIMEOUT_S)
    except (ServerUnreachable, UnexpectedAnswer, NoPlace) as error:
        fail(str(error), code=UNREACHABLE)
    if as_json:
        print_json(found)
    else:
        print(f"{url}: {'ready' if found.ready else 'not ready'}", *(*found.missing, *found.warnings))
    if not found.ready:
        raise typer.Exit(FAILED)


def _agents(data_folder: Path | None, *, as_json: bool) -> None:
    from aliquot.execution.remote.connection_mark import connections
    from aliquot.settings import read_settings

    try:
        found = connections(read_settings(data_folder=data_folder).data_folder)
    except ConfigurationError as error:
        fail(str(error), code=FAILED)
    except PermissionError as error:
        fail(f"{error.filename} is not yours to look at; ask as the account that the agent runs as", code=FAILED)
    if as_json:
        print_json(found)
    else:
        print("\n".join(f"{id}: {'' if found[id] else 'not '}connected" for id in found) or "no agent runs here")
    if not found or not all(found.values()):
        raise typer.Exit(FAILED)
