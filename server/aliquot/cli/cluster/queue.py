"""`aliquot queue`, `pools`, `projects` and `usage`: pending sessions, parts of the cluster, and its use."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.quota import terms
from aliquot.cli.connection.output import cells, console, moment, print_json, request_text, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes

if TYPE_CHECKING:
    from aliquot.client.generated.queries_types import QueueEntry


First = Annotated[int, Option("--first", "-n", min=1, help="How many, from the head of the queue.")]


def queue(
    first: First = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the queue: pending sessions, the reason each one waits, and its latest start where that is known."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = list(nodes(lambda count, after: client.queue(first=count, after=after), first=first))
        total = client.queue(first=1).total_count
        idle = client.idle_behind_quotas()
    if as_json:
        print_json(found)
    elif found:
        _print(found)
        if total > len(found):
            print(f"and {total - len(found)} more; -n shows more")
        if idle is not None:
            print(idle.message)
    else:
        print("the queue is empty")


def _print(found: "Sequence[QueueEntry]") -> None:
    rows = table(
        "session", "position", "name", "owner", "priority", "request", "submitted", "latest start", "waiting for"
    )
    for entry in found:
        one = entry.session
        why = "" if one.waits is None else f"{one.waits.reason}: {one.waits.message}"
        request = request_text(one.slots, kernels=one.cluster_size)
        times = (moment(one.queued_at), moment(one.expected_start))
        rows.add_row(*cells(one.id, entry.position, one.name, one.owner, one.priority, request, *times, why))
    console().print(rows)


def pools(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the pools: agents, GPUs, and numbers of running and waiting sessions."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.pools()
    if as_json:
        print_json(found)
        return
    rows = table("pool", "agents", "nodes", "GPUs", "free", "held", "running", "waiting", "GPU type", "state")
    for one in found:
        gpus = (f"{number:.2f}" for number in (one.total_gpus, one.available_gpus, one.allocated_gpus))
        counts = (len(one.agents), len(one.nodes), *gpus, one.running, one.total_queued)
        rows.add_row(*cells(one.name, *counts, one.gpu_type, "" if one.schedulable else "not schedulable"))
    console().print(rows)


def projects(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the projects: users, sessions, GPUs held, GPU-hours and quotas."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.projects()
    if as_json:
        print_json(found)
        return
    if not found:
        print("no project has been used yet")
        return
    rows = table("project", "users", "running", "waiting", "GPUs held", "GPU-hours", "this month", "share", "limits")
    for one in found:
        hours = (f"{number:.2f}" for number in (one.gpu_hours, one.gpu_hours_month))
        counts = (one.running, one.total_queued, f"{one.allocated_gpus:.2f}", *hours, f"{one.share:.1%}")
        rows.add_row(*cells(one.name, ", ".join(one.users), *counts, "" if one.quota is None else terms(one.quota)))
    console().print(rows)


project: Final = typer.Typer(no_args_is_help=True, help="Create projects; `aliquot projects` shows them.")


@project.command("create")
def create_project(
    name: Annotated[str, Argument(metavar="NAME", help="The name of the new project.")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a project. Its first member or its first quota creates it too."""
    from aliquot.client.generated.enums import QuotaScope
    from aliquot.client.generated.policy_inputs import SetQuotaInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        is_new = not any(one.name == name for one in client.projects())
        if is_new:
            client.set_quota(SetQuotaInput(scope=QuotaScope.PROJECT, name=name, expected_version=0))
    if as_json:
        print_json({"name": name, "created": is_new})
    elif not is_new:
        print(f"project {name} exists already")
    else:
        print(f"created project {name}; `aliquot user set USER --project {name}` makes a user its member")


def usage(
    user: Annotated[str | None, Option(help="Only this user.")] = None,
    project: Annotated[str | None, Option(help="Only this project.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show GPU-hours: in total, in this month (UTC), and decayed as they count in fair share now."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.usage(user=user, project=project)
    if as_json:
        print_json(found)
        return
    if not found:
        print("nothing has been used yet")
        return
    rows = table("project", "user", "GPU-hours", "this month", "decayed", "share")
    for one in sorted(found, key=lambda one: -one.gpu_hours_decayed):
        hours = (f"{number:.2f}" for number in (one.gpu_hours, one.gpu_hours_month, one.gpu_hours_decayed))
        rows.add_row(*cells(one.project, one.user, *hours, f"{one.share:.1%}"))
    console().print(rows)
