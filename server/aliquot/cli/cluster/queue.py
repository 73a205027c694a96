"""`aliquot queue`: what waits, in the order in which it is looked at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.pages import nodes
from aliquot.cli.connection.printing import asked, cells, console, moment, print_json, table

if TYPE_CHECKING:
    from aliquot.client.generated.queue import QueueEntry

First = Annotated[int, Option("--first", "-n", min=1, help="So many, from the front.")]


def queue(
    first: First = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show who waits, why, and who starts when at the latest."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = list(nodes(lambda count, after: client.queue(first=count, after=after), first=first))
        total = client.queue(first=1).total_count
    if as_json:
        print_json(found)
    elif found:
        _print(found)
        if total > len(found):
            print(f"and {total - len(found)} more; --first shows them")
    else:
        print("nothing waits")


def _print(found: "Sequence[QueueEntry]") -> None:
    rows = table("session", "place", "name", "owner", "priority", "asks", "submitted", "starts at the latest", "waits")
    for entry in found:
        one = entry.session
        why = "" if one.waits is None else f"{one.waits.reason}: {one.waits.message}"
        asks = asked(one.slots, kernels=one.cluster_size)
        times = (moment(one.queued_at), moment(one.expected_start))
        rows.add_row(*cells(one.id, entry.position, one.name, one.owner, one.priority, asks, *times, why))
    console().print(rows)
