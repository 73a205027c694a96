"""The dashboard's pages and files: security policy, signed-in user, and the page without a build."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot_schema.graphql.context import Services
from aliquot_schema.ids import UserId
from api_fakes import FakeCluster, FakeReader, FakeWatcher, FakeWriter
from api_memory_admin import MemoryAdministration
from api_server import BEARER, TOKEN, listening

pytestmark = pytest.mark.anyio

PAGE = '<meta name="aliquot-user" content="ALIQUOT_USER"><script nonce="ALIQUOT_NONCE" src="/assets/a.js"></script>'
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ADDRESSES = ("/", "/queue", "/sessions", "/sessions/ses_1", "/submit", "/usage", "/admin")
NASTY = '"><script>alert(1)</script>'


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.js").write_text("export {};" * 400)
    (tmp_path / "index.html").write_text(f"the dashboard {PAGE}")
    (tmp_path / "graphiql.html").write_text(f"the editor {PAGE}")
    (tmp_path / "mark.svg").write_text("<svg/>")
    (tmp_path / "secret").write_text("not for the world")
    return tmp_path


@pytest.fixture
async def site(anyio_backend: object, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with _serving(tmp_path, user="ada") as client:
        yield client


@asynccontextmanager
async def _serving(folder: Path, *, user: str) -> AsyncIterator[httpx.AsyncClient]:
    cluster, office = FakeCluster(), MemoryAdministration()
    auth = TokenAuth(TOKEN, UserId(user))
    deps = ApiDependencies(
        services=Services(
            queries=FakeReader(cluster),
            sessions=FakeWriter(cluster),
            subscriptions=FakeWatcher(cluster),
            administration=office.administration,
            accounts=office.accounts,
        ),
        auth=auth,
        open_connections=OpenConnections(auth),
        dashboard=folder,
    )
    async with (
        listening(create_app(deps)) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        yield client


@pytest.mark.parametrize("address", ADDRESSES)
async def test_every_address_of_the_dashboard_is_the_one_page(
    built: Path, site: httpx.AsyncClient, address: str
) -> None:
    page = await site.get(address)
    assert page.status_code == 200
    assert page.text.startswith("the dashboard")
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("address", ["/nope", "/cluster", "/sessions/ses_1/nope"])
async def test_a_mistyped_address_is_a_page_of_the_dashboard_for_browsers_only(
    built: Path, site: httpx.AsyncClient, address: str
) -> None:
    page, said = await site.get(address, headers=HTML | BEARER), await site.get(address, headers=BEARER)
    assert (page.status_code, said.status_code) == (404, 404)
    assert page.text.startswith('the dashboard <meta name="aliquot-user" content="ada">')
    assert "script-src 'self' 'nonce-" in page.headers["content-security-policy"]
    assert said.json()["detail"] == f"GET {address}: there is no such operation; see /openapi.json"
    (built / "index.html").unlink()
    assert "There is no page at this address." in (await site.get(address, headers=HTML)).text


async def test_an_app_page_explains_that_the_server_has_no_app_addresses(built: Path, site: httpx.AsyncClient) -> None:
    words = "this server has no addresses for web services of sessions; run `aliquot session forward SESSION PORT`"
    page = await site.get("/sessions/ses_1/apps/web", headers={"accept": "text/html"})
    said = await site.get("/sessions/ses_1/apps/web")
    assert (page.status_code, said.status_code) == (404, 404)
    assert words in page.text
    assert said.json()["detail"].startswith(words)


async def test_a_page_may_load_its_own_files_and_nothing_else(built: Path, site: httpx.AsyncClient) -> None:
    first, second = [await site.get("/") for _ in range(2)]
    nonces = [re.findall(r'nonce="([^"]+)"', page.text) for page in (first, second)]
    assert nonces[0] != nonces[1]
    policy = dict(part.strip().partition(" ")[::2] for part in first.headers["content-security-policy"].split(";"))
    own = f"'self' 'nonce-{nonces[0][0]}'"
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", own, own)
    assert (policy["connect-src"], policy["frame-ancestors"]) == ("'self'", "'none'")
    assert "http" not in first.headers["content-security-policy"]


async def test_the_page_contains_the_user_name_only_when_signed_in(built: Path, site: httpx.AsyncClient) -> None:
    assert 'content=""' in (await site.get("/")).text
    assert 'content="ada"' in (await site.get("/", headers=BEARER)).text


async def test_a_user_name_is_escaped_in_the_page(built: Path) -> None:
    async with _serving(built, user=NASTY) as site:
        page = await site.get("/", headers=BEARER)
    assert "<script>" not in page.text


async def test_asset_files_are_immutable_and_other_files_are_not_served(built: Path, site: httpx.AsyncClient) -> None:
    file = await site.get("/assets/a.js")
    assert file.status_code == 200
    assert "immutable" in file.headers["cache-control"]
    assert file.headers["content-encoding"] == "gzip"
    assert (await site.get("/mark.svg")).headers["content-type"] == "image/svg+xml"
    for path in ("/assets/../secret", "/assets/%2e%2e/secret", "/assets/", "/assets/none.js", "/secret"):
        assert (await site.get(path)).status_code == 404, path


async def test_browsers_get_the_editor_at_the_graphql_address(built: Path, site: httpx.AsyncClient) -> None:
    page = await site.get("/graphql", headers=HTML)
    assert page.text.startswith("the editor")
    assert "script-src 'self' 'nonce-" in page.headers["content-security-policy"]
    assert (await site.get("/graphiql")).text.startswith("the editor")
    answer = await site.get("/graphql", params={"query": "{ __typename }"}, headers=HTML | BEARER)
    assert answer.json()["data"] == {"__typename": "Query"}


async def test_without_a_dashboard_build_the_plain_page_names_the_build_command(site: httpx.AsyncClient) -> None:
    page = await site.get("/", headers=BEARER)
    assert page.status_code == 200
    assert "agent-1" in page.text
    assert "scripts/up" in page.text
    assert "scripts/up" not in (await site.get("/plain", headers=BEARER)).text
    assert (await site.get("/graphiql", headers=BEARER)).text == (await site.get("/queue", headers=BEARER)).text
    for path in ("/mark.svg", "/assets/a.js"):
        assert (await site.get(path)).status_code == 404
    answer = await site.get("/graphql", params={"query": "{ __typename }"}, headers=BEARER)
    assert answer.status_code == 200


async def test_a_new_dashboard_build_is_served_without_a_restart(site: httpx.AsyncClient, tmp_path: Path) -> None:
    assert "plain page" in (await site.get("/", headers=BEARER)).text
    (tmp_path / "index.html").write_text(PAGE)
    assert "aliquot-user" in (await site.get("/")).text
