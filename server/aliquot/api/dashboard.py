"""Dashboard and GraphiQL: serves the built files under a strict content security policy.

A page contains the name of the signed-in user, so that it can ask for a token without a failed request. All other data
comes from the API, as for any client.
"""

import secrets
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from aliquot.api.context import Contexts
from aliquot_schema.errors import Unauthenticated

Answer = Callable[[Request], Awaitable[Response]]

BUILT: Final = Path(__file__).parents[1] / "dashboard_dist"
"""Where the build writes its files, in the source tree and in a wheel."""

_ADDRESSES: Final = ("/queue", "/sessions", "/sessions/{id}", "/calendar", "/submit", "/what-if", "/usage", "/admin")
_NONCE: Final = "ALIQUOT_NONCE"
_USER: Final = "ALIQUOT_USER"
_PROVIDER: Final = "ALIQUOT_PROVIDER"
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' {styles}; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_OWN_STYLES: Final = "'nonce-{nonce}'"
_EDITOR_STYLES: Final = "'unsafe-inline'"
"""GraphiQL's editor adds style elements without a nonce. Scripts stay restricted."""


class Dashboard:
    """Serves the built pages; `plain` is served at `/` while there are none.

    Args:
        folder: output of the build. It is checked on each request, so a build needs no restart.
        provider: name of the identity provider that people sign in with; None = there is none.
    """

    def __init__(self, contexts: Contexts, *, plain: Answer, folder: Path = BUILT, provider: str | None = None) -> None:
        self._contexts = contexts
        self._plain = plain
        self._folder = folder
        self._provider = provider or ""

    def routes(self) -> list[BaseRoute]:
        """Routes of the pages and their files."""
        return [
            Route("/", self.page, methods=["GET"]),
            *(Route(address, self.page, methods=["GET"]) for address in _ADDRESSES),
            Route("/graphiql", self.graphiql, methods=["GET"]),
            Route("/mark.svg", self.mark, methods=["GET"]),
            Route("/favicon.ico", self.mark, methods=["GET"]),
            Mount("/assets", _Assets(directory=self._folder / "assets", check_dir=False)),
        ]

    async def page(self, request: Request) -> Response:
        """The dashboard; the plain page without a build."""
        return self._document(request, "index.html", styles=_OWN_STYLES) or await self._plain(request)

    def missing(self, request: Request) -> Response | None:
        """The dashboard, with the status of an address that it does not have; None without a build."""
        return self._document(request, "index.html", styles=_OWN_STYLES, status=404)

    async def graphiql(self, request: Request) -> Response:
        """GraphiQL; the plain page without a build, which says what is missing."""
        return self.editor(request) or await self._plain(request)

    async def mark(self, _request: Request) -> Response:
        """The icon."""
        path = self._folder / "mark.svg"
        return FileResponse(path) if path.is_file() else Response(status_code=404)

    def editor(self, request: Request) -> Response | None:
        """GraphiQL; None without a build."""
        return self._document(request, "graphiql.html", styles=_EDITOR_STYLES)

    def _document(self, request: Request, name: str, *, styles: str, status: int = 200) -> Response | None:
        try:
            text = (self._folder / name).read_text(encoding="utf-8")
        except OSError:
            return None
        nonce = secrets.token_urlsafe(16)
        page = text.replace(_NONCE, nonce).replace(_PROVIDER, escape(self._provider))
        page = page.replace(_USER, escape(self._user(request)))
        policy = _POLICY.format(nonce=nonce, styles=styles.format(nonce=nonce))
        return HTMLResponse(page, status, headers={"content-security-policy": policy})

    def _user(self, request: Request) -> str:
        try:
            return self._contexts.caller_of(request).user
        except Unauthenticated:
            return ""


class _Assets(StaticFiles):
    """Files whose names change with their content; cached forever."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file, or 404."""
        response = await super().get_response(path, scope)
        if response.status_code == 200:
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response

    async def check_config(self) -> None:
        """No check: the folder may appear after the start."""
