"""Attacks on a whole server in a process of its own, over HTTP: what each costs it is told by the kernel."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from api_attacks import BODIES, TEXTS
from rest_server import RestServer, rest_server

CPU_S_MAX: Final = 0.100
"""Each takes less than half of it on a core of its own; cores that are shared take up to twice as long for the same."""
TRIES: Final = 6
DELAY_TRIES: Final = 3
DRIPPING: Final = 300
DEEP: Final = ("deep lists", "deep objects")
MEMORY_BYTES_MAX: Final = 50_000_000
"""What a refused request may add to the most memory that the server has had."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("attacked"), "--stopped") as running:
        yield running


class Attacker:
    """Somebody with a key, on a connection that is kept as long as the server keeps it."""

    def __init__(self, server: RestServer, client: httpx.Client) -> None:
        self._server = server
        self._client = client
        self.place = (urlsplit(server.address).hostname or "", urlsplit(server.address).port or 0)

    def post(self, body: bytes, *, path: str = "/graphql") -> tuple[int, bytes]:
        """What the server answers."""
        answer = self._client.post(path, content=body, headers={"content-type": "application/json"})
        return answer.status_code, answer.content

    def cpu_s(self, work: Callable[[], object]) -> float:
        """CPU time of the server in the best of some tries: whatever else it does is counted too."""
        spent = []
        for _ in range(TRIES):
            before = cpu_ns(self._server.pid)
            work()
            spent.append(cpu_ns(self._server.pid) - before)
        return min(spent) / 1e9

    def delay_s(self, work: Callable[[], object]) -> float:
        """CPU time of the server from a request for /healthz to its answer, while the work is done beside it: the
        longest of each try, in the best of some tries."""
        longest = []
        with httpx.Client(base_url=self._server.address, timeout=60) as other:
            for _ in range(DELAY_TRIES):
                beside, waits = threading.Thread(target=work), [0]
                beside.start()
                while beside.is_alive():
                    before = cpu_ns(self._server.pid)
                    assert other.get("/healthz").status_code == 200
                    waits.append(cpu_ns(self._server.pid) - before)
                beside.join()
                longest.append(max(waits))
        return min(longest) / 1e9

    def works(self) -> bool:
        """Whether others are answered."""
        status, body = self.post(b'{"query": "{ __typename }"}')
        return status == 200 and json.loads(body)["data"] == {"__typename": "Query"}


def cpu_ns(pid: int) -> int:
    """What all threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


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
"""Who sends what; a text costs the same whoever sends it."""


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
    assert spent <= CPU_S_MAX, f"{spent * 1e3:.0f} ms"
    assert delayed <= CPU_S_MAX, f"/healthz waited for {delayed * 1e3:.0f} ms of CPU time"
    assert memory_bytes_most(server.pid) - before <= MEMORY_BYTES_MAX
    assert sender.works()


@pytest.mark.parametrize("name", DEEP)
def test_deep_json_costs_as_little_over_rest(attacker: Attacker, name: str) -> None:
    body = BODIES[name]()
    spent = attacker.cpu_s(lambda: attacker.post(body, path="/queue/submit"))
    status, _ = attacker.post(body, path="/queue/submit")
    assert status in (400, 413, 422)
    assert spent <= CPU_S_MAX, f"{spent * 1e3:.0f} ms"


@pytest.mark.parametrize("path", ["/graphql", "/queue/submit"])
def test_thirty_megabytes_are_refused_unread(server: RestServer, attacker: Attacker, path: str) -> None:
    def announce() -> None:
        with socket.create_connection(attacker.place, timeout=60) as line:
            line.sendall(head(server, path, "Content-Length: 30000000"))
            assert line.recv(65536).startswith(b"HTTP/1.1 413")

    spent = attacker.cpu_s(announce)
    assert spent <= CPU_S_MAX, f"{spent * 1e3:.0f} ms"


def test_thirty_megabytes_in_pieces_are_cut_off(server: RestServer, attacker: Attacker) -> None:
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection(attacker.place, timeout=60) as line:
        line.sendall(head(server, "/graphql", "Transfer-Encoding: chunked"))
        try:
            for _ in range(30):
                line.sendall(piece)
            answer = line.recv(65536)
        except ConnectionError:
            pass  # cut off while it was sent, or before the answer was read
        else:
            assert answer.startswith(b"HTTP/1.1 413")
    assert attacker.works()


def memory_bytes_most(pid: int) -> int:
    """The most memory that a process has had."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("path", ["/graphql", "/queue/submit", "/login-code"])
def test_a_refusal_names_no_folder_of_the_machine(
    server: RestServer, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    answer = httpx.post(f"{server.address}{path}", json={"query": "{ __typename }"})
    assert answer.status_code == 401
    assert "the file token in the server's data folder" in answer.text
    assert str(tmp_path_factory.getbasetemp()) not in answer.text


def test_those_who_drip_cost_nothing_and_keep_nobody_waiting(server: RestServer, attacker: Attacker) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(attacker.place, timeout=60)) for _ in range(DRIPPING)]

        letters = iter(b"GET /healthz HTTP/1.1")

        def drip() -> None:
            letter = bytes([next(letters)])
            for number, line in enumerate(lines):
                line.sendall(letter if number % 2 else b" ")
            assert attacker.works()  # after what has come before it

        for line in lines[::2]:
            line.sendall(head(server, "/graphql", "Content-Length: 1000"))
        assert attacker.works()
        spent = attacker.cpu_s(drip)
        assert spent <= CPU_S_MAX, f"{spent * 1e3:.0f} ms for {DRIPPING}"


def head(server: RestServer, path: str, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {urlsplit(server.address).netloc}",
        f"Authorization: {server.headers['authorization']}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()
