"""Shell completion: names from the selected server, with a timeout of one second; nothing if it does not answer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from typer import Context

from aliquot.cli.connection.output import printable

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


T = TypeVar("T")
_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "cancel": ("queued", "held", "scheduled", "allocating", "running", "preempting"),
    "wait": ("queued", "held", "scheduled", "allocating", "running", "preempting"),
    "why": ("queued", "held"),
    "hold": ("queued",),
    "release": ("held",),
    "retry": ("completed", "failed", "canceled"),
}
"""By command, the states of the sessions that it is for; the others are for all."""


def recent_sessions(context: Context) -> list[tuple[str, str]]:
    """The ids of the newest 20 sessions that the command is for, each with its name and state."""

    def ask(client: "BlockingClient") -> list[tuple[str, str]]:
        from aliquot.client.generated.enums import SessionState
        from aliquot.client.generated.sessions import SessionFilter

        states = _STATES.get(context.info_name or "")
        wanted = SessionFilter(states=None if states is None else [SessionState(name) for name in states])
        found = (edge.node for edge in client.sessions(first=20, filter=wanted).edges)
        return [(one.id, f"{printable(one.name)} {one.state}".strip()) for one in found]

    return _query(context, ask)


def state_names() -> list[str]:
    """The states of a session."""
    from aliquot.client.generated.enums import SessionState

    return list(SessionState)


def order_names() -> list[str]:
    """The orders of a list of sessions."""
    from aliquot.client.generated.enums import SessionOrder

    return list(SessionOrder)


def pool_names(context: Context) -> list[str]:
    """The pools of the policy."""
    return _query(context, lambda client: [pool.name for pool in client.pools()])


def project_names(context: Context) -> list[str]:
    """The projects that have been used, or have a quota."""
    return _query(context, lambda client: [project.name for project in client.projects()])


def _query(context: Context, ask: "Callable[[BlockingClient], list[T]]") -> list[T]:
    from aliquot.client import BlockingClient, ClientFailure, find_place
    from aliquot_schema.errors import AliquotError

    try:
        place = find_place(**{name: context.params.get(name) for name in ("cluster", "server", "token_file")})
        with BlockingClient(place.url, place.token, timeout_s=1.0, ca_file=place.ca_file) as client:
            return ask(client)
    except (ClientFailure, AliquotError, OSError):
        return []
