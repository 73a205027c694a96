"""Tools of the MCP server: their arguments."""

import pytest
from mcp import Client as Program
from mcp.types import TextContent

from aliquot.client import Client
from aliquot.client.mcp_tools import tool_server

pytestmark = pytest.mark.anyio


def _unused(_: object) -> Client:
    raise AssertionError("the server was asked")


async def test_a_tool_refuses_an_argument_that_it_does_not_have() -> None:
    async with Program(tool_server(_unused)) as program:
        answer = await program.call_tool("submit", {"command": "true", "gpu": 1})
        [text] = answer.content
        schemas = {tool.name: tool.input_schema for tool in (await program.list_tools()).tools}
    assert answer.is_error
    assert isinstance(text, TextContent)
    assert "gpu\n  Extra inputs are not permitted" in text.text
    assert {schema["additionalProperties"] for schema in schemas.values()} == {False}
