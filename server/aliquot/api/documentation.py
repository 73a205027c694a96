"""Documentation: serves the built pages at `/docs`, without a key and without requests to other hosts."""

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from aliquot.api.status_page import PARAGRAPH, document

DOCUMENTATION: Final = Path(__file__).parents[1] / "docs_dist"
"""Where `scripts/docs` puts the built pages, in the source tree and in a wheel."""
PATH: Final = "/docs"
_POLICY: Final = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Scripts within a page are allowed by their hash. The search form leads to a page of the documentation."""
_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_MISSING: Final = document(
    PARAGRAPH.format(
        "The documentation is not built yet. scripts/up builds it in the background: reload this page in a minute. "
        "scripts/docs builds it too, and a wheel contains it."
    )
)


def documentation_routes(folder: Path = DOCUMENTATION) -> list[BaseRoute]:
    """Routes of the documentation.

    Args:
        folder: output of the build. It is checked on each request, so a build needs no restart.
    """
    pages = _Pages(directory=folder, check_dir=False, html=True)

    async def start(_request: Request) -> Response:
        return RedirectResponse(f"{PATH}/")

    return [Route(PATH, start, methods=["GET"]), Mount(PATH, pages)]


class _Pages(StaticFiles):
    """The built pages, each under a content security policy of its own."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file; 404 for an unknown one."""
        assert self.directory is not None
        folder = Path(self.directory)
        if not (folder / "index.html").is_file():
            return HTMLResponse(_MISSING, status_code=404)
        response = await super().get_response(path, scope)
        if response.headers.get("content-type", "").startswith("text/html"):
            full, _ = self.lookup_path("index.html" if path == "." else path)
            response.headers["content-security-policy"] = _POLICY.format(scripts=_scripts_of(full) if full else "")
        return response

    async def check_config(self) -> None:
        """No check: the folder may appear after the start."""


@lru_cache(maxsize=256)
def _scripts_of(path: str) -> str:
    """The hashes of the scripts within a page, as sources of a content security policy."""
    found = _SCRIPT.findall(Path(path).read_bytes()) if Path(path).is_file() else ()
    return " ".join(f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in found)
