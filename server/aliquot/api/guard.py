"""The guard: which hosts may be asked for, and which sites' pages may ask.

A page of another site can point its own name at this machine (DNS rebinding) or send requests with a browser's
cookies. The Host header gives the first away, the Origin header the second.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from aliquot.api.refusals import refusal
from aliquot.api.request_ids import REQUEST_ID
from aliquot_schema.agent_protocol import PATH as AGENTS_PATH

log: Final = logging.getLogger("aliquot.api")

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", AGENTS_PATH})
"""Asked by whatever watches the server, under whatever name; they tell nothing that is worth guarding. Agents show a
key in a header that no page can set."""


class Guard:
    """Refuses requests for other hosts with 421, and those from other sites with 403; WebSockets with 403 alone.

    Args:
        hosts: names and addresses without a port; `*.example.org` takes every name below it, `*` takes all.
        origins: sites beside the server itself whose pages may ask, like `http://localhost:5173`.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = tuple(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        refused = None
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN_PATHS:
            refused = self._refusal(Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, message = refused
        if scope["type"] == "websocket":
            # Before the handshake this becomes a bare 403, and no browser would show the words: they are for the log.
            log.warning("%s: %s", scope[REQUEST_ID], message)
            await WebSocketClose(1008, message)(scope, receive, send)
            return
        await refusal(scope, status, "forbidden", message)(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        asked = headers.getlist("host")
        host = _hostname(f"//{asked[0]}") if len(asked) == 1 else None
        if host is None:
            return 400, "The request must name one host."
        if not any(_matches(host, allowed) for allowed in self._hosts):
            return 421, f"{host} is not a name of this server. Add that name to the setting allowed-hosts."
        origin = headers.get("origin")
        if origin is None or origin.lower() in self._origins or _is_same(origin, asked[0]):
            return None
        return (
            403,
            f"Pages of {origin[:200]} may not use this server. Add that site to the setting allowed-origins.",
        )


def _matches(host: str, allowed: str) -> bool:
    return allowed in ("*", host) or (allowed.startswith("*.") and host.endswith(allowed[1:]))


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin.lower()).netloc == host.lower()
    except ValueError:
        return False


@lru_cache(maxsize=16)  # few are asked for but by who tries
def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    plain = not (parts.path or parts.query or parts.username)
    return parts.hostname if plain else None
