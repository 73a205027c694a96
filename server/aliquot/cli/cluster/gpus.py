"""`aliquot gpus`: draws a map of the GPUs in the terminal, one line each, with a bar of the holders' shares."""

import time
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.output import console, print_json
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes, usage
from aliquot.cli.session.options import seconds_of

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent


Watch = Annotated[bool, Option("--watch", "-w", help="Refresh until Ctrl-C.")]
Interval = Annotated[
    str, Option(metavar="DURATION", help="Time between refreshes, like 500ms or 2s; a number is seconds.")
]
INTERVAL_S_MIN: Final = 0.2


def gpus(
    watch: Watch = False,
    interval: Interval = "2s",
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every GPU with its holders, utilization and memory. With --json, print one list per refresh."""
    from aliquot.cli.cluster.gpu_map import gpu_map, gpus_of

    interval_s = seconds_of(interval, option="--interval") or 0.0
    if interval_s < INTERVAL_S_MIN:
        usage(f"--interval {interval}: give at least {INTERVAL_S_MIN} s")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if watch and not as_json:
            _live(client, interval=interval_s)
            return
        while True:
            agents = _agents(client)
            print_json([gpus_of(agent) for agent in agents]) if as_json else console().print(gpu_map(agents))
            if not watch:
                return
            time.sleep(interval_s)


def _live(client: "BlockingClient", *, interval: float) -> None:
    from rich.live import Live

    from aliquot.cli.cluster.gpu_map import gpu_map

    try:
        with Live(gpu_map(_agents(client)), console=console(), auto_refresh=False, screen=False) as live:
            while True:
                time.sleep(interval)
                live.update(gpu_map(_agents(client)), refresh=True)
    except KeyboardInterrupt:
        return


def _agents(client: "BlockingClient") -> "list[Agent]":
    return list(nodes(lambda count, after: client.agents(first=count, after=after)))
