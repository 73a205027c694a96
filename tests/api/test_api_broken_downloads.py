"""Downloads of results that end in the middle: the connection breaks, and the log says why in one line."""

import json
import logging

import httpx
import pytest

from aliquot_schema.errors import Unavailable
from api_server import api_server
from session_sockets import running_session

pytestmark = pytest.mark.anyio


async def test_a_download_whose_agent_is_lost_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with api_server() as server:
        await running_session(server)
        head = {"size": 10, "changed_ns": 5, "offset": 0, "length": 10}
        server.streams.results = (json.dumps(head).encode() + b"\n", b"01234")
        with pytest.raises(httpx.RemoteProtocolError):
            await server.http.get("/sessions/ses_1/files/one")
    (said,) = [record for record in caplog.records if record.name == "uvicorn.error"]
    assert (said.levelno, said.exc_info) == (logging.WARNING, None)
    why = "the file became shorter, or its agent was lost; try again"
    assert said.getMessage() == f"an answer was broken off: {why}"


async def test_an_expected_error_that_another_endpoint_lets_escape_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with api_server():
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=Unavailable("it is away"))
    (said,) = [record for record in caplog.records if record.name == "uvicorn.error"]
    assert (said.levelno, said.exc_info is None) == (logging.ERROR, False)
    assert said.getMessage() == "Exception in ASGI application"
