"""The plain page: who holds which part of which device, and who waits. Read only, whole without a script.

It is at `/plain`, and at `/` while the dashboard is not built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from aliquot.api.contexts import Contexts
from aliquot.api.markup import Content, Html, document, element, joined, meter, table
from aliquot_schema.errors import AliquotError, Unauthenticated
from aliquot_schema.graphql.context import Context
from aliquot_schema.requests import AgentFilter, AgentOrder, PageRequest
from aliquot_schema.views import AgentView, DeviceView, HolderView, QueueEntryView

ROWS_MAX: Final = 100
_STYLE: Final = Path(__file__).with_name("page.css").read_bytes()
_QUERY: Final = "{ agents { edges { node { id gpu_alloc_map } } } }"


class StatusPage:
    """Renders what the reader has now."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    async def page(self, request: Request) -> Response:
        """The page, or how to sign in."""
        try:
            context = self._contexts.of_request(request)
        except Unauthenticated as error:
            return _document(element("p", "You are not signed in."), *_signing_in(request, error), status=401)
        try:
            content = await _overview(context)
        except AliquotError as error:
            return _document(element("p", error.message), status=503)
        signed_in = element("p", f"Signed in as {context.caller.user}.")
        return _document(signed_in, content, _building(request), _example(request))

    async def style(self, _request: Request) -> Response:
        """The style sheet."""
        return Response(_STYLE, media_type="text/css", headers={"cache-control": "public, max-age=3600"})


async def _overview(context: Context) -> Html:
    revision = await context.reader.at_revision(None)
    page = PageRequest(first=ROWS_MAX)
    agents = context.reader.agents(context.caller, AgentFilter(), AgentOrder.ID, page)
    queue = context.reader.queue(context.caller, page)
    names = await _session_names(context, agents.items)
    return joined(
        element("h2", "Devices"),
        *(_agent(agent, names) for agent in agents.items),
        Html() if agents.items else element("p", "No agent is registered."),
        _rest(agents.total_count, "agents"),
        element("h2", "Queue"),
        _queue(queue.items),
        _rest(queue.total_count, "waiting sessions"),
        element("p", f"As of event {revision}. Reload the page for news.", kind="quiet"),
    )


async def _session_names(context: Context, agents: tuple[AgentView, ...]) -> dict[str, str]:
    """What the owners call the sessions that hold devices, by session id."""
    devices = [device for agent in agents for device in agent.devices if _is_shown(device)]
    held = dict.fromkeys(holder.session_id for device in devices for holder in device.holders if holder.session_id)
    sessions = [await context.reader.session(context.caller, session_id) for session_id in held]
    return {session.id: session.name for session in sessions if session and session.name}


def _agent(agent: AgentView, names: Mapping[str, str]) -> Html:
    rows: list[tuple[Content, ...]] = [
        (
            joined(device.name, " ", element("span", device.model, kind="quiet")),
            meter(device.used, most=device.capacity),
            f"{device.free} of {device.capacity}",
            _holders(device.holders, names),
        )
        for device in agent.devices
        if _is_shown(device)
    ]
    shown = table(("Device", "In use", "Free", "Held by"), rows) if rows else element("p", "It has no accelerator.")
    return joined(element("h3", agent.id, " ", element("span", agent.state, kind="quiet")), shown)


def _is_shown(device: DeviceView) -> bool:
    return device.kind not in ("cpu", "mem")


def _holders(holders: tuple[HolderView, ...], names: Mapping[str, str]) -> Html:
    pieces: list[Content] = []
    for holder in holders:
        what = holder.session_id or holder.lease_id
        name = f", {names[what]}" if what in names else ""
        until = f", until {holder.until:%Y-%m-%d %H:%M} UTC" if holder.until else ""
        pieces.append(element("div", f"{holder.user}: {holder.share}{name}{until} ", element("code", what)))
    return joined(*pieces) if pieces else element("span", "nobody", kind="quiet")


def _queue(entries: tuple[QueueEntryView, ...]) -> Html:
    if not entries:
        return element("p", "Nobody waits.")
    rows: list[tuple[Content, ...]] = []
    for entry in entries:
        session = entry.session
        slots = ", ".join(f"{item.slot} {item.amount}" for item in session.slots)
        size = f"{session.cluster_size} x ({slots})" if session.cluster_size > 1 else slots
        why = session.waits.message if session.waits else "not judged yet"
        name = joined(element("div", session.name or ""), element("code", session.id))
        rows.append((entry.position, name, session.owner, size, session.priority.name.lower(), why))
    return table(("Place", "Session", "Owner", "Asks for", "Priority", "Waits because"), rows)


def _rest(total: int, what: str) -> Html:
    return element("p", f"The first {ROWS_MAX} of {total} {what}.", kind="quiet") if total > ROWS_MAX else Html()


def _signing_in(request: Request, error: Unauthenticated) -> tuple[Html, ...]:
    command = f'curl -s -X POST {_address(request)}/login-code -H "Authorization: Bearer $TOKEN"'
    return (
        element("p", Html('<a href="/login">Sign in with a key.</a>')),
        element("p", "The server printed an address when it started, which signs you in. It works once, and not long."),
        element("p", "For a new one, send this, and open the path of the answer:"),
        element("pre", command),
        element("p", error.message, kind="quiet"),
    )


def _building(request: Request) -> Html:
    if request.url.path == "/plain":
        return Html()
    return joined(
        element("h2", "The dashboard"),
        element("p", "This is the plain page: the dashboard is not built. Install Node 20 or newer, run this, reload:"),
        element("pre", "scripts/up"),
    )


def _example(request: Request) -> Html:
    command = (
        f"curl -s {_address(request)}/graphql -H 'content-type: application/json' "
        f'-H "authorization: Bearer $TOKEN" \\\n  -d \'{{"query": "{_QUERY}"}}\''
    )
    return joined(element("h2", "The same for programs"), element("pre", command))


def _address(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _document(*content: Content, status: int = 200) -> Response:
    about = "Shares the GPUs of this cluster among people: who holds which part of which, and who waits why."
    return HTMLResponse(
        document("Aliquot", element("h1", "Aliquot"), element("p", about), *content), status_code=status
    )
