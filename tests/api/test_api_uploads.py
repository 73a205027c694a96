"""Uploads of working directories to servers that have no place for them."""

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from aliquot.api.encoding import REQUEST_ID
from aliquot.api.limits import Limits
from aliquot.api.workspaces import BLOCKS, UPLOAD, WorkspaceEndpoint
from aliquot_schema.cluster.workspaces import Workspace

pytestmark = pytest.mark.anyio


class Contexts:
    """One caller, and one session."""

    def __init__(self) -> None:
        self.services = SimpleNamespace(queries=self)

    def caller_of(self, request: Any) -> SimpleNamespace:
        return SimpleNamespace(user="ada")

    async def session(self, caller: Any, id: str) -> SimpleNamespace:
        return SimpleNamespace(id=id)


async def test_servers_without_a_shared_folder_name_the_setting_that_uploads_need() -> None:
    endpoint = WorkspaceEndpoint(None, contexts=cast("Any", Contexts()), limits=Limits())
    router = Router(endpoint.routes())

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await router({**scope, REQUEST_ID: "req_1"}, receive, send)

    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        for path, body in ((UPLOAD, Workspace(files=()).encoded()), (BLOCKS, b"\0" * 7 + b"\1x")):
            answer = await http.post(path, content=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
            assert "`workspaces-folder`" in answer.json()["detail"]
        assert (await http.get("/sessions/ses_1/workspace")).text == "null"
