"""Shell completion: names from the selected server, with a timeout of one second; nothing if it does not answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from typer import Context

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


def recent_sessions(context: Context) -> list[str]:
    """The ids of the newest 20 sessions."""
    return _query(context, lambda client: [edge.node.id for edge in client.sessions(first=20).edges])


def pool_names(context: Context) -> list[str]:
    """The pools of the policy."""
    return _query(context, lambda client: [pool.name for pool in client.pools()])


def project_names(context: Context) -> list[str]:
    """The projects that have been used, or have a quota."""
    return _query(context, lambda client: [project.name for project in client.projects()])


def _query(context: Context, ask: "Callable[[BlockingClient], list[str]]") -> list[str]:
    from aliquot.client import BlockingClient, ClientFailure, find_place
    from aliquot_schema.errors import AliquotError

    try:
        place = find_place(**{name: context.params.get(name) for name in ("cluster", "server", "token_file")})
        with BlockingClient(place.url, place.token, timeout_s=1.0, ca_file=place.ca_file) as client:
            return ask(client)
    except (ClientFailure, AliquotError, OSError):
        return []
