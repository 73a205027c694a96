"""`aliquot doctor`: what the store, the agents and their devices do not agree about, just now."""

from typing import TYPE_CHECKING

import typer

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.exit_codes import FAILED
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import moment, print_json, printable

if TYPE_CHECKING:
    from aliquot.client.generated.doctor import Examination


def doctor(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Have every agent asked, and print what does not agree. Nothing is changed. The exit code is 1 if there is any."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.doctor()
    if as_json:
        print_json(found)
    else:
        _print(found)
    if found.differences:
        raise typer.Exit(FAILED)


def _print(found: "Examination") -> None:
    for one in found.differences:
        since = f"since {moment(one.since)}" if one.since else "seen just now"
        print(printable(f"{one.kind}  {one.subject}  on {one.agent_id}, {since}: {one.evidence}"))
        if one.repair:
            print(f"    {printable(one.repair)}")
    if found.silent:
        print(f"not asked, for they cannot be reached: {', '.join(found.silent)}")
    count = len(found.differences)
    print(f"{len(found.asked)} agents asked, {count} difference{'' if count == 1 else 's'}")
