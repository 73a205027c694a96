"""The server audits of graphql-http from npm: 61 of them, on what MUST, SHOULD and MAY be in GraphQL over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest

from api_server import TOKEN, ApiServer
from machine_lacks import DASHBOARD, node_with

pytestmark = pytest.mark.anyio

SCRIPT: Final = Path(__file__).with_name("graphql_audits.mjs")
AUDITS: Final = 61
WAIT_S: Final = 120


async def test_all_server_audits_pass(server: ApiServer) -> None:
    node = node_with("graphql-http")
    arguments = [DASHBOARD / "package.json", str(server.port), TOKEN]
    process = await asyncio.create_subprocess_exec(node, SCRIPT, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), WAIT_S)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    found = [json.loads(line) for line in printed.splitlines()]
    assert [audit for audit in found if audit["status"] != "ok"] == []
    assert len(found) == AUDITS
