"""`aliquot gpus`: shows the GPUs in the terminal, one line each, with their holders."""

from typing import TYPE_CHECKING, Annotated

from typer import Option

from aliquot.cli.connection.output import json_text
from aliquot.cli.connection.screen import Interval, Watch, interval_of, show
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.connection.tables import FullIds, present

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


Compact = Annotated[
    bool | None, Option("--compact/--no-compact", help="One line per node; the default for 64 GPUs and more.")
]


def gpus(
    watch: Watch = False,
    interval: Interval = "2s",
    compact: Compact = None,
    full_ids: FullIds = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every GPU with its holders, utilization and memory. With --json, print one list per refresh."""
    from aliquot.cli.cluster.agents import all_agents
    from aliquot.cli.cluster.gpu_map import gpus_of

    interval_s = interval_of(interval)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        show(
            lambda: (
                [json_text([gpus_of(agent) for agent in all_agents(client)])]
                if as_json
                else _drawn(client, compact=compact, full_ids=full_ids)
            ),
            interval_s=interval_s if watch else None,
            on_screen=not as_json,
        )


def _drawn(client: "BlockingClient", *, compact: bool | None, full_ids: bool) -> list[str]:
    from aliquot.cli.cluster.agents import all_agents
    from aliquot.cli.cluster.gpu_map import GpuMap
    from aliquot.cli.session.list import session_names

    agents = all_agents(client)
    holders = [holder for agent in agents for device in agent.devices for holder in device.holders]
    ids = {one.session_id for one in holders if one.session_id is not None and one.kind == "session"}
    names = {} if full_ids else session_names(client, ids)
    return GpuMap(agents, names=names, now=present(), full_ids=full_ids).shown(compact=compact)
