"""Attacks over HTTP on a server in its own process, with its costs measured by the kernel."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from api_attacks import BODIES, TEXTS
from process_attacks import MEMORY_BYTES_MAX, Attacker, cpu_s_max, memory_bytes_most
from rest_server import RestServer, rest_server

DRIPPING: Final = 300
DEEP: Final = ("deep lists", "deep objects")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("attacked"), "--stopped") as running:
        yield running


@pytest.fixture(scope="module")
def attacker(server: RestServer) -> Iterator[Attacker]:
    with server.client() as client:
        yield Attacker(server, client)


@pytest.fixture(scope="module")
def reader(server: RestServer, attacker: Attacker) -> Iterator[Attacker]:
    """A key that may not submit."""
    attacker.post(b'{"query": "mutation { create_user(input: {name: \\"rea\\"}) { __typename } }"}')
    _, answer = attacker.post(
        b'{"query": "mutation { create_api_key(input: {user: \\"rea\\", name: \\"k\\", scope: read}) '
        b'{ ... on CreateApiKeySuccess { secret } } }"}'
    )
    secret = json.loads(answer)["data"]["create_api_key"]["secret"]
    with server.client() as client:
        client.headers["authorization"] = f"Bearer {secret}"
        yield Attacker(server, client)


SENT: Final = [("attacker", name) for name in BODIES] + [("reader", name) for name in BODIES if name not in TEXTS]
"""Sender and body; a text costs the same from anyone."""


@pytest.mark.parametrize(("who", "name"), SENT)
def test_a_body_is_refused_and_costs_little_time_memory_and_delay(
    server: RestServer, request: pytest.FixtureRequest, who: str, name: str
) -> None:
    sender: Attacker = request.getfixturevalue(who)
    body = BODIES[name]()
    before = memory_bytes_most(server.pid)
    spent = sender.cpu_s(lambda: sender.post(body))
    delayed = sender.delay_s(lambda: sender.post(body))
    status, answer = sender.post(body)
    assert status in (200, 400, 413), status
    assert json.loads(answer)["errors"]
    assert "data" not in json.loads(answer)
    assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms"
    assert delayed <= cpu_s_max(), f"/healthz waited for {delayed * 1e3:.0f} ms of CPU time"
    assert memory_bytes_most(server.pid) - before <= MEMORY_BYTES_MAX
    assert sender.works()


UPGRADE: Final = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def query(text: str) -> bytes:
    body = json.dumps({"query": text}).encode()
    return f"Content-Length: {len(body)}\r\n\r\n".encode() + body


LOGS: Final = " ".join(f'a{n}: session_log(id: "x", bytes_max: 1048576) {{ text }}' for n in range(90))
HISTORIES: Final = " ".join(f"a{n}: queue_history(points: 1000) {{ warning }}" for n in range(90))
NINES: Final = "9" * 100_000
LINES: Final = {
    "half a POST": ("POST /login", ["Content-Length: 1000", "", "key=half"], b"", b""),
    "a refused agent": (
        "GET /agents/socket",
        [*UPGRADE, "aliquot-agent: a1", "Authorization: Bearer no"],
        b"",
        b" 401 ",
    ),
    "a socket that never signs in": (
        "GET /graphql",
        [*UPGRADE, "Sec-WebSocket-Protocol: graphql-transport-ws"],
        b"",
        b" 101 ",
    ),
    "a look at a one-time address": ("HEAD /login?code=guessed", [], b"", b" "),
    "a wrong token": ("POST /graphql", ["Authorization: Bearer wrong"], query("{ __typename }"), b" 401 "),
    "another host": ("GET /", ["Host: example.org"], b"", b" 421 "),
    "an unknown path": ("GET /queues/" + "x" * 4000, [], b"", b" 404 "),
    "headers without end": ("GET /", [f"x-{n}: {'y' * 1000}" for n in range(60)], b"", b" "),
    "not HTTP": ("\x16\x03\x01", [], b"\0" * 4000, b""),
    "several operations": ("POST /graphql", ["KEY"], query("query A { __typename } query B { __typename }"), b" "),
    "a number of many digits": (
        "POST /graphql",
        ["KEY"],
        query(f"{{ queue(first: {'9' * 100_000}) {{ revision }} }}"),
        b" ",
    ),
    "logs that are not read": ("POST /graphql", ["KEY"], query(f"{{ {LOGS} }}"), b" "),
    "histories": ("POST /graphql", ["KEY"], query(f"{{ {HISTORIES} }}"), b" "),
}
"""By name: request line, headers (`KEY`: those of a user), what follows them, and a part of the answer's first line."""


@pytest.mark.parametrize("name", LINES)
def test_hostile_requests_cost_little_time_memory_and_delay(server: RestServer, attacker: Attacker, name: str) -> None:
    line, headers, rest, expected = LINES[name]
    own = [f"Authorization: {server.headers['authorization']}", "Content-Type: application/json"]
    given = [one for header in headers for one in (own if header == "KEY" else [header])]
    host = [] if any(header.startswith("Host:") for header in given) else [f"Host: {urlsplit(server.address).netloc}"]
    text = "\r\n".join([f"{line} HTTP/1.1", *host, *given]).encode() + b"\r\n" + (rest or b"\r\n")

    def attack() -> bytes:
        with socket.create_connection(attacker.place, timeout=60) as stream:
            stream.sendall(text)
            return stream.recv(200) if expected else b""

    answer = attack()
    assert expected in answer.partition(b"\r\n")[0], answer
    before = memory_bytes_most(server.pid)
    spent = attacker.cpu_s(attack)
    delayed = attacker.delay_s(lambda: [attack() for _ in range(5)])
    assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms"
    assert delayed <= cpu_s_max(), f"/healthz waited for {delayed * 1e3:.0f} ms of CPU time"
    assert memory_bytes_most(server.pid) - before <= MEMORY_BYTES_MAX
    assert attacker.works()


@pytest.mark.parametrize("name", DEEP)
def test_hostile_rest_bodies_are_refused_with_little_cpu_time(attacker: Attacker, name: str) -> None:
    body = BODIES[name]()
    spent = attacker.cpu_s(lambda: attacker.post(body, path="/queue/submit"))
    status, _ = attacker.post(body, path="/queue/submit")
    assert status in (400, 413, 422)
    assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms"


@pytest.mark.parametrize("path", ["/graphql", "/queue/submit"])
def test_a_declared_body_of_30_megabytes_is_refused_unread(server: RestServer, attacker: Attacker, path: str) -> None:
    def announce() -> None:
        with socket.create_connection(attacker.place, timeout=60) as line:
            line.sendall(head(server, path, "Content-Length: 30000000"))
            assert line.recv(65536).startswith(b"HTTP/1.1 413")

    spent = attacker.cpu_s(announce)
    assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms"


def test_a_chunked_body_of_30_megabytes_is_cut_off(server: RestServer, attacker: Attacker) -> None:
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection(attacker.place, timeout=60) as line:
        line.sendall(head(server, "/graphql", "Transfer-Encoding: chunked"))
        try:
            for _ in range(30):
                line.sendall(piece)
            answer = line.recv(65536)
        except ConnectionError:
            pass  # cut off while sending, or before the answer was read
        else:
            assert answer.startswith(b"HTTP/1.1 413")
    assert attacker.works()


@pytest.mark.parametrize("path", ["/graphql", "/queue/submit", "/login-code"])
def test_refusals_contain_no_paths_of_the_server(
    server: RestServer, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    answer = httpx.post(f"{server.address}{path}", json={"query": "{ __typename }"})
    assert answer.status_code == 401
    assert "the file token in the server's data folder" in answer.text
    assert str(tmp_path_factory.getbasetemp()) not in answer.text


def test_slow_clients_do_not_block_other_clients(server: RestServer, attacker: Attacker) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(attacker.place, timeout=60)) for _ in range(DRIPPING)]

        letters = iter(b"GET /healthz HTTP/1.1")

        def drip() -> None:
            letter = bytes([next(letters)])
            for number, line in enumerate(lines):
                line.sendall(letter if number % 2 else b" ")
            assert attacker.works()  # after the earlier requests

        for line in lines[::2]:
            line.sendall(head(server, "/graphql", "Content-Length: 1000"))
        assert attacker.works()
        spent = attacker.cpu_s(drip)
        assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms for {DRIPPING}"


def head(server: RestServer, path: str, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {urlsplit(server.address).netloc}",
        f"Authorization: {server.headers['authorization']}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()
