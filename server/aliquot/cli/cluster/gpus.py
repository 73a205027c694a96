"""`aliquot gpus`: who holds which part of which GPU, drawn in the terminal."""

import time
from typing import TYPE_CHECKING, Annotated

from typer import Option

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.pages import nodes
from aliquot.cli.connection.printing import console, print_json

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent

Watch = Annotated[bool, Option("--watch", "-w", help="Show it live, until Ctrl-C.")]
Interval = Annotated[float, Option(min=0.2, help="Seconds between two looks.")]


def gpus(
    watch: Watch = False,
    interval: Interval = 2.0,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Draw every GPU with its holders, what it does, and its memory. With --json one list per look."""
    from aliquot.cli.cluster.gpu_map import drawn, gpus_of

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if watch and not as_json:
            _live(client, interval=interval)
            return
        while True:
            agents = _agents(client)
            print_json([gpus_of(agent) for agent in agents]) if as_json else console().print(drawn(agents))
            if not watch:
                return
            time.sleep(interval)


def _live(client: "BlockingClient", *, interval: float) -> None:
    from rich.live import Live

    from aliquot.cli.cluster.gpu_map import drawn

    try:
        with Live(drawn(_agents(client)), console=console(), auto_refresh=False, screen=False) as live:
            while True:
                time.sleep(interval)
                live.update(drawn(_agents(client)), refresh=True)
    except KeyboardInterrupt:
        return


def _agents(client: "BlockingClient") -> "list[Agent]":
    return list(nodes(lambda count, after: client.agents(first=count, after=after)))
