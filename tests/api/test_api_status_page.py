"""The plain page, health, and the printed schema."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from markupsafe import Markup
from msgspec.structs import replace
from starlette.applications import Starlette

import api_views as views
from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.status_page import PARAGRAPH, document, table
from aliquot.service.metrics.health import HealthCondition
from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql.context import Services
from aliquot_schema.graphql.schema import schema_text
from aliquot_schema.ids import UserId
from api_fakes import FakeCluster, FakeReader, FakeWatcher, FakeWriter
from api_memory_admin import MemoryAdministration
from api_server import TOKEN, ApiServer, listening

pytestmark = pytest.mark.anyio

NASTY = "<script>alert('x')</script>\"&"


async def test_an_anonymous_user_sees_only_how_to_sign_in(server: ApiServer) -> None:
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as stranger:
        response = await stranger.get("/plain")
    assert response.status_code == 401
    assert "not signed in" in response.text
    assert "/run/token" in response.text
    assert f"{server.http.base_url}/login-code" in response.text
    assert "GPU" not in response.text.replace("GPUs", "")
    assert server.cluster.callers == []


async def test_devices_holders_and_the_queue_are_shown(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(1)]
    page = await server.http.get("/plain")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for text in (
        "Signed in as ada",
        "agent-2",
        "cuda1",
        "H100",
        "ada: 0.50, job 1 <code>ses_1</code>",
        "0.50 of 1.00",
        "no holder",
        "job 1",
        "is free",
    ):
        assert text in page.text
    assert TOKEN not in page.text


async def test_the_plain_page_of_an_empty_cluster_says_so(server: ApiServer) -> None:
    server.cluster.agents = []
    page = (await server.http.get("/plain")).text
    assert "No agent is registered." in page
    assert "No session is waiting." in page


async def test_the_plain_page_escapes_user_text(server: ApiServer) -> None:
    device = replace(views.device(0), model=NASTY, holders=(replace(views.holder(), user=NASTY),))
    server.cluster.agents = [replace(views.agent(1), id=NASTY, devices=(device,))]
    server.cluster.sessions = [replace(views.session(1), name=NASTY, owner=NASTY)]
    page = (await server.http.get("/plain")).text
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6


async def test_the_plain_page_loads_nothing_but_its_own_style_sheet(server: ApiServer) -> None:
    page = (await server.http.get("/plain")).text
    links = re.findall(r'(?:href|src|action)="([^"]*)"', page)
    assert links == ["/page.css"]
    assert "style=" not in page
    style = await server.http.get("/page.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "http" not in style.text
    assert "url(" not in style.text


async def test_an_unavailable_server_shows_the_reason_on_the_plain_page(server: ApiServer) -> None:
    server.reader.fault = Unavailable("the view is not loaded yet")
    page = await server.http.get("/plain")
    assert page.status_code == 503
    assert "not loaded yet" in page.text


def test_markup_escapes_plain_text_only() -> None:
    assert PARAGRAPH.format("<b>") + Markup("<i></i>") + "&" == "<p>&lt;b&gt;</p><i></i>&amp;"
    assert "<body><h1>Aliquot</h1><p>&#34;</p></body>" in document(PARAGRAPH.format('"'))
    assert '<td class="amount">1</td><td>&lt;b&gt;</td><td><i></i></td>' in table(
        ("a",), [("1", "<b>", Markup("<i></i>"))]
    )


async def test_health_needs_no_token(server: ApiServer) -> None:
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as stranger:
        assert (await stranger.get("/healthz")).json() == {"ok": True}
        assert (await stranger.get("/readyz")).json() == {"ready": True, "missing": [], "warnings": []}


async def test_readiness_shows_codes_to_all_and_details_only_with_a_key(server: ApiServer) -> None:
    words = "agent gpu-7: the disk of /srv/aliquot has 1 MiB free"
    server.conditions[:] = [HealthCondition(code="agent_disk_low", message=words, is_fatal=False)]
    codes = {"ready": True, "missing": [], "warnings": ["agent_disk_low"]}
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as stranger:
        response = await stranger.get("/readyz")
        assert (response.status_code, response.json()) == (200, codes)
        assert (await server.http.get("/readyz")).json() == {
            **codes,
            "details": [{"code": "agent_disk_low", "message": words}],
        }
        server.conditions[:] = [HealthCondition(code="database_down", message="10.0.0.7 is away", is_fatal=True)]
        response = await stranger.get("/readyz")
    assert (response.status_code, response.json()) == (
        503,
        {"ready": False, "missing": ["database_down"], "warnings": []},
    )


async def test_the_lifespan_of_the_application_is_entered_and_left(anyio_backend: object) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        steps.append("entered")
        yield
        steps.append("left")

    cluster, office, auth = FakeCluster(), MemoryAdministration(), TokenAuth(TOKEN, UserId("ada"))
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
        lifespan=lifespan,
    )
    async with listening(create_app(deps)) as port, httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
        assert steps == ["entered"]
    assert steps == ["entered", "left"]


def test_the_printed_schema_is_fresh() -> None:
    printed = Path(__file__).parents[2] / "schema" / "schema.graphql"
    assert printed.read_text() == schema_text(), "run: python -m aliquot_schema.graphql.schema > schema/schema.graphql"
