"""`aliquot queue`, `pools`, `projects` and `usage`: pending sessions, parts of the cluster, and its use."""

import csv
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.quota import limits_text, terms
from aliquot.cli.cluster.scheduling import state_text
from aliquot.cli.connection.output import choice, json_text, print_json, request_text
from aliquot.cli.connection.screen import Interval, Watch, interval_of, show
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes
from aliquot.cli.connection.server import usage as usage_error
from aliquot.cli.connection.tables import BriefCell, Cell, Column, FullIds, Table, age, present, short_id, with_names
from aliquot.cli.session.completion import project_names

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.cluster import Project
    from aliquot.client.generated.queries_types import QueueEntry


DAY_S: Final = 86_400.0
DAYS_MAX: Final = 2000
_PERIOD: Final = "A period"
First = Annotated[int, Option("--first", "-n", min=1, help="How many, from the head of the queue.")]


def queue(
    first: First = 50,
    watch: Watch = False,
    interval: Interval = "2s",
    full_ids: FullIds = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the queue: pending sessions, the reason each one waits, and its latest start where that is known."""
    interval_s = interval_of(interval)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        show(
            lambda: [json_text(_first(client, first))] if as_json else _drawn(client, first, full_ids=full_ids),
            interval_s=interval_s if watch else None,
            on_screen=not as_json,
        )


def _first(client: "BlockingClient", first: int) -> "list[QueueEntry]":
    return list(nodes(lambda count, after: client.queue(first=count, after=after), first=first))


def _drawn(client: "BlockingClient", first: int, *, full_ids: bool) -> list[str]:
    from aliquot.cli.session.list import waiting_names

    found = _first(client, first)
    if not found:
        return ["the queue is empty"]
    names = waiting_names(client, [entry.session for entry in found])
    lines = queue_table(found, names=names, now=present(), full_ids=full_ids).shown()
    total = client.queue(first=1).total_count
    more = [f"and {total - len(found)} more; -n shows more"] if total > len(found) else []
    idle = client.idle_behind_quotas()
    notes = [] if idle is None else [idle.message]
    if any(one.session.waits is not None and one.session.waits.reason == "stopped" for one in found):
        notes.append(state_text(client.orchestrator()))
    return [*lines, *more, *notes]


def queue_table(entries: "Sequence[QueueEntry]", *, names: Mapping[str, str], now: datetime, full_ids: bool) -> Table:
    """Pending sessions in the order of the queue; below each, why it waits.

    Args:
        names: of the sessions that these wait for, by id.
    """
    rows = Table(
        Column("session"),
        Column("position", brief="pos", is_number=True),
        Column("name", importance=70, width_min=12),
        Column("owner", importance=50, width_min=8),
        Column("priority", importance=20),
        Column("request", importance=60, width_min=16),
        Column("submitted", brief="age", importance=80, is_number=True),
        Column("latest start", brief="starts in", importance=40, is_number=True),
        Column("waiting for", in_terminal=False),
    )
    for entry in entries:
        one = entry.session
        why, note = "", ""
        if one.waits is not None:
            why, note = f"{one.waits.reason}: {one.waits.message}", with_names(one.waits.message, names)
        request = request_text(one.slots, kernels=one.cluster_size)
        times = (age(one.queued_at, now=now), age(one.expected_start, now=now))
        id = short_id(one.id, full=full_ids)
        rows.add(id, one.queue_position, one.name, one.owner, one.priority, request, *times, why, note=note)
    return rows


def pools(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the pools: agents, GPUs, and numbers of running and waiting sessions."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.pools()
    if as_json:
        print_json(found)
        return
    counted = ("agents", "nodes", "GPUs", "free", "held", "running", "waiting")
    numbers = (Column(name, is_number=True, importance=50 - place) for place, name in enumerate(counted))
    rows = Table(Column("pool"), *numbers, Column("GPU type", importance=30, width_min=12), Column("state"))
    for one in found:
        gpus = (_number(number) for number in (one.total_gpus, one.available_gpus, one.allocated_gpus))
        counts: tuple[Cell, ...] = (len(one.agents), len(one.nodes), *gpus, one.running, one.total_queued)
        rows.add(one.name, *counts, one.gpu_type, "" if one.schedulable else "not schedulable")
    rows.show()


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
    projects_table(found).show()


def projects_table(projects: "Sequence[Project]") -> Table:
    """Projects with their use; below each, its users and limits."""
    rows = Table(
        Column("project", width_min=12),
        Column("users", in_terminal=False),
        Column("users", importance=20, is_number=True, in_pipe=False),
        Column("running", is_number=True),
        Column("waiting", is_number=True),
        Column("GPUs held", importance=90, is_number=True),
        Column("GPU-hours", importance=50, is_number=True),
        Column("this month", importance=60, is_number=True),
        Column("share", importance=40, is_number=True),
        Column("limits", in_terminal=False),
    )
    for one in projects:
        hours = (_hours(number) for number in (one.gpu_hours, one.gpu_hours_month))
        counts: tuple[Cell, ...] = (
            one.running,
            one.total_queued,
            _number(one.allocated_gpus),
            *hours,
            f"{100 * one.share:.1f} %",
        )
        users, limits = ", ".join(one.users), "" if one.quota is None else terms(one.quota)
        known = "" if one.quota is None else limits_text(one.quota)
        note = "; ".join(filter(None, (known, users and f"users: {users}")))
        rows.add(one.name, users, len(one.users), *counts, limits, note=note)
    return rows


def _number(number: float) -> BriefCell:
    """`2` or `0.25`; with two decimals in a pipe."""
    return BriefCell(f"{number:.2f}".rstrip("0").rstrip("."), f"{number:.2f}")


def _hours(number: float) -> BriefCell:
    """`428.2`, whose points stand below each other; with two decimals in a pipe."""
    return BriefCell(f"{number:.1f}", f"{number:.2f}")


project: Final = typer.Typer(no_args_is_help=True, help="Create and delete projects; `aliquot projects` shows them.")


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


@project.command("delete")
def delete_project(
    name: Annotated[str, Argument(metavar="NAME", help="The project.", autocompletion=project_names)],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a project that has no members, no quota, and no sessions that wait or run. For admins.

    Its past sessions and its usage stay in reports. A project of the same name can be created again.
    """
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.delete_project(name)
    print_json(done) if as_json else print(f"deleted project {done.name}")


def usage(
    user: Annotated[str | None, Option(help="Only this user.")] = None,
    project: Annotated[str | None, Option(help="Only this project.")] = None,
    month: Annotated[
        str | None, Option(metavar="YYYY-MM", help="Only this month, UTC.", rich_help_panel=_PERIOD)
    ] = None,
    since: Annotated[str | None, Option(metavar="DATE", help="From this day on, UTC.", rich_help_panel=_PERIOD)] = None,
    until: Annotated[
        str | None, Option(metavar="DATE", help="Up to this day, which is not counted.", rich_help_panel=_PERIOD)
    ] = None,
    by: Annotated[
        str | None, Option(metavar="user|project", help="What to add up by; default: user.", rich_help_panel=_PERIOD)
    ] = None,
    as_csv: Annotated[bool, Option("--csv", help="Print it as CSV.", rich_help_panel=_PERIOD)] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show GPU-hours: in total, in this month (UTC), and decayed, which is what counts in fair share.

    For a period: the GPU-hours of each user or project in it, and how busy their GPUs were.
    """
    first, end = _days(month=month, since=since, until=until)
    if (first or end) and (user or project):
        usage_error("--user and --project show all use since the beginning; for a period use --by user or --by project")
    if (as_csv or by) and not (first or end):
        usage_error("--by and --csv are for the GPU-hours of a period; add --month or --since")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if first or end:
            _print_period(client, first, end, by=by or "user", as_csv=as_csv, as_json=as_json)
            return
        found = client.usage(user=user, project=project)
    if as_json:
        print_json(found)
        return
    if not found:
        print("nothing has been used yet")
        return
    numbers = (Column(name, is_number=True) for name in ("GPU-hours", "this month", "decayed", "share"))
    rows = Table(Column("project", width_min=12), Column("user", width_min=8), *numbers)
    for one in sorted(found, key=lambda one: -one.gpu_hours_decayed):
        hours = (_hours(number) for number in (one.gpu_hours, one.gpu_hours_month, one.gpu_hours_decayed))
        rows.add(one.project, one.user, *hours, f"{100 * one.share:.1f} %")
    rows.show()


def _days(*, month: str | None, since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """The start and the end of a period; None = not given."""
    if month is not None and (since is not None or until is not None):
        usage_error("give --month, or --since and --until")
    try:
        if month is not None:
            first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
            return first, (first + timedelta(days=31)).replace(day=1)
        days = [
            None if text is None else datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) for text in (since, until)
        ]
    except (ValueError, OverflowError):
        usage_error("give a month like 2026-05, or a day like 2026-05-17")
    return days[0], days[1]


def _print_period(
    client: "BlockingClient", first: datetime | None, end: datetime | None, *, by: str, as_csv: bool, as_json: bool
) -> None:
    """Print the GPU-hours of a period by user or project, the largest first."""
    from aliquot.client.generated.enums import UsageBy

    if first is None:
        usage_error("--until: add --since, the first day of the period")
    if first > present():
        usage_error("the period has not begun yet")
    until = None if end is None else min(end, present())
    if (until or present()) - first > timedelta(days=DAYS_MAX):
        usage_error(f"--since: a period may have at most {DAYS_MAX} days; give a later day")
    found = client.usage_history(by=choice(UsageBy, by, of="grouping"), since=first, until=until, step=DAY_S)
    if as_json:
        print_json(found)
        return
    sums = [(one.name or "others", sum(one.gpu_hours), _mean(one.gpu_hours, one.utilization)) for one in found.series]
    if as_csv:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow((by, "gpu_hours", "use_percent"))
        lines.writerows((name, f"{hours:.3f}", "" if use is None else f"{use:.1f}") for name, hours, use in sums)
    elif not sums:
        print("nothing was used in this period")
    else:
        rows = Table(Column(by, width_min=12), Column("GPU-hours", is_number=True), Column("use", is_number=True))
        for name, hours, use in [*sums, ("all", sum(hours for _, hours, _ in sums), None)]:
            rows.add(name, _hours(hours), "" if use is None else f"{use:.0f} %")
        rows.show()
    if found.warning is not None:
        print(f"aliquot: {found.warning}", file=sys.stderr)


def _mean(hours: Sequence[float], use: Sequence[float | None]) -> float | None:
    """The mean use of GPUs in percent, over the hours for which it was measured."""
    known = [(weight, value) for weight, value in zip(hours, use, strict=True) if value is not None and weight]
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known) if known else None
