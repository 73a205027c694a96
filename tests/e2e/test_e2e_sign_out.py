"""A signed-out login stays ended after a restart of the server."""

import httpx
import pytest

from aliquot.api.authentication import COOKIE
from aliquot.cli.acceptance.processes import OwnServer

pytestmark = pytest.mark.anyio

ME = {"query": "{ me { name } }"}


async def test_an_ended_sign_in_stays_ended_after_a_restart(anyio_backend: str) -> None:
    async with OwnServer("--demo") as server:
        ended, other = [await _signed_in(server), await _signed_in(server)]
        assert (await _post(server, "/logout", ended)).status_code == 204
        await server.stop()
        await server.start()
        assert (await _post(server, "/graphql", ended)).status_code == 401
        assert (await _post(server, "/graphql", other)).status_code == 200


async def _signed_in(server: OwnServer) -> str:
    """The cookie of a new login."""
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as browser:
        path = (await browser.post("/login-code", headers=headers)).json()["path"]
        return (await browser.get(path)).cookies[COOKIE]


async def _post(server: OwnServer, path: str, cookie: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url, cookies={COOKIE: cookie}, timeout=60) as browser:
        return await browser.post(path, json=ME)
