"""Shell completion: names from the selected server, with a timeout of one second; nothing if it does not answer."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from typer import Context

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


_PLAIN: Final = re.compile(r"[\w.@%+,/-]+")
_SAFE: Final = re.compile(r"[\w.@%+,/:-]+")
"""A value that no shell has to quote."""
_UNSAFE: Final = re.compile(r"[^\w .@%+,/:-]+")
"""In a description: zsh evaluates it, and names are the texts of other users."""
_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "cancel": ("queued", "held", "scheduled", "allocating", "running", "preempting"),
    "shell": ("running",),
    "forward": ("running",),
    "open": ("running",),
    "keep": ("running",),
    "extend": ("running",),
    "wait": ("queued", "held", "scheduled", "allocating", "running", "preempting"),
    "why": ("queued", "held"),
    "change": ("queued", "held"),
    "hold": ("queued",),
    "release": ("held",),
    "retry": ("completed", "failed", "canceled"),
}
"""By command, the states of the sessions that it is for; the others are for all."""


def recent_sessions(context: Context, incomplete: str) -> list[tuple[str, str]]:
    """The ids of the newest 20 sessions that the command is for, each with its name and state; of a name, the names.

    A name with characters that a shell would have to quote is left out.
    """
    is_name = not ("ses_".startswith(incomplete) or incomplete.startswith("ses_"))

    def ask(client: "BlockingClient") -> list[tuple[str, str]]:
        from aliquot.client.generated.enums import SessionState
        from aliquot.client.generated.sessions import SessionFilter

        states = _STATES.get(context.info_name or "")
        wanted = SessionFilter(
            states=None if states is None else [SessionState(name) for name in states],
            search=incomplete if is_name else None,
        )
        found = (edge.node for edge in client.sessions(first=20, filter=wanted).edges)
        if is_name:
            # A task has the name of its array.
            return [
                (one.name, f"{one.state} {one.id}")
                for one in found
                if one.array_id is None and one.name is not None and _PLAIN.fullmatch(one.name)
            ]
        return [(one.id, f"{one.name or ''} {one.state}".strip()) for one in found]

    return _query(context, ask)


def state_names() -> list[str]:
    """The states of a session."""
    from aliquot.client.generated.enums import SessionState

    return list(SessionState)


def order_names() -> list[str]:
    """The orders of a list of sessions."""
    from aliquot.client.generated.enums import SessionOrder

    return list(SessionOrder)


def pool_names(context: Context) -> list[tuple[str, str]]:
    """The pools of the policy."""
    return _query(context, lambda client: [pool.name for pool in client.pools()])


def project_names(context: Context) -> list[tuple[str, str]]:
    """The projects that have been used, or have a quota."""
    return _query(context, lambda client: [project.name for project in client.projects()])


def agent_names(context: Context) -> list[tuple[str, str]]:
    """The agents that have ever registered, at most 100."""
    return _query(context, lambda client: [edge.node.id for edge in client.agents(first=100).edges])


def node_names(context: Context) -> list[tuple[str, str]]:
    """The nodes of these agents."""
    return _query(context, lambda client: sorted({edge.node.hostname for edge in client.agents(first=100).edges}))


def user_names(context: Context) -> list[tuple[str, str]]:
    """All users; none unless the caller is an operator."""
    return _query(context, lambda client: [user.name for user in client.users()])


def key_ids(context: Context) -> list[tuple[str, str]]:
    """The ids of keys, each with its owner and purpose."""
    return _query(context, lambda client: [(key.id, f"{key.user} {key.name}") for key in client.api_keys()])


def quota_subjects(context: Context) -> list[tuple[str, str]]:
    """What a quota may be of: the cluster, the projects and, for operators, the users."""

    def ask(client: "BlockingClient") -> list[str]:
        from aliquot.client import ClientFailure
        from aliquot_schema.errors import AliquotError

        projects = [f"project:{project.name}" for project in client.projects()]
        with suppress(ClientFailure, AliquotError):
            return ["cluster", *projects, *(f"user:{user.name}" for user in client.users())]
        return ["cluster", *projects]

    return _query(context, ask)


def _query(
    context: Context, ask: "Callable[[BlockingClient], Sequence[str] | Sequence[tuple[str, str]]]"
) -> list[tuple[str, str]]:
    """Values with their descriptions, in characters that mean nothing to a shell."""
    from aliquot.client import BlockingClient, ClientFailure, find_place
    from aliquot_schema.errors import AliquotError

    try:
        place = find_place(**{name: context.params.get(name) for name in ("cluster", "server", "token_file")})
        with BlockingClient(place.url, place.token, timeout_s=1.0, ca_file=place.ca_file) as client:
            found = [(one, "") if isinstance(one, str) else one for one in ask(client)]
    except (ClientFailure, AliquotError, OSError):
        return []
    return [(value, _UNSAFE.sub("_", text)) for value, text in found if _SAFE.fullmatch(value)]
