"""Result files: attacks by jobs, other users, foreign pages and agents."""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, shell
from aliquot.execution.agent.results import metrics
from aliquot.execution.settings import DiskRules
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.cluster.results import FilesRequest
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.ids import KernelId
from aliquot_schema.metrics import MetricPattern
from aliquot_schema.orchestration import Action
from api_server import BEARER, ApiServer, Stage, api_server
from session_sockets import REVOKE, open_session_stream, running_session, stream_socket, user_with_key

pytestmark = pytest.mark.anyio

FILE, CONTENT = "/sessions/ses_1/files/one", b"0123456789"
HEAD: dict[str, int] = {"size": 10, "changed_ns": 5, "offset": 0, "length": 10}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder accessible to job users."""
    with tempfile.TemporaryDirectory(prefix="aliquot-results-") as name:
        os.chmod(name, 0o711)
        yield Path(name)


@pytest.fixture
async def harness(home: Path) -> AsyncIterator[AgentHarness]:
    """An agent with real processes."""
    harness = AgentHarness(replace(agent_config(home / "agent"), disk=DiskRules(results_files_max=3)))
    await harness.open()
    yield harness
    await harness.close()


async def read(harness: AgentHarness, kernel_id: KernelId, asked: FilesRequest) -> bytes:
    stream = await harness.core.open_stream(kernel_id, StreamTarget(files=asked))
    try:
        data = b""
        while piece := await stream.read():
            data += piece
        return data
    finally:
        await stream.close()


async def left_by(harness: AgentHarness, script: str) -> tuple[KernelId, dict[str, Any]]:
    """A job's files in its RESULT_DIR."""
    wanted = shell(f"cd $RESULT_DIR; {script}")
    await harness.run(wanted)
    return wanted.kernel_id, json.loads(await read(harness, wanted.kernel_id, FilesRequest()))


async def test_links_devices_and_odd_names_are_neither_listed_nor_opened(harness: AgentHarness, home: Path) -> None:
    secret = home / "secret"
    secret.write_text("not for jobs")
    secret.chmod(0o600)
    kernel_id, found = await left_by(
        harness,
        f"echo good > good; ln -s {secret} link; ln -s /etc folder; ln {secret} hard; mkfifo pipe; "
        "touch \"$(printf 'a\\nb')\" \"$(printf 'a\\342\\200\\256b')\" \"$(printf 'a\\377b')\"",
    )
    for one in found["files"]:
        assert b"not for jobs" not in await read(harness, kernel_id, FilesRequest(path=one["path"]))
    assert {one["path"] for one in found["files"]} <= {"good", "hard"}
    assert found["left_out"] >= 6
    for path in ("link", "folder/hostname", "folder", "pipe", "nothing"):
        with pytest.raises(NotFound):
            await read(harness, kernel_id, FilesRequest(path=path))


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../checkpoint/x", "a/../../x", "a//b", "./a", "a\0b", "a\x1bb", "x" * 2000, "a/" * 40]
)
async def test_paths_outside_the_result_folder_are_refused(harness: AgentHarness, path: str) -> None:
    kernel_id, _ = await left_by(harness, "touch a")
    with pytest.raises(InvalidRequest):
        await read(harness, kernel_id, FilesRequest(path=path))


@pytest.mark.parametrize("name", ["ses_1/../..", "..", "ses_1.1.0/../../x.1.1"])
async def test_kernel_ids_that_are_paths_are_refused(harness: AgentHarness, name: str) -> None:
    with pytest.raises((InvalidRequest, NotFound)):
        await read(harness, KernelId(name), FilesRequest())


async def test_a_folder_replaced_by_a_link_is_not_followed(harness: AgentHarness) -> None:
    kernel_id, _ = await left_by(harness, "mkdir d; echo good > d/hostname")
    folder = harness.config.folder / "sessions" / kernel_id.split(".")[0] / "result"
    (folder / "d").rename(folder / "other")
    (folder / "d").symlink_to("/etc")
    with pytest.raises(NotFound):
        await read(harness, kernel_id, FilesRequest(path="d/hostname"))
    folder.rename(folder.with_name("kept"))
    folder.symlink_to("/etc")
    with pytest.raises(NotFound):
        await read(harness, kernel_id, FilesRequest())
    with pytest.raises(NotFound):
        await read(harness, kernel_id, FilesRequest(path="hostname"))


async def test_a_file_that_changes_while_it_is_read_gives_at_most_its_announced_length(harness: AgentHarness) -> None:
    kernel_id, _ = await left_by(harness, "head -c 200000 /dev/zero > big")
    file = harness.config.folder / "sessions" / kernel_id.split(".")[0] / "result" / "big"
    stream = await harness.core.open_stream(kernel_id, StreamTarget(files=FilesRequest(path="big")))
    assert json.loads(await stream.read())["length"] == 200_000
    file.write_bytes(b"x" * 70_000)
    sizes = [len(piece) async for piece in pieces(stream)]
    assert sum(sizes) == 70_000
    stream = await harness.core.open_stream(kernel_id, StreamTarget(files=FilesRequest(path="big")))
    await stream.read()
    file.write_bytes(b"x" * 900_000)
    assert sum([len(piece) async for piece in pieces(stream)]) == 70_000


async def pieces(stream: Any) -> AsyncIterator[bytes]:
    while piece := await stream.read():
        yield piece
    await stream.close()


async def test_a_listing_is_bounded_however_much_there_is(harness: AgentHarness) -> None:
    _, found = await left_by(
        harness, "seq -f f%g 12000 | xargs touch; p=.; for i in $(seq 60); do p=$p/d; mkdir $p; done; touch $p/deep"
    )
    assert len(found["files"]) == 10_000
    assert found["left_out"] == 2_001
    assert found["files_max"] == 3


async def listing(server: ApiServer, headers: dict[str, str] | None = None) -> dict[str, Any]:
    query = '{ session_files(id: "ses_1") { total_count } }'
    return dict((await server.http.post("/graphql", json={"query": query}, headers=headers)).json())


def content(**head: int) -> tuple[bytes, ...]:
    return json.dumps({**HEAD, **head}).encode() + b"\n", CONTENT


async def test_a_download_is_an_attachment_in_a_sandbox_and_in_the_audit(server: ApiServer) -> None:
    await running_session(server)
    server.streams.results = content()
    answer = await server.http.get("/sessions/ses_1/files/plots/a%22%0A%E2%82%AC.html")
    assert answer.status_code in (404, 422)  # a name with a line end
    answer = await server.http.get("/sessions/ses_1/files/plots/a%22%E2%82%AC.html")
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a%22%E2%82%AC.html"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    action = server.admin.state.find(Action, "result/ada")
    assert action is not None
    assert action.facts["path"] == 'plots/a"€.html'


@pytest.mark.parametrize("role", ["viewer", "user", "operator"])
async def test_only_the_owner_and_admins_read_results(server: ApiServer, role: str) -> None:
    await running_session(server)
    server.streams.results = content()
    _, secret = await user_with_key(server, "eve", role)
    own = {"authorization": f"Bearer {secret}"}
    assert (await server.http.get(FILE, headers=own)).status_code == 403
    assert (await listing(server, own))["errors"][0]["extensions"]["code"] == "forbidden"
    assert server.streams.opened == []
    assert server.admin.state.find(Action, "result/eve") is None


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": "", "cookie": "aliquot_session=stolen"},
        {"host": "elsewhere.example"},
    ],
)
async def test_result_downloads_without_valid_credentials_are_refused(
    server: ApiServer, headers: dict[str, str]
) -> None:
    await running_session(server)
    server.streams.results = content()
    assert (await server.http.get(FILE, headers=headers)).status_code in (401, 403, 421)
    assert server.streams.opened == []


async def test_a_client_stream_cannot_open_files(server: ApiServer) -> None:
    await running_session(server)
    server.streams.results = content()
    async with stream_socket(server) as socket:
        assert (await open_session_stream(socket, {"files": {"path": "one"}}))["error"] == "invalid_request"
    assert server.streams.opened == []


@pytest.mark.parametrize(
    "told",
    [
        (b"",),
        (b"{}\n",),
        (b"x" * 100_000,),
        content(size=-1),
        content(length=11),
        content(offset=9),
        content(changed_ns=-1),
        content(size=2**80, length=2**80),
    ],
)
async def test_invalid_file_headers_from_an_agent_are_refused(server: ApiServer, told: tuple[bytes, ...]) -> None:
    await running_session(server)
    server.streams.results = told
    assert (await server.http.get(FILE)).status_code == 503


@pytest.mark.parametrize(
    "told",
    [
        {"files": [{"path": "../x", "size": 1, "changed_ns": 1}]},
        {"files": [{"path": "a", "size": -1, "changed_ns": 1}]},
        {"files": [{"path": "a", "size": 1, "changed_ns": 1, "sha256": "../x"}]},
        {"files": [{"path": "a", "size": 1, "changed_ns": 1}] * 10_001},
        {"files": 1},
        {"left_out": -1},
    ],
)
async def test_an_agent_that_lies_about_a_listing_is_refused(server: ApiServer, told: dict[str, Any]) -> None:
    await running_session(server)
    server.streams.results = (json.dumps(told).encode(),)
    assert (await listing(server))["errors"][0]["extensions"]["code"] == "unavailable"


async def test_a_file_longer_than_announced_is_cut_and_a_shorter_one_breaks_the_connection(server: ApiServer) -> None:
    await running_session(server)
    server.streams.results = (*content(), b"and more")
    assert (await server.http.get(FILE)).content == CONTENT
    server.streams.results = content()[:1]
    with pytest.raises(httpx.RemoteProtocolError):
        await server.http.get(FILE)


@pytest.mark.parametrize("value", ["bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "bytes=" + "9" * 40 + "-", "bytes=a-b"])
async def test_invalid_ranges_are_ignored(server: ApiServer, value: str) -> None:
    await running_session(server)
    server.streams.results = content()
    answer = await server.http.get(FILE, headers={"range": value})
    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("HEAD", {}, 200),
        ("GET", {"range": "bytes=0-1", "if-range": '"other"'}, 200),
        ("GET", {"range": "bytes=90-"}, 416),
        ("GET", {"if-none-match": "TAG"}, 304),
    ],
)
async def test_answers_without_content_close_their_streams(
    server: ApiServer, method: str, headers: dict[str, str], status: int
) -> None:
    await running_session(server)
    server.streams.results = content()
    tag = (await server.http.head(FILE)).headers["etag"]
    server.streams.results = content(offset=10, length=0) if status == 416 else content()
    asked = {name: tag if value == "TAG" else value for name, value in headers.items()}
    assert (await server.http.request(method, FILE, headers=asked)).status_code == status
    assert all(echo.is_closed for *_, echo in server.streams.opened)


async def test_a_download_that_cannot_be_recorded_is_refused_each_time(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running_session(server)
    server.streams.results = content()

    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(server.admin.journal, "transact", fail)
        for _ in range(2):
            assert (await server.http.get(FILE)).status_code == 503
    assert all(echo.is_closed for *_, echo in server.streams.opened)
    assert server.admin.state.find(Action, "result/ada") is None
    assert (await server.http.get(FILE)).status_code == 200
    assert server.admin.state.find(Action, "result/ada") is not None


@pytest.mark.parametrize("query", ["?rank=-1", "?rank=x", "?rank=1e9", "?rank=" + "1" * 5000, "?other=1"])
async def test_invalid_download_parameters_are_refused(server: ApiServer, query: str) -> None:
    await running_session(server)
    server.streams.results = content()
    assert (await server.http.get(FILE + query)).status_code == 422


async def test_downloads_per_user_are_limited() -> None:
    async with api_server(downloads_per_user=2, stream_bytes_per_s=5) as server:
        await running_session(server)
        server.streams.results = content(size=100, length=100)[:1] + (b"x" * 50,) * 2
        async with (
            server.http.stream("GET", FILE) as one,
            server.http.stream("GET", FILE) as two,
        ):
            assert (one.status_code, two.status_code) == (200, 200)
            refused = await server.http.get(FILE)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")


async def test_a_client_that_leaves_before_the_first_byte_of_its_answer_frees_its_download(
    server: ApiServer, staged: tuple[Stage, int]
) -> None:
    await running_session(server)
    server.streams.results = content()
    headers = [(key.encode(), value.encode()) for key, value in {"host": "localhost", **BEARER}.items()]
    scope = {"type": "http", "method": "GET", "path": FILE, "query_string": b"", "headers": headers}

    async def send(_message: object) -> None:
        await asyncio.Event().wait()  # its connection is full with the answer

    async with asyncio.timeout(30):
        await staged[0](scope, AsyncMock(return_value={"type": "http.disconnect"}), send)
    assert all(echo.is_closed for *_, echo in server.streams.opened)


async def test_a_download_ends_when_its_key_is_revoked() -> None:
    async with api_server(stream_bytes_per_s=100_000) as server:
        await running_session(server, owner="eve")
        key_id, secret = await user_with_key(server, "eve", "user")
        server.streams.results = content(size=4_000_000, length=4_000_000)[:1] + (b"x" * 100_000,) * 40
        async with server.http.stream("GET", FILE, headers={"authorization": f"Bearer {secret}"}) as answer:
            pieces = answer.aiter_raw()
            await anext(pieces)
            await server.data(REVOKE, id=key_id)
            with pytest.raises(httpx.RemoteProtocolError):
                [piece async for piece in pieces]


@pytest.mark.parametrize(
    "pattern",
    [
        "{value}{value}",
        "loss",
        "a" * 300 + "{value}",
        "{value}\n",
        "{step}{step}{value}",
        "\x1b{value}",
        "{step}{value}",
    ],
)
async def test_invalid_metric_patterns_are_refused_by_agents(harness: AgentHarness, pattern: str) -> None:
    kernel_id, _ = await left_by(harness, "true")
    with pytest.raises(InvalidRequest):
        await read(harness, kernel_id, FilesRequest(metrics=(MetricPattern(name="a", pattern=pattern),)))


async def test_slow_metrics_are_partial_and_continued_by_the_next_request(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_id, _ = await left_by(harness, "for i in 1 2 3; do echo ::metric a=$i; done")
    asked = FilesRequest(metrics=())
    monkeypatch.setattr(metrics, "READ_S_MAX", 0.0)
    counts = []
    for _ in range(3):
        found = json.loads(await read(harness, kernel_id, asked))
        assert found["is_partial"]
        counts.append(found["series"][0]["count"])
    assert counts == [1, 2, 3]
    assert not json.loads(await read(harness, kernel_id, asked)).get("is_partial", False)


async def test_output_made_to_be_slow_to_search_takes_little_time_and_room(harness: AgentHarness) -> None:
    patterns = tuple(MetricPattern(name=f"m{n}", pattern="a  a {value}  {step} b") for n in range(32))
    script = (
        "exec python3 -c \"import sys; w = sys.stdout.write; w(('a ' * 3000 + '1' * 3000 + '\\n') * 300);"
        " w('x' * 9000000 + '\\n'); [w(f'::metric n{i}={i} =1 a=b 1e999=1 step=-1\\n') for i in range(5000)];"
        " w('::metric huge=1e400 step=' + '9' * 30 + '\\n')\""
    )
    kernel_id, _ = await left_by(harness, script)
    before = time.process_time()
    found = json.loads(await read(harness, kernel_id, FilesRequest(metrics=patterns)))
    while found.get("is_partial"):  # on a busy machine the agent's request timeout passes before the end
        found = json.loads(await read(harness, kernel_id, FilesRequest(metrics=patterns)))
    assert time.process_time() - before < 10
    assert len(found["series"]) == 32
    assert all(one["name"].startswith("n") and one["count"] == 1 for one in found["series"])
