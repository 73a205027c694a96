"""`aliquot projects`: who works on what, with how much."""

from aliquot.cli.cluster.quota_terms import terms
from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table


def projects(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the projects: who uses them, what they hold and have used, and their quotas."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.projects()
    if as_json:
        print_json(found)
        return
    if not found:
        print("no project was used yet")
        return
    rows = table("project", "users", "running", "waiting", "GPUs held", "GPU-hours", "this month", "share", "limits")
    for one in found:
        hours = (f"{number:.2f}" for number in (one.gpu_hours, one.gpu_hours_month))
        counts = (one.running, one.total_queued, f"{one.allocated_gpus:.2f}", *hours, f"{one.share:.1%}")
        rows.add_row(*cells(one.name, ", ".join(one.users), *counts, "" if one.quota is None else terms(one.quota)))
    console().print(rows)
