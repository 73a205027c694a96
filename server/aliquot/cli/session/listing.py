"""`aliquot session list`: the sessions there are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.pages import nodes
from aliquot.cli.connection.printing import asked, cells, console, moment, print_json, table

if TYPE_CHECKING:
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.session_filters import SessionFilter
    from aliquot.client.generated.sessions import Session

States = Annotated[list[str] | None, Option("--state", help="In this state; may be given several times.")]
Owner = Annotated[list[str] | None, Option("--owner", help="Submitted by this user.")]
Mine = Annotated[bool, Option("--mine", help="Submitted by whoever asks.")]
All = Annotated[bool, Option("--all", help="Ended ones too.")]
Last = Annotated[int, Option("--last", "-n", min=1, help="So many, the newest.")]


def list_sessions(
    state: States = None,
    owner: Owner = None,
    mine: Mine = False,
    name: Annotated[str | None, Option(help="With exactly this name.")] = None,
    all_states: All = False,
    last: Last = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, the newest first: those that have not ended, unless something else is asked."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        owners = [*(owner or ()), *([client.me().name] if mine else [])]
        wanted = _filter(states=state, owners=owners, name=name, all_states=all_states)
        found = list(nodes(lambda first, after: client.sessions(filter=wanted, first=first, after=after), first=last))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _filter(*, states: list[str] | None, owners: list[str], name: str | None, all_states: bool) -> "SessionFilter":
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.session_filters import SessionFilter
    from aliquot.client.session_calls import ENDED

    going = [one for one in SessionState if one not in ENDED]
    chosen = [_state(text) for text in states] if states else None if all_states or name else going
    return SessionFilter(states=chosen, owners=owners or None, name=name)


def _state(text: str) -> "SessionState":
    from aliquot.cli.connection.asking import usage
    from aliquot.client.generated.enums import SessionState

    if text not in list(SessionState):
        usage(f"--state {text}: it is one of {', '.join(SessionState)}")
    return SessionState(text)


def _print(found: "Sequence[Session]") -> None:
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
