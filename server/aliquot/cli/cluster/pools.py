"""`aliquot pools`: the parts of the cluster that sessions choose by name."""

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table


def pools(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the pools: what is in them, what of it is free, and how many wait for it."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.pools()
    if as_json:
        print_json(found)
        return
    rows = table("pool", "agents", "nodes", "GPUs", "free", "held", "running", "waiting", "of the kind", "")
    for one in found:
        gpus = (f"{number:.2f}" for number in (one.total_gpus, one.available_gpus, one.allocated_gpus))
        counts = (len(one.agents), len(one.nodes), *gpus, one.running, one.total_queued)
        rows.add_row(*cells(one.name, *counts, one.gpu_type, "" if one.schedulable else "takes nothing new"))
    console().print(rows)
