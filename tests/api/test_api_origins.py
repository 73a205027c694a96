"""The guard refuses requests for other hosts and from other sites."""

import pytest
from starlette.types import Message, Receive, Scope, Send

from aliquot.api.encoding import REQUEST_ID
from aliquot.api.middleware import OriginCheck
from api_server import ApiServer

pytestmark = pytest.mark.anyio

ALLOWED = "http://localhost:5173"
QUERY = {"query": "{ agents { total_count } }"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]:8090", "127.0.0.1:1"])
async def test_requests_with_an_own_host_name_are_served(server: ApiServer, host: str) -> None:
    assert (await server.http.post("/graphql", json=QUERY, headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8090", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.", 421),
        ("169.254.169.254", 421),
        ("user@localhost", 400),
        ("localhost/x", 400),
        ("localhost:x", 400),
        ("[::1", 400),
    ],
)
async def test_requests_with_another_host_name_are_refused_with_a_message(
    server: ApiServer, host: str, status: int
) -> None:
    for path in ("/", "/graphql", "/login"):
        response = await server.http.get(path, headers={"host": host})
        assert response.status_code == status
        answer = response.json()
        assert answer["errors"][0]["message"] if path == "/graphql" else answer["detail"]


async def test_health_is_answered_under_any_name(server: ApiServer) -> None:
    assert (await server.http.get("/healthz", headers={"host": "10.0.0.7"})).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:1", "http://localhost:5174", ""])
async def test_requests_from_other_origins_are_refused(server: ApiServer, origin: str) -> None:
    response = await server.http.post("/graphql", json=QUERY, headers={"origin": origin})
    assert response.status_code == 403
    assert server.cluster.callers == []


async def test_requests_from_own_and_allowed_origins_are_served(server: ApiServer) -> None:
    for origin in (str(server.http.base_url).rstrip("/"), "http://localhost:5173", "HTTP://LOCALHOST:5173"):
        assert (await server.http.post("/graphql", json=QUERY, headers={"origin": origin})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/graphql", {}, 200),
        ("POST", "/graphql", {"authorization": "Bearer wrong"}, 401),
        ("POST", "/graphql", {"host": "evil.example"}, 421),
        ("DELETE", "/graphql", {}, 405),
        ("GET", "/sessions/ses_1/files/a", {"authorization": "Bearer wrong"}, 401),
        ("GET", "/nowhere", {}, 404),
        ("GET", "/healthz", {}, 200),
    ],
)
async def test_pages_of_allowed_origins_may_read_every_response(
    server: ApiServer, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    body = QUERY if method == "POST" else None
    response = await server.http.request(method, path, json=body, headers={"origin": ALLOWED, **headers})
    assert response.status_code == status
    assert response.headers["access-control-allow-origin"] == ALLOWED
    assert "origin" in response.headers["vary"].lower()
    assert "X-Request-ID" in response.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in response.headers
    same = await server.http.request(method, path, json=body, headers=headers)
    assert "access-control-allow-origin" not in same.headers


@pytest.mark.parametrize(("method", "path"), [("POST", "/login-code"), ("GET", "/sessions/ses_1/files/a")])
async def test_pages_of_allowed_origins_may_read_the_answer_of_a_failed_handler(
    server: ApiServer, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is broken")

    monkeypatch.setattr(server.auth, "of_headers", fail)
    response = await server.http.request(method, path, headers={"origin": ALLOWED})
    assert response.status_code == 500
    assert response.headers["access-control-allow-origin"] == ALLOWED
    assert response.headers["x-request-id"] in response.text
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "disk" not in response.text


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/graphql"), ("PURGE", "/nowhere"), ("DELETE", "/sessions/ses_1/files/a")]
)
async def test_preflights_of_allowed_origins_are_answered_without_a_key(
    server: ApiServer, method: str, path: str
) -> None:
    asked = {"access-control-request-method": method, "access-control-request-headers": "authorization, content-type"}
    server.http.headers.pop("authorization")
    response = await server.http.options(path, headers={"origin": ALLOWED, **asked})
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-origin"] == ALLOWED
    assert response.headers["access-control-allow-headers"] == asked["access-control-request-headers"]
    assert "POST" in response.headers["access-control-allow-methods"]
    other = await server.http.options(path, headers={"origin": "http://evil.example", **asked})
    assert other.status_code == 403
    assert not [name for name in other.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("hosts", "host", "served"),
    [
        (("*",), "any.example", True),
        (("*.example.org",), "a.example.org", True),
        (("*.example.org",), "example.org", False),
        (("*.example.org",), "evilexample.org", False),
        (("[::1]",), "[::1]:8090", True),
        (("GPU.example",), "gpu.EXAMPLE", True),
    ],
)
async def test_host_patterns(hosts: tuple[str, ...], host: str, served: bool) -> None:
    reached: list[str] = []
    statuses: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])

    async def receive() -> dict[str, object]:
        raise AssertionError("nothing is read")

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(int(str(message["status"])))

    scope = {"type": "http", "path": "/", "headers": [(b"host", host.encode())], REQUEST_ID: "1"}
    await OriginCheck(application, hosts=hosts)(scope, receive, send)  # type: ignore[arg-type]  # messages are plain dicts
    assert (reached, statuses) == ((["/"], []) if served else ([], [421]))


@pytest.mark.parametrize(
    ("scheme", "origin", "served"),
    [
        ("https", "https://gpu.example", True),
        ("wss", "https://gpu.example", True),
        ("https", "http://gpu.example", False),
        ("wss", "http://gpu.example", False),
        ("http", "https://gpu.example", True),
        ("http", "http://gpu.example", True),
    ],
)
async def test_a_page_sent_without_tls_is_another_site_than_one_with_tls(
    scheme: str, origin: str, served: bool
) -> None:
    reached: list[str] = []
    sent: list[Message] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"gpu.example"), (b"origin", origin.encode())]
    kind = "websocket" if scheme.startswith("ws") else "http"
    scope = {"type": kind, "scheme": scheme, "path": "/", "headers": headers, REQUEST_ID: "1"}
    await OriginCheck(application, hosts=("gpu.example",))(scope, receive, send)
    assert reached == (["/"] if served else [])
    assert bool(sent) is not served


@pytest.mark.parametrize("names", [[], [b"localhost", b"evil.example"], [b""]])
async def test_a_request_must_have_exactly_one_host_header(names: list[bytes]) -> None:
    guard = OriginCheck(lambda *_: None, hosts=("localhost",))  # type: ignore[arg-type, return-value]  # never reached
    statuses: list[object] = []

    async def send(message: dict[str, object]) -> None:
        statuses.append(message.get("status"))

    scope = {"type": "http", "path": "/", "headers": [(b"host", name) for name in names], REQUEST_ID: "1"}
    await guard(scope, None, send)  # type: ignore[arg-type]  # nothing is read
    assert statuses[0] == 400
