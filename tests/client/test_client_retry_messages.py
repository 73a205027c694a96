"""What a client says while it repeats requests: at the first failure, and whether the server or an agent is silent."""

import logging
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from aliquot.cli.connection.server import after_failure
from aliquot.client import files as transfers
from aliquot.client.errors import ClusterUnavailable, GraphQLFault, ServerUnreachable
from aliquot.client.files import ResultCalls
from aliquot.client.generated.queries_types import LogChunk
from aliquot.client.sessions import SessionCalls

pytestmark = pytest.mark.anyio
SILENT = "agent gpu01 does not answer: it was last heard at 2026-11-30 12:17:05 UTC"


class Files(ResultCalls):
    """Calls to a server whose agent does not answer."""

    def __init__(self) -> None:
        self._http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="http://server")

    @property
    def http(self) -> httpx.AsyncClient:
        return self._http

    def _answer(self, _request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json={"code": "unavailable", "detail": SILENT})


class Outputs(SessionCalls):
    """An output that cannot be read at first."""

    def __init__(self) -> None:
        self.failures = 3

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        raise NotImplementedError

    def subscribe(self, query: str, variables: Mapping[str, Any] | None = None) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError

    async def session_logs(self, *_: object, **_options: object) -> AsyncGenerator[LogChunk, None]:
        if self.failures:
            self.failures -= 1
            raise GraphQLFault([{"message": SILENT, "extensions": {"code": "unavailable"}}])
        return
        yield

    async def _sleep(self, seconds: float) -> None:
        pass


async def test_a_download_from_a_silent_agent_says_so_once_at_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transfers, "RETRY_S", 0.3)
    with pytest.raises(ClusterUnavailable) as failure:
        await Files().download("ses_1", "a", tmp_path / "a")
    assert after_failure(failure.value) is None
    assert after_failure(ServerUnreachable("refused")) is not None
    assert caplog.messages == [f"the server cannot do this now, trying again for up to 60 s: {SILENT}"]


async def test_a_download_without_retries_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ClusterUnavailable, match="last heard"):
        await Files().download("ses_1", "a", tmp_path / "a", retries=False)
    assert caplog.messages == []


async def test_following_an_output_of_a_silent_agent_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aliquot.client")
    outputs = Outputs()
    chunks = outputs.outputs("ses_1", offsets={0: 0}, attempt=1, retries_unavailable=True)
    assert [chunk async for chunk in chunks] == []
    assert outputs.failures == 0
    assert caplog.messages == [f"the server cannot do this now, trying again for up to 60 s: {SILENT}"]
