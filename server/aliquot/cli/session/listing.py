"""`aliquot session list`: the sessions there are."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.choices import choice
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.pages import nodes
from aliquot.cli.connection.printing import asked, cells, console, moment, print_json, table
from aliquot.cli.session import listing_options as options
from aliquot.cli.session.listing_terms import range_of, states_of

if TYPE_CHECKING:
    from aliquot.client.generated.sessions import Session


def list_sessions(
    state: options.States = None,
    owner: options.Owners = None,
    mine: options.Mine = False,
    project: options.Projects = None,
    priority: options.Priorities = None,
    name: options.Name = None,
    search: options.Search = None,
    array: options.ArrayId = None,
    pool: options.Pools = None,
    agent: options.Agents = None,
    node: options.Nodes = None,
    device: options.Devices = None,
    queued_since: options.QueuedSince = None,
    queued_until: options.QueuedUntil = None,
    started_since: options.StartedSince = None,
    started_until: options.StartedUntil = None,
    ended_since: options.EndedSince = None,
    ended_until: options.EndedUntil = None,
    exit_code: options.ExitCodes = None,
    failure: options.Failures = None,
    order: options.Order = "newest",
    all_states: options.All = False,
    last: options.Last = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List sessions: those that have not ended, unless a state, a name, or how or when they ended is asked for."""
    from aliquot.client.generated.enums import SessionOrder
    from aliquot.client.generated.session_filters import SessionFilter

    ended_at = range_of(ended_since, ended_until, option="--ended")
    by = choice(SessionOrder, order, of="order")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        wanted = SessionFilter(
            states=states_of(state, all_states=bool(all_states or name or ended_at or exit_code or failure)),
            owners=[*(owner or ()), *([client.me().name] if mine else [])],
            projects=project,
            priorities=priority,
            name=name,
            search=search,
            array_id=array,
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
    _print(found, as_json=as_json)


def _print(found: "Sequence[Session]", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found:
        print("no sessions; `aliquot session list --all` shows ended ones too")
        return
    rows = table("session", "name", "owner", "state", "asks", "submitted", "")
    for one in found:
        why = f"{one.waits.reason}: {one.waits.message}" if one.waits else ""
        ends = f"exit code {one.exit_code}" if one.exit_code else one.failure.message if one.failure else ""
        array = "" if one.tasks is None else f"{one.tasks.completed.count} completed, {one.tasks.failed.count} failed"
        asks = asked(one.slots, kernels=one.cluster_size)
        row = cells(one.id, one.name, one.owner, one.state, asks, moment(one.queued_at), array or why or ends)
        rows.add_row(*row)
    console().print(rows)
