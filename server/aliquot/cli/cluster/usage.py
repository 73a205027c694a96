"""`aliquot usage`: what users have used within their projects."""

from typing import Annotated

from typer import Option

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table


def usage(
    user: Annotated[str | None, Option(help="Of this user.")] = None,
    project: Annotated[str | None, Option(help="Within this project.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show GPU-hours: in all, in this month (UTC), and what of them counts in fair share now."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.usage(user=user, project=project)
    if as_json:
        print_json(found)
        return
    if not found:
        print("nothing was used yet")
        return
    rows = table("project", "user", "GPU-hours", "this month", "counts now", "share")
    for one in sorted(found, key=lambda one: -one.gpu_hours_decayed):
        hours = (f"{number:.2f}" for number in (one.gpu_hours, one.gpu_hours_month, one.gpu_hours_decayed))
        rows.add_row(*cells(one.project, one.user, *hours, f"{one.share:.1%}"))
    console().print(rows)
