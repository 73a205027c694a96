"""Receivers, tried; and what became of what they were told."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.asking import connected, fail
from aliquot.cli.connection.exit_codes import REFUSED
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, moment, print_json, table

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.notices import Delivery

WAIT_S: Final = 30.0
LOOK_S: Final = 0.2


def trial(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="As the server's settings call it.")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a notice to a receiver, and say whether it took it; for admins."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = _followed(client, client.send_test_notice(receiver).delivery)
    if as_json:
        print_json(found)
    if found.state.value != "sent":
        told = found.error or f"it was not tried within {WAIT_S:g} s"
        fail(f"{receiver} did not take it: {told}", advice="`aliquot notices deliveries` follows it", code=REFUSED)
    if not as_json:
        print(f"{receiver} took it")


def deliveries(
    first: Annotated[int, typer.Option(min=1, max=100, help="So many, the newest.")] = 20,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List what receivers were told, and what became of it; for admins."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = [edge.node for edge in client.deliveries(first=first).edges]
    if as_json:
        print_json(found)
        return
    rows = table("made", "receiver", "state", "tries", "for", "what", "error")
    for one in found:
        rows.add_row(
            *cells(moment(one.made_at), one.receiver, one.state.value, one.tries, one.user, one.message, one.error)
        )
    console().print(rows)


def _followed(client: "BlockingClient", sent: "Delivery") -> "Delivery":
    """Until it was tried once."""
    until = time.monotonic() + WAIT_S
    found = sent
    while not found.tries and time.monotonic() < until:
        time.sleep(LOOK_S)
        found = next((edge.node for edge in client.deliveries(notice_id=sent.id).edges), found)
    return found
