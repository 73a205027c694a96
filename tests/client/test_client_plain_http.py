"""HTTP of the blocking client: connections are reused, errors name the cause."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from aliquot.client import BlockingClient, ServerUnreachable, UnexpectedAnswer, plain_http
from aliquot_schema.errors import Unauthenticated

ANSWER = b'{"data": {"ping": 1}}'
WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (
    ANSWER[:5],
    len(ANSWER) - 5,
    ANSWER[5:],
)
WITHOUT_LENGTH = b"HTTP/1.1 200 OK\r\n\r\n" + ANSWER
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + WITH_LENGTH


class Scripted:
    """A server that answers each request from a list of bytes, and counts connections."""

    def __init__(self, answers: list[bytes], *, closes: bool) -> None:
        self._answers = answers
        self._closes = closes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._thread.join(timeout=10)
        self._listener.close()

    def _run(self) -> None:
        while self._answers:
            link, _ = self._listener.accept()
            self.connections += 1
            with link:
                self._serve(link)
            self.closed.set()

    def _serve(self, link: socket.socket) -> None:
        while self._answers:
            request = b""
            while not request.endswith(b"}"):
                data = link.recv(65536)
                if not data:
                    return
                request += data
            self.requests.append(request)
            link.sendall(self._answers.pop(0))
            if self._closes:
                return


@contextmanager
def scripted(*answers: bytes, closes: bool = False) -> Iterator[tuple[Scripted, BlockingClient]]:
    server = Scripted(list(answers), closes=closes)
    try:
        with BlockingClient(server.url, "key") as client:
            yield server, client
    finally:
        server.end()


@pytest.mark.parametrize("answer", [WITH_LENGTH, CHUNKED, INTERIM])
def test_one_connection_carries_many_requests(answer: bytes) -> None:
    with scripted(answer, answer, answer) as (server, client):
        assert [client.execute("{ ping }") for _ in range(3)] == [{"ping": 1}] * 3
        assert server.connections == 1
    assert server.requests[0].startswith(b"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer key\r\n" in server.requests[0]


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    with scripted(WITHOUT_LENGTH, WITHOUT_LENGTH, closes=True) as (server, client):
        assert [client.execute("{ ping }") for _ in range(2)] == [{"ping": 1}] * 2
        assert server.connections == 2


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    with scripted(WITH_LENGTH, WITH_LENGTH, closes=True) as (server, client):
        client.execute("{ ping }")
        assert server.closed.wait(10)
        client.execute("{ ping }")
        assert server.connections == 2


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_http, "IDLE_S_MAX", -1.0)
    with scripted(WITH_LENGTH, WITH_LENGTH, closes=True) as (server, client):
        client.execute("{ ping }")
        client.execute("{ ping }")
        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (b"", ServerUnreachable, "without sending a response"),
        (WITH_LENGTH[:-4], ServerUnreachable, "before its answer was complete"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", ServerUnreachable, "Expected HTTP"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nout", ServerUnreachable, "HTTP status 502: out"),
        (b"HTTP/1.1 404 Gone\r\nContent-Length: 7\r\n\r\n<html/>", UnexpectedAnswer, "HTTP status 404: a web page"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", Unauthenticated, "does not accept this token"),
    ],
)
def test_failed_requests_name_the_cause(answer: bytes, error: type[Exception], said: str) -> None:
    with scripted(answer, closes=True) as (_, client), pytest.raises(error, match=said):
        client.execute("{ ping }")


def test_a_refused_connection_is_reported_as_unreachable() -> None:
    with (
        BlockingClient("http://127.0.0.1:1", "key") as client,
        pytest.raises(ServerUnreachable, match="Connection refused"),
    ):
        client.execute("{ ping }")


@pytest.mark.parametrize("method", [lambda client: client.execute("{ ping }"), lambda client: client.me()])
def test_a_proxy_of_the_environment_is_used(
    method: Callable[[BlockingClient], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Scripted([b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nout"], closes=True)
    monkeypatch.setenv("http_proxy", server.url)
    with BlockingClient("http://gpu.invalid:8090", "key") as client, pytest.raises(ServerUnreachable, match="502"):
        method(client)
    server.end()
    assert server.requests[0].startswith(b"POST http://gpu.invalid:8090/graphql HTTP/1.1\r\n")
