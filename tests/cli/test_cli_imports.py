"""Short commands do not import the slow libraries."""

import json
import subprocess
import sys

import pytest

from rest_server import RestServer

HEAVY = (
    *("asyncio", "ssl", "http.client", "email", "logging", "httpx._client", "httpcore", "h11", "anyio", "websockets"),
    *("rich", "pygments", "pydantic", "strawberry", "graphql", "sqlalchemy", "sqlmodel", "numpy", "ray", "jwt", "yaml"),
    *("aliquot.service", "aliquot.core", "aliquot.store", "aliquot.client.client", "aliquot_schema.sessions"),
    *("aliquot_schema.events", "aliquot_schema.policies", "uuid_utils", "webbrowser"),
)
SCRIPT = """
import json, sys
from aliquot.cli import main
try:
    main(json.loads(sys.argv[1]), standalone_mode=False)
except BaseException as error:
    print(type(error).__name__)
print(json.dumps([name for name in json.loads(sys.argv[2]) if sys.modules.get(name) is not None]))
"""


def _imported(
    call: list[str], *, server: str, token: str, of: tuple[str, ...] = HEAVY
) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The given modules that a call imported, and its result."""
    end = call.index("--") if "--" in call else len(call)
    words = [*call[:end], "--server", server, *call[end:]]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(words), json.dumps(of)],
        capture_output=True,
        text=True,
        check=True,
        env={"ALIQUOT_TOKEN": token, "PATH": "", "HOME": "/nonexistent"},
    )
    return json.loads(done.stdout.splitlines()[-1]), done


@pytest.mark.parametrize(
    "call",
    [["queue"], ["queue", "--json"], ["gpus"], ["session", "list"], ["agents", "list"], ["projects"], ["pools"]],
    ids=" ".join,
)
def test_a_command_that_prints_a_table_loads_no_heavy_module(call: list[str], demo_server: RestServer) -> None:
    heavy, done = _imported(call, server=demo_server.address, token=demo_server.token)
    assert done.stderr == ""
    assert heavy == []


@pytest.mark.parametrize(
    "call", [["session", "logs", "x"], ["session", "stats", "x"], ["why", "x"], ["when", "x"]], ids=" ".join
)
def test_a_command_about_one_session_loads_no_heavy_module(call: list[str]) -> None:
    heavy, done = _imported(call, server="http://127.0.0.1:1", token="a token that no server knows")
    assert "http://127.0.0.1:1: " in done.stderr
    assert heavy == []


SESSION = f"ses_{'0' * 8}-{'0000-' * 3}{'0' * 12}"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (["session", "shell", SESSION, "--rank", "1", "--", "true", "-x"], []),
        (["shell", "-r", "gpu=0.5", "-t", "1h", "--", "true"], ["aliquot.client.blocking"]),
        (["session", "create", "-r", "gpu=0.5", "--retries", "2", "--", "true"], ["aliquot.client.blocking"]),
    ],
    ids=["session shell", "shell", "session create"],
)
def test_simple_commands_do_not_import_pydantic_or_the_client(
    call: list[str], expected: list[str], demo_server: RestServer
) -> None:
    """Imports take most of the time to a terminal's prompt. A full id needs no client to look it up."""
    of = ("pydantic", "httpx._client", "aliquot.client.client", "aliquot.client.blocking")
    heavy, done = _imported(call, server=demo_server.address, token="a token that no server knows", of=of)
    assert "give the file of a valid key" in done.stderr
    assert heavy == expected
