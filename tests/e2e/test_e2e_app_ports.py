"""Web apps at ports of the server's host: a real server listens there, and a real session answers."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from aliquot.api.authentication import COOKIE
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from aliquot.client.generated.audit import AuditFilterInput
from e2e_sessions import until, until_state
from own_app import own_app
from own_terminal import piped

pytestmark = pytest.mark.anyio

TWO_GPUS = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
SERVE = """
import http.server, json, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        for cookie in ("seen=1", "aliquot_session=mine", "wide=1; Domain=localhost"):
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        token = os.environ["ALIQUOT_APP_TOKEN"]
        lines = [[name, value.replace(token, "TOKEN")] for name, value in self.headers.items()]
        self.wfile.write(json.dumps([os.environ["ALIQUOT_SESSION_ID"], lines]).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


def free_ports(count: int) -> list[int]:
    """Consecutive ports that are not in use."""
    for first in range(21_000, 29_000, count):
        with ExitStack() as probes:
            try:
                for port in range(first, first + count):
                    probes.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return list(range(first, first + count))
    raise AssertionError("no ports are free")


def place(server: OwnServer) -> dict[str, str]:
    return {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}


async def served(server: OwnServer, port: int) -> str:
    """Start a session whose app `web` listens on this port; returns its id."""
    command = ("/usr/bin/env", "python3", "-c", SERVE, str(port))
    words = ("session", "create", "-r", "cpu=1", "--app", f"web={port}", "--", *command)
    code, printed, errors = await piped(*words, given=b"", environment=place(server))
    assert code == 0, errors
    id = printed.decode().split()[0]
    async with server.client() as client:
        await until_state(client, id, "running")
    return id


async def address_of(server: OwnServer, id: str) -> str:
    """The output of `aliquot session open`."""
    words = ("session", "open", id, "web", "--no-browser")
    code, printed, errors = await piped(*words, given=b"", environment=place(server))
    assert code == 0, errors
    return printed.decode().strip()


async def test_apps_at_ports_require_sign_in_and_get_no_cookie_of_the_server() -> None:
    first, last, inside, other_inside = free_ports(4)
    ports = {first, last}
    environment = {"ALIQUOT_APPS_PORTS": f"{first}-{last}"}
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=environment) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
        async with httpx.AsyncClient() as http:
            for port in ports:
                assert (await http.get(f"http://127.0.0.1:{port}/readyz")).status_code == 404
        ids = [await served(server, inside), await served(server, other_inside)]
        addresses = [await address_of(server, id) for id in ids]
        assert {urlsplit(address).port for address in addresses} == ports
        for id, address in zip(ids, addresses, strict=True):
            assert urlsplit(address).hostname == "127.0.0.1"
            await _is_reached(server, id, address)
            assert (await _status(address)) == 403  # the URL works only once
        async with server.client() as client:
            page = await client.audit(filter=AuditFilterInput(kind="action.app_opened"), first=10)
            assert len(page.edges) == 2


async def _is_reached(server: OwnServer, id: str, address: str) -> None:
    bearer = {"authorization": f"Bearer {server.token}"}
    async with own_app(address) as app:
        own = app.http.headers["cookie"]
        assert own.startswith(f"p{app.port}_aliquot_app=")
        app.http.headers["cookie"] = f"{own}; p{app.port}_theme=dark; aliquot_session=s; theme=light; p1_theme=x"

        async def answered() -> httpx.Response | None:
            answer = await app.http.get("/any?q=1", headers=bearer)
            return answer if answer.status_code == 200 else None

        answer = await until(answered)
        session, headers = answer.json()
        found = {name.lower(): value for name, value in headers}
        assert (session, found["cookie"], found["authorization"]) == (id, "theme=dark", "Bearer TOKEN")
        assert server.token not in json.dumps(headers)
        assert answer.headers.get_list("set-cookie") == [f"p{app.port}_seen=1"]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{app.port}") as http:
            for given in ({}, bearer, {"cookie": "aliquot_session=s"}, {"cookie": own.swapcase()}):
                assert (await http.get("/", headers=given)).status_code == 401
                assert (await http.get("/graphql", headers=given)).status_code == 401
            asked = await http.get("/a?b=1", headers={"accept": "text/html"})
            leading = f"{server.url}/sessions/{id}/apps/web?next=%2Fa%3Fb%3D1"
            assert (asked.status_code, asked.headers["location"]) == (303, leading)
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{app.port}/", compression=None)
        assert refused.value.response.status_code == 401


async def test_a_browser_that_signed_in_reaches_the_app_until_it_signs_out() -> None:
    """The browser shares cookies between all ports of a host, and sends them to each."""
    port, inside = free_ports(2)
    environment = {"ALIQUOT_APPS_PORTS": f"{port}-{port}"}
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=environment) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
        id = await served(server, inside)
        headers = {"accept": "text/html"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, follow_redirects=True, timeout=60) as http:
            bearer = {"authorization": f"Bearer {server.token}"}
            path = (await http.post("/login-code", headers=bearer)).json()["path"]
            await http.get(path, follow_redirects=False)
            assert COOKIE in http.cookies

            async def opened() -> httpx.Response | None:
                answer = await http.get(f"/sessions/{id}/apps/web?next=/notes")
                return answer if answer.headers["content-type"] == "application/json" else None

            answer = await until(opened)
            assert str(answer.url) == f"http://127.0.0.1:{port}/notes"
            session, lines = answer.json()
            assert (session, [value for name, value in lines if name.lower() == "cookie"]) == (id, [])
            answer = await http.get(f"http://127.0.0.1:{port}/")
            assert [value for name, value in answer.json()[1] if name.lower() == "cookie"] == ["seen=1"]
            assert (await http.post("/logout", follow_redirects=False)).status_code == 204
            out = await http.get(f"http://127.0.0.1:{port}/", headers={"accept": "*/*"})
            assert out.status_code == 401


async def _status(address: str) -> int:
    async with httpx.AsyncClient() as http:
        return (await http.get(address)).status_code


async def test_an_app_cookie_is_valid_after_a_restart_only_once_the_app_is_reopened() -> None:
    port, inside = free_ports(2)
    environment = {"ALIQUOT_APPS_PORTS": f"{port}-{port}"}
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=environment) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
        id = await served(server, inside)
        async with own_app(await address_of(server, id)) as app:

            async def answered(status: int) -> bool:
                return (await app.http.get("/")).status_code == status

            assert await until(lambda: answered(200))
            await server.stop()
            await server.start()
            assert await until(lambda: answered(404))
            await address_of(server, id)
            assert await until(lambda: answered(200))


async def test_a_server_whose_app_port_is_in_use_names_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=rf"apps-ports: .*cannot listen on 127\.0\.0\.1 port {port}"):
            async with OwnServer(environment={"ALIQUOT_APPS_PORTS": f"{port}-{port}"}):
                pass
