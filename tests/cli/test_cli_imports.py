"""Imports: a command that asks a server imports no part of the server."""

import subprocess
import sys

import pytest

HEAVY = ("aliquot.service", "aliquot.store", "aliquot.execution", "aliquot.api", "sqlalchemy", "strawberry", "ray")
PRINT = """
import sys
from aliquot.cli import main
from typer.testing import CliRunner
CliRunner().invoke(main, sys.argv[1:])
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("call", [["session", "list"], ["queue"], ["gpus"], ["agents", "list"], ["usage"]])
def test_a_short_command_imports_no_part_of_the_server(call: list[str]) -> None:
    at = ["--server", "http://127.0.0.1:9", "--token-file", "/dev/null"]
    done = subprocess.run([sys.executable, "-c", PRINT, *call, *at], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "aliquot.client.client" in modules, "the command did not come as far as the server"
    assert [name for name in modules if name.startswith(HEAVY)] == []
