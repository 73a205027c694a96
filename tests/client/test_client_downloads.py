"""Downloads of results: partial files next to their targets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from aliquot.client import files as transfers
from aliquot.client.errors import Refused, ServerUnreachable
from aliquot.client.files import TURN_S_MAX, ResultCalls
from aliquot.client.workspaces import WorkspaceCalls
from aliquot_schema.cluster.workspaces import WorkspaceUpload

pytestmark = pytest.mark.anyio

HALF = 2**20
CONTENT = bytes(2 * HALF)


class Broken(httpx.AsyncByteStream):
    """Half an answer, then a lost connection."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield CONTENT[:HALF]
        raise httpx.ReadError("lost")


class Files(ResultCalls):
    """Calls to a server with one content for all paths, which records the requested ranges."""

    def __init__(self) -> None:
        self.is_broken = False
        self.ranges: list[tuple[str, str | None]] = []
        self._http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="http://server")

    @property
    def http(self) -> httpx.AsyncClient:
        return self._http

    def _answer(self, request: httpx.Request) -> httpx.Response:
        span = request.headers.get("range")
        self.ranges.append((request.url.path.rpartition("/")[2], span))
        code, data = (200, CONTENT) if span is None else (206, CONTENT[int(span[6:-1]) :])
        headers = {"etag": f'"{len(CONTENT):x}-1"'}
        if self.is_broken and span is None:
            return httpx.Response(code, headers=headers, stream=Broken())
        if self.is_broken:
            raise httpx.ConnectError("lost")
        return httpx.Response(code, headers=headers, content=data)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_an_interrupted_download_resumes_after_a_download_with_a_similar_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "RETRY_S", 0.0)
    files = Files()
    files.is_broken = True
    with pytest.raises(ServerUnreachable):
        await files.download("ses_1", "a.txt", tmp_path / "a.txt")
    assert (tried := len(files.ranges)) > 1
    files.is_broken = False
    await files.download("ses_1", "a", tmp_path / "a")
    await files.download("ses_1", "a.txt", tmp_path / "a.txt")
    assert files.ranges[tried:] == [("a", None), ("a.txt", f"bytes={HALF}-")]
    assert contents(tmp_path) == {"a": CONTENT, "a.txt": CONTENT}


@pytest.mark.parametrize("name", ["n" * 255, "[a]*?", "é" * 127])
async def test_names_of_any_length_and_letters_are_downloaded(tmp_path: Path, name: str) -> None:
    assert await Files().download("ses_1", name, tmp_path / name) == len(CONTENT)
    assert contents(tmp_path) == {name: CONTENT}


async def test_one_of_two_downloads_to_the_same_file_goes_on(tmp_path: Path) -> None:
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield CONTENT[:HALF]
            began.set()
            await other.wait()
            yield CONTENT[HALF:]

    def answer(request: httpx.Request) -> httpx.Response:
        headers = {"etag": f'"{len(CONTENT):x}-1"'}
        return httpx.Response(200, headers=headers, stream=Slow())

    began, other = asyncio.Event(), asyncio.Event()
    slow = Files()
    slow._http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://server")
    download = asyncio.create_task(slow.download("ses_1", "a", tmp_path / "a"))
    await began.wait()
    assert await Files().download("ses_1", "a", tmp_path / "a") == len(CONTENT)
    other.set()
    with pytest.raises(BlockingIOError, match="another download of it is in progress"):
        await download
    assert contents(tmp_path) == {"a": CONTENT}


async def test_a_download_that_another_one_has_emptied_is_not_complete(tmp_path: Path) -> None:
    class Emptied(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield CONTENT
            _empty(tmp_path)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"etag": f'"{len(CONTENT):x}-1"'}, stream=Emptied())

    files = Files()
    files._http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://server")
    with pytest.raises(BlockingIOError, match="another download of it is in progress"):
        await files.download("ses_1", "a", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"")


class Busy(ResultCalls, WorkspaceCalls):
    """Calls to a server that carries out as many of the user already, for some requests."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self._http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="http://server")

    @property
    def http(self) -> httpx.AsyncClient:
        return self._http

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.refusals:
            self.refusals -= 1
            problem = {"code": "rate_limited", "title": "RateLimited", "detail": "8 uploads are in progress"}
            return httpx.Response(429, json=problem, headers={"retry-after": "3"})
        if request.method == "GET":
            return httpx.Response(200, content=CONTENT, headers={"etag": f'"{len(CONTENT):x}-1"'})
        upload = WorkspaceUpload(id="a" * 40, missing=(), files=1, bytes=3)
        return httpx.Response(200, content=msgspec.json.encode(upload))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times for which a client waited; no time passes."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("aliquot.client.files.asyncio.sleep", sleep)
    return found


async def test_a_transfer_waits_while_the_server_carries_too_many_of_its_user(
    tmp_path: Path, waits: list[float]
) -> None:
    (tmp_path / "main.py").write_text("run")
    assert (await Busy(2).upload(tmp_path)).id == "a" * 40
    assert await Busy(2).download("ses_1", "a", tmp_path / "a") == len(CONTENT)
    assert waits == [3.0] * 4


async def test_a_transfer_does_not_wait_for_ever(tmp_path: Path, waits: list[float]) -> None:
    with pytest.raises(Refused, match="8 uploads are in progress"):
        await Busy(1000).upload(tmp_path)
    assert sum(waits) == TURN_S_MAX


class Failover(ResultCalls, WorkspaceCalls):
    """Calls to servers of which, for some requests, none leads after a connection was lost."""

    def __init__(self) -> None:
        self.failures = [httpx.ConnectError("lost"), *[None] * 8]
        self._http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="http://server")

    @property
    def http(self) -> httpx.AsyncClient:
        return self._http

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.failures:
            if (failure := self.failures.pop(0)) is not None:
                raise failure
            return httpx.Response(503, json={"code": "unavailable", "detail": "this server is not the leader"})
        if request.method == "GET":
            return httpx.Response(200, content=CONTENT, headers={"etag": f'"{len(CONTENT):x}-1"'})
        return httpx.Response(
            200, content=msgspec.json.encode(WorkspaceUpload(id="a" * 40, missing=(), files=1, bytes=3))
        )


async def test_transfers_go_on_when_another_server_leads(tmp_path: Path, waits: list[float]) -> None:
    (tmp_path / "main.py").write_text("run")
    assert (await Failover().upload(tmp_path)).id == "a" * 40
    assert await Failover().download("ses_1", "a", tmp_path / "a") == len(CONTENT)
    assert len(waits) == 18
