"""Status page: devices with their holders, and the queue. Read only, works without JavaScript.

It is served at `/plain`, and at `/` while the dashboard is not built. Text inserted into a `Markup` is
escaped.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from aliquot.api.context import Contexts
from aliquot_schema.errors import AliquotError, Unauthenticated
from aliquot_schema.graphql.context import Context
from aliquot_schema.requests import AgentFilter, AgentOrder, PageRequest
from aliquot_schema.views.agents import AgentView, DeviceView, HolderView
from aliquot_schema.views.sessions import QueueEntryView

ROWS_MAX: Final = 100
_STYLE: Final = Path(__file__).with_name("page.css").read_bytes()
_QUERY: Final = "{ agents { edges { node { id gpu_alloc_map } } } }"

PARAGRAPH: Final = Markup("<p>{}</p>")
NOTHING: Final = Markup("")
_DOCUMENT: Final = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<link rel="stylesheet" href="/page.css"><title>Aliquot</title></head><body><h1>Aliquot</h1>{}</body></html>'
)
_TABLE: Final = Markup('<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>')
_QUIET: Final = Markup('<p class="quiet">{}</p>')
_BLOCK: Final = Markup("<pre>{}</pre>")


def document(*content: Markup) -> str:
    """A whole page."""
    return _DOCUMENT.format(NOTHING.join(content))


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Markup:
    """A table that scrolls where it is too wide; cells that begin with a digit are amounts."""
    head = NOTHING.join(Markup("<th>{}</th>").format(text) for text in heads)
    body = NOTHING.join(Markup("<tr>{}</tr>").format(NOTHING.join(map(_cell, row))) for row in rows)
    return _TABLE.format(head, body)


def _cell(content: str) -> Markup:
    return Markup('<td class="amount">{}</td>' if content[:1].isdigit() else "<td>{}</td>").format(content)


class StatusPage:
    """Renders the current state."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    async def page(self, request: Request) -> Response:
        """The page, or how to sign in."""
        try:
            context = self._contexts.of_request(request)
        except Unauthenticated as error:
            return _page(PARAGRAPH.format("You are not signed in."), _sign_in_help(request, error), status=401)
        try:
            content = await _overview(context)
        except AliquotError as error:
            return _page(PARAGRAPH.format(error.message), status=503)
        signed_in = PARAGRAPH.format(f"Signed in as {context.caller.user}.")
        return _page(signed_in, content, _build_help(request), _example(request))

    async def style(self, _request: Request) -> Response:
        """The style sheet."""
        return Response(_STYLE, media_type="text/css", headers={"cache-control": "public, max-age=3600"})


async def _overview(context: Context) -> Markup:
    revision = await context.services.queries.at_revision(None)
    page = PageRequest(first=ROWS_MAX)
    agents = context.services.queries.agents(context.caller, AgentFilter(), AgentOrder.ID, page)
    queue = context.services.queries.queue(context.caller, page)
    names = await _session_names(context, agents.items)
    return NOTHING.join(
        (
            Markup("<h2>Devices</h2>"),
            *(_agent(agent, names) for agent in agents.items),
            NOTHING if agents.items else PARAGRAPH.format("No agent is registered."),
            _rest(agents.total_count, "agents"),
            Markup("<h2>Queue</h2>"),
            _queue(queue.items),
            _rest(queue.total_count, "waiting sessions"),
            _QUIET.format(f"As of event {revision}. Reload the page for the current state."),
        )
    )


async def _session_names(context: Context, agents: tuple[AgentView, ...]) -> dict[str, str]:
    """Names of the sessions that hold devices, by session id."""
    devices = [device for agent in agents for device in agent.devices if _is_accelerator(device)]
    held = dict.fromkeys(holder.session_id for device in devices for holder in device.holders if holder.session_id)
    sessions = [await context.services.queries.session(context.caller, session_id) for session_id in held]
    return {session.id: session.name for session in sessions if session and session.name}


def _agent(agent: AgentView, names: Mapping[str, str]) -> Markup:
    rows = [
        (
            Markup('{} <span class="quiet">{}</span>').format(device.name, device.model),
            Markup('<meter value="{0}" max="{1}">{0}</meter>').format(device.used, device.capacity),
            f"{device.free} of {device.capacity}",
            _holders(device.holders, names),
        )
        for device in agent.devices
        if _is_accelerator(device)
    ]
    head = Markup('<h3>{} <span class="quiet">{}</span></h3>').format(agent.id, agent.state)
    if not rows:
        return head + PARAGRAPH.format("This agent has no accelerators.")
    return head + table(("Device", "In use", "Free", "Held by"), rows)


def _is_accelerator(device: DeviceView) -> bool:
    return device.kind not in ("cpu", "mem")


def _holders(holders: tuple[HolderView, ...], names: Mapping[str, str]) -> Markup:
    pieces = []
    for holder in holders:
        what = holder.session_id or holder.lease_id
        name = f", {names[what]}" if what in names else ""
        until = f", until {holder.until:%Y-%m-%d %H:%M} UTC" if holder.until else ""
        pieces.append(
            Markup("<div>{}: {}{}{} <code>{}</code></div>").format(holder.user, holder.share, name, until, what)
        )
    return NOTHING.join(pieces) if pieces else Markup('<span class="quiet">no holder</span>')


def _queue(entries: tuple[QueueEntryView, ...]) -> Markup:
    if not entries:
        return PARAGRAPH.format("No session is waiting.")
    rows = []
    for entry in entries:
        session = entry.session
        slots = ", ".join(f"{item.slot} {item.amount}" for item in session.slots)
        size = f"{session.cluster_size} x ({slots})" if session.cluster_size > 1 else slots
        why = session.waits.message if session.waits else "not evaluated yet"
        name = Markup("<div>{}</div><code>{}</code>").format(session.name or "", session.id)
        rows.append((str(entry.position), name, session.owner, size, session.priority.name.lower(), why))
    return table(("Position", "Session", "Owner", "Requests", "Priority", "Reason"), rows)


def _rest(total: int, what: str) -> Markup:
    return _QUIET.format(f"The first {ROWS_MAX} of {total} {what}.") if total > ROWS_MAX else NOTHING


def _sign_in_help(request: Request, error: Unauthenticated) -> Markup:
    command = f'curl -s -X POST {_address(request)}/login-code -H "Authorization: Bearer $TOKEN"'
    return Markup(
        '<p><a href="/login">Sign in with a key.</a></p>'
        "<p>At its start the server printed an address that signs you in. It works once, within 15 minutes.</p>"
        "<p>To get a new address, send this request and open the path in the response:</p>{}{}"
    ).format(_BLOCK.format(command), _QUIET.format(error.message))


def _build_help(request: Request) -> Markup:
    if request.url.path == "/plain":
        return NOTHING
    return Markup(
        "<h2>The dashboard</h2><p>This is the plain page: the dashboard is not built. "
        "Install Node 20 or newer, run this, and reload:</p><pre>scripts/up</pre>"
    )


def _example(request: Request) -> Markup:
    command = (
        f"curl -s {_address(request)}/graphql -H 'content-type: application/json' "
        f'-H "authorization: Bearer $TOKEN" \\\n  -d \'{{"query": "{_QUERY}"}}\''
    )
    return Markup("<h2>The same data for programs</h2>") + _BLOCK.format(command)


def _address(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _page(*content: Markup, status: int = 200) -> Response:
    about = "Shares the GPUs of this cluster: which sessions hold which devices, and why others are waiting."
    return HTMLResponse(document(PARAGRAPH.format(about), *content), status_code=status)
