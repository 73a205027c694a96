"""`aliquot doctor`: problems of the server, and differences between store, agents and devices; `aliquot health`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.output import count_text, moment, print_json, printable
from aliquot.cli.connection.server import (
    FAILED,
    UNREACHABLE,
    AsJson,
    AtServer,
    InCluster,
    TokenFile,
    fail,
    failures_shown,
)
from aliquot.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client.endpoints import HealthProblem
    from aliquot.client.generated.operations import Examination


def doctor(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Print problems of the server, and query all agents and print differences between them and the store.

    Nothing is changed. The exit code is 1 if there are problems or differences.
    """
    with failures_shown():
        import msgspec

        from aliquot.client import BlockingClient, find_place
        from aliquot.client.endpoints import readiness

        place = find_place(cluster=cluster, server=server, token_file=token_file)
        with BlockingClient.at(place) as client:
            found = client.doctor()
        problems = readiness(place.url, ca_file=place.ca_file, token=place.token).details
    if as_json:
        print_json({**msgspec.to_builtins(found), "problems": problems})
    else:
        _print(found, problems)
    if found.differences or problems:
        raise typer.Exit(FAILED)


def _print(found: "Examination", problems: "Sequence[HealthProblem]") -> None:
    for problem in problems:
        print(printable(f"{problem.code}  {problem.message}"))
    for one in found.differences:
        since = f"since {moment(one.since)}" if one.since else "first seen now"
        print(printable(f"{one.kind}  {one.subject}  on {one.agent_id}, {since}: {one.evidence}"))
        if one.repair:
            print(f"    {printable(one.repair)}")
    if found.silent:
        print(f"unreachable, not examined: {', '.join(found.silent)}")
    agents, differences = count_text(len(found.asked), "agent"), count_text(len(found.differences), "difference")
    more = f", {count_text(len(problems), 'problem')} of the server" if problems else ""
    print(f"{agents} examined, {differences}{more}")


TIMEOUT_S: Final = 4.0

CaFile = Annotated[
    Path | None, typer.Option(help="The certificate's authority, in PEM; default: the cluster's, or $ALIQUOT_CA_FILE.")
]
Agent = Annotated[bool, typer.Option("--agent", help="Check the agents on this machine instead.")]
Folder = Annotated[Path | None, typer.Option(help="The agents' data folder; default: from the settings.")]


def health(
    cluster: InCluster = None,
    server: AtServer = None,
    ca_file: CaFile = None,
    agent: Agent = False,
    data_folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a server is ready; needs no key. The exit code is 0 if ready, 1 if not, 4 if unreachable."""
    if agent:
        _check_agents(data_folder, as_json=as_json)
    else:
        _check_server(cluster, server, ca_file, as_json=as_json)


def _check_server(cluster: str | None, server: str | None, ca_file: Path | None, *, as_json: bool) -> None:
    from aliquot.client import NoPlace
    from aliquot.client.config import find_cluster, server_without_cluster
    from aliquot.client.endpoints import readiness
    from aliquot.client.errors import ServerUnreachable, UnexpectedAnswer

    try:
        named = find_cluster(cluster=cluster, server=server)
        url, authority = (named.url, named.ca_file) if named is not None else server_without_cluster(server)
        found = readiness(url, ca_file=ca_file or authority, timeout_s=TIMEOUT_S)
    except (ServerUnreachable, UnexpectedAnswer, NoPlace) as error:
        fail(str(error), code=UNREACHABLE)
    if as_json:
        print_json(found)
    else:
        print(f"{url}: {'ready' if found.ready else 'not ready'}", *(*found.missing, *found.warnings))
    if not found.ready:
        raise typer.Exit(FAILED)


def _check_agents(data_folder: Path | None, *, as_json: bool) -> None:
    from aliquot.execution.remote.connection_file import connections
    from aliquot.settings import read_settings

    try:
        found = connections(read_settings(data_folder=data_folder).data_folder)
    except ConfigurationError as error:
        fail(str(error), code=FAILED)
    except PermissionError as error:
        fail(f"{error.filename} cannot be read; run this as the agent's Unix account", code=FAILED)
    if as_json:
        print_json(found)
    else:
        print("\n".join(f"{id}: {'' if found[id] else 'not '}connected" for id in found) or "no agent runs here")
    if not found or not all(found.values()):
        raise typer.Exit(FAILED)
