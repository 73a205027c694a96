"""`aliquot secret`: store, list and delete, as text and as JSON."""

import asyncio
import json
import re

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.connection.server import REFUSED

pytestmark = pytest.mark.anyio


async def test_secrets_are_stored_listed_and_deleted() -> None:
    async with OwnServer("--no-local-agents") as server:
        assert await secret(server, "set", "hub", value="one\n") == (0, "stored hub\n")
        stored = json.loads((await secret(server, "set", "hub", "--json", value="two"))[1])
        assert stored["name"] == "hub"
        assert "two" not in str(stored)
        (listed,) = json.loads((await secret(server, "list", "--json"))[1])
        assert listed == stored
        row = (await secret(server, "list"))[1].splitlines()[-1]
        assert re.fullmatch(r"hub\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row)
        assert json.loads((await secret(server, "delete", "hub", "--json"))[1])["name"] == "hub"
        assert (await secret(server, "delete", "hub"))[0] == REFUSED


async def secret(server: OwnServer, *arguments: str, value: str = "") -> tuple[int, str]:
    """Run a command in this process; (exit code, output)."""
    asking = ("--server", server.url, "--token-file", str(server.data_folder / "token"))
    done = await asyncio.to_thread(CliRunner().invoke, main, ["secret", *arguments, *asking], input=value)
    return done.exit_code, done.stdout
