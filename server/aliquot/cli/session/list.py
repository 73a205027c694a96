"""`aliquot session list`: lists sessions, filtered and ordered by its options."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.output import choice, print_json, request_text
from aliquot.cli.connection.server import PAGE, AsJson, AtServer, InCluster, TokenFile, connected, nodes, usage
from aliquot.cli.connection.tables import SESSION_ID_CHARS, Column, FullIds, Table, age, present, short_id, with_names
from aliquot.cli.session.completion import (
    agent_names,
    node_names,
    order_names,
    pool_names,
    project_names,
    state_names,
    user_names,
)
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import priority_of
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import parse_duration

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.sessions import Session, TaskSet, TimeRange


_WHOSE: Final = "Owner and kind"
_WHERE: Final = "Place"
_WHEN: Final = "Time: local, like 2026-03-01T12:00; or a duration before now, like 7d"
_HOW: Final = "Outcome"

States = Annotated[
    list[str] | None,
    Option("--state", help="In this state; may be repeated.", rich_help_panel=_WHOSE, autocompletion=state_names),
]
Owners = Annotated[
    list[str] | None,
    Option("--owner", help="Submitted by this user.", rich_help_panel=_WHOSE, autocompletion=user_names),
]
Mine = Annotated[bool, Option("--mine", help="Submitted by you.", rich_help_panel=_WHOSE)]
Projects = Annotated[
    list[str] | None,
    Option("--project", help="Charged to this project.", rich_help_panel=_WHOSE, autocompletion=project_names),
]
Priorities = Annotated[
    list[str] | None, Option("--priority", help="low, normal, high, critical, or 1 to 4.", rich_help_panel=_WHOSE)
]
Name = Annotated[str | None, Option(help="With exactly this name.", rich_help_panel=_WHOSE)]
Search = Annotated[str | None, Option(metavar="TEXT", help="With this in name or id.", rich_help_panel=_WHOSE)]
Tags = Annotated[
    list[str] | None,
    Option("--tag", metavar="NAME[=VALUE]", help="With this tag; all of them, when repeated.", rich_help_panel=_WHOSE),
]
ArrayId = Annotated[
    str | None, Option("--array", metavar="SESSION", help="Tasks of this job array.", rich_help_panel=_WHOSE)
]
Pools = Annotated[
    list[str] | None,
    Option("--pool", help="For this pool of agents.", rich_help_panel=_WHERE, autocompletion=pool_names),
]
Agents = Annotated[
    list[str] | None, Option("--agent", help="On this agent.", rich_help_panel=_WHERE, autocompletion=agent_names)
]
Nodes = Annotated[
    list[str] | None, Option("--node", help="On this node.", rich_help_panel=_WHERE, autocompletion=node_names)
]
Devices = Annotated[list[str] | None, Option("--device", help="On this device: a GPU's UUID.", rich_help_panel=_WHERE)]
QueuedSince = Annotated[str | None, Option(metavar="TIME", help="Submitted then or later.", rich_help_panel=_WHEN)]
QueuedUntil = Annotated[str | None, Option(metavar="TIME", help="Submitted then or before.", rich_help_panel=_WHEN)]
StartedSince = Annotated[str | None, Option(metavar="TIME", help="Started then or later.", rich_help_panel=_WHEN)]
StartedUntil = Annotated[str | None, Option(metavar="TIME", help="Started then or before.", rich_help_panel=_WHEN)]
EndedSince = Annotated[str | None, Option(metavar="TIME", help="Ended then or later.", rich_help_panel=_WHEN)]
EndedUntil = Annotated[str | None, Option(metavar="TIME", help="Ended then or before.", rich_help_panel=_WHEN)]
ExitCodes = Annotated[
    list[int] | None, Option("--exit-code", metavar="CODE", help="With this exit code.", rich_help_panel=_HOW)
]
Failures = Annotated[
    list[str] | None,
    Option("--failure", metavar="CODE", help="Failed for this reason, like time_limit, signal or exit_code.",
           rich_help_panel=_HOW),
]  # fmt: skip
Order = Annotated[
    str,
    Option(
        help="newest, oldest; or priority, started, ended, gpus, name, each with _desc or _asc.",
        autocompletion=order_names,
    ),
]
All = Annotated[bool, Option("--all", help="Include ended sessions.")]
Last = Annotated[int, Option("--last", "-n", min=1, help="How many: the first ones in that order.")]


def states_of(given: Sequence[str] | None, *, all_states: bool) -> "list[SessionState] | None":
    """The named states; else all, or those that have not ended."""
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.sessions import ENDED

    if given:
        return [choice(SessionState, text, of="state") for text in given]
    return None if all_states else [one for one in SessionState if one not in ENDED]


def range_of(since: str | None, until: str | None, *, option: str) -> "TimeRange | None":
    """A period between two times; None if neither is given.

    Raises:
        typer.Exit: one is not a time; the error has been printed.
    """
    from aliquot.client.generated.sessions import TimeRange

    if since is None and until is None:
        return None
    bounds = (moment_of(since, option=f"{option}-since"), moment_of(until, option=f"{option}-until"))
    return TimeRange(since=bounds[0], until=bounds[1])


def moment_of(text: str | None, *, option: str) -> datetime | None:
    """A time: ISO 8601, local unless a zone is given, like those of the table; or a duration before now."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):
        return _ago(text, option=option)


def _ago(text: str, *, option: str) -> datetime:
    from aliquot.clock import SystemClock

    now_s = SystemClock().now_us() / 1_000_000
    try:
        ago_s = parse_duration(text)
    except InvalidRequest:
        ago_s = None
    if ago_s is None or ago_s > now_s:
        usage(f"{option} {text}: give a time like 2026-03-01T12:00, or a duration before now like 90m, 2h30m or 7d")
    return datetime.fromtimestamp(now_s - ago_s, UTC)


def list_sessions(
    state: States = None,
    owner: Owners = None,
    mine: Mine = False,
    project: Projects = None,
    priority: Priorities = None,
    name: Name = None,
    search: Search = None,
    tag: Tags = None,
    array: ArrayId = None,
    pool: Pools = None,
    agent: Agents = None,
    node: Nodes = None,
    device: Devices = None,
    queued_since: QueuedSince = None,
    queued_until: QueuedUntil = None,
    started_since: StartedSince = None,
    started_until: StartedUntil = None,
    ended_since: EndedSince = None,
    ended_until: EndedUntil = None,
    exit_code: ExitCodes = None,
    failure: Failures = None,
    order: Order = "newest",
    all_states: All = False,
    last: Last = 50,
    full_ids: FullIds = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List sessions that have not ended. Ended ones are included by --all, or by a filter on name, end or outcome."""
    from aliquot.client.generated.enums import SessionOrder
    from aliquot.client.generated.sessions import SessionFilter

    ended_at = range_of(ended_since, ended_until, option="--ended")
    by = choice(SessionOrder, order, of="order")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        wanted = SessionFilter(
            states=states_of(state, all_states=bool(all_states or name or ended_at or exit_code or failure)),
            owners=[*(owner or ()), *([client.me().name] if mine else [])],
            projects=project,
            priorities=None if priority is None else [priority_of(one) for one in priority],
            name=name,
            search=search,
            array_id=None if array is None else find_session(client, array),
            tags=tag,
            pools=pool,
            agents=agent,
            nodes=node,
            devices=device,
            queued_at=range_of(queued_since, queued_until, option="--queued"),
            started_at=range_of(started_since, started_until, option="--started"),
            ended_at=ended_at,
            exit_codes=exit_code,
            failures=failure,
        )
        ask = partial(client.sessions, filter=wanted, order=by)
        found = list(nodes(lambda first, after: ask(first=first, after=after), first=last))
        _print(client, found, full_ids=full_ids, as_json=as_json)


def _print(client: "BlockingClient", found: "Sequence[Session]", *, full_ids: bool, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found:
        sessions_table(found, names=waiting_names(client, found), now=present(), full_ids=full_ids).show()
    else:
        print("no sessions; `aliquot session list --all` includes ended ones")


def count_tasks(client: "BlockingClient", array: "Session", states: "Iterable[SessionState]") -> int:
    """How many tasks of an array have a session of their own in these states."""
    from aliquot.client.generated.sessions import SessionFilter

    if array.tasks is None or not array.tasks.active.count:
        return 0
    return client.sessions(first=1, filter=SessionFilter(array_id=array.id, states=list(states))).total_count


def tasks_by_state(session: "Session") -> "list[tuple[str, TaskSet]]":
    """The tasks of an array by state, without empty sets; empty for other sessions."""
    if session.tasks is None:
        return []
    names = ("waiting", "active", "completed", "failed", "canceled")
    return [(name, tasks) for name in names if (tasks := getattr(session.tasks, name)).count]


def session_names(client: "BlockingClient", ids: "Iterable[str]", *, known: "Iterable[Session]" = ()) -> dict[str, str]:
    """The names of those of the sessions that have one, by id; a task is named like `sweep_3`.

    Args:
        known: sessions that need not be asked for.
    """
    from aliquot.client.generated.sessions import SessionFilter

    names = {one.id: one.name for one in known}
    asked = sorted({id for id in ids if id not in names})
    for start in range(0, len(asked), PAGE):
        page = asked[start : start + PAGE]
        found = client.sessions(first=len(page), filter=SessionFilter(ids=page))
        names |= {edge.node.id: edge.node.name for edge in found.edges}
    return {id: name + id[SESSION_ID_CHARS:] for id, name in names.items() if name}


def waiting_names(client: "BlockingClient", sessions: "Sequence[Session]") -> dict[str, str]:
    """The names of the sessions that some sessions wait for; without a request where these are among them."""
    ids = (id for one in sessions if one.waits is not None for id in one.waits.blocked_by)
    return session_names(client, ids, known=sessions)


def sessions_table(sessions: "Sequence[Session]", *, names: dict[str, str], now: datetime, full_ids: bool) -> Table:
    """Sessions with their state and age; below each, why it waits or how it ended.

    Args:
        names: of the sessions that these wait for, by id.
    """
    rows = Table(
        Column("session"),
        Column("name", importance=70, width_min=12),
        Column("owner", importance=50, width_min=8),
        Column("state"),
        Column("request", importance=60, width_min=16),
        Column("submitted", brief="age", importance=80, is_number=True),
        Column("details", in_terminal=False),
    )
    for one in sessions:
        why = f"{one.waits.reason}: {one.waits.message}" if one.waits else ""
        outcome = f"exit code {one.exit_code}" if one.exit_code else one.failure.message if one.failure else ""
        array = ", ".join(f"{tasks.count} {name}" for name, tasks in tasks_by_state(one))
        request = request_text(one.slots, kernels=one.cluster_size)
        rows.add(
            short_id(one.id, full=full_ids),
            *(one.name, one.owner, one.state, request),
            age(one.queued_at, now=now),
            array or why or outcome,
            note="; ".join(filter(None, (array, with_names(one.waits.message, names) if one.waits else outcome))),
        )
    return rows
