"""The documentation at /docs: public, under a policy that allows only its own scripts."""

from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from aliquot.api.documentation import documentation_routes

pytestmark = pytest.mark.anyio

SCRIPT = "document.body.dataset.theme = 'auto'"


def _client(folder: Path) -> httpx.AsyncClient:
    app = Starlette(routes=documentation_routes(folder))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://docs")


@pytest.fixture
async def site(anyio_backend: object, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "secret").write_text("not for the world")
    pages = tmp_path / "pages"
    (pages / "using").mkdir(parents=True)
    (pages / "index.html").write_text(f"<script>{SCRIPT}</script>the beginning")
    (pages / "using" / "jobs.html").write_text("jobs")
    (pages / "searchindex.js").write_text("Search.setIndex({})")
    async with _client(pages) as client:
        yield client


async def test_pages_are_served_without_a_key(site: httpx.AsyncClient) -> None:
    assert (await site.get("/docs")).headers["location"] == "/docs/"
    start = await site.get("/docs/")
    assert (start.status_code, "the beginning" in start.text) == (200, True)
    assert (await site.get("/docs/using/jobs.html")).text == "jobs"
    assert "javascript" in (await site.get("/docs/searchindex.js")).headers["content-type"]


async def test_the_security_policy_allows_only_the_pages_own_scripts(site: httpx.AsyncClient) -> None:
    policy = (await site.get("/docs/")).headers["content-security-policy"]
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "sha256" not in (await site.get("/docs/using/jobs.html")).headers["content-security-policy"]


async def test_files_outside_the_documentation_are_not_served(site: httpx.AsyncClient) -> None:
    for path in ("/docs/none.html", "/docs/../secret", "/docs/%2e%2e/secret", "/docs/..%2fsecret"):
        answer = await site.get(path)
        assert answer.status_code == 404, path
        assert "world" not in answer.text


async def test_without_a_documentation_build_the_page_names_the_build_command(
    anyio_backend: object, tmp_path: Path
) -> None:
    async with _client(tmp_path / "none") as client:
        answer = await client.get("/docs/")
        assert answer.status_code == 404
        assert "scripts/docs" in answer.text
