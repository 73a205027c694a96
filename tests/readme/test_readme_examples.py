"""Everything that the README shows is run, in its order, and answers what is shown there."""

import asyncio
import json
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.main_job.own_server import OwnServer
from aliquot.client import Client
from readme_blocks import README, Example, examples, matches

pytestmark = pytest.mark.anyio

ANSWER_S_MAX = 60.0
POLL_S = 0.05


async def test_every_example_answers_what_is_shown(server: OwnServer, described: dict[str, Any]) -> None:
    ran = {"toml": 0, "bash": 0, "graphql": 0}
    async with server.client() as client:
        known = {"HOSTNAME": await _hostname(client)}
        for example in (example for example in examples() if not example.label):
            ran[example.language] += 1
            if example.language == "toml":
                assert tomllib.loads(example.text) == described
            elif example.language == "bash":
                assert matches(example.shown, json.loads(await _shell(example.text, server)))
            else:
                await _until_shown(client, example, known)
    assert all(ran.values())


async def test_a_divided_node_answers_what_is_shown(tmp_path: Path, accelerators: Path) -> None:
    said, asked = (example for example in examples() if example.label == "aliquot.toml")
    assert (said.language, asked.language) == ("toml", "graphql")
    config = tmp_path / said.label
    config.write_text(said.text, encoding="utf-8")
    options = ("--accelerators", str(accelerators))
    async with (
        OwnServer(*options, environment={"ALIQUOT_CONFIG": str(config)}) as server,
        server.client() as client,
    ):
        await _until_shown(client, asked, {})


def test_the_scenario_passes(tmp_path: Path) -> None:
    (scenario,) = (example for example in examples() if example.language == "yaml")
    file = tmp_path / scenario.label
    file.write_text(scenario.text, encoding="utf-8")
    assert f"aliquot policy test {scenario.label}" in README.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "aliquot", "policy", "test", str(file), "--json"]
    played = subprocess.run(command, check=True, capture_output=True, text=True, timeout=ANSWER_S_MAX)
    assert [outcome["differences"] for outcome in json.loads(played.stdout)] == [[]]


def test_the_commands_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for script in ("up", "test", "check", "bench"):
        assert f"scripts/{script}" in text
        assert (README.parent / "scripts" / script).is_file()


@pytest.mark.parametrize(
    ("shown", "real", "expected"),
    [
        ({"a": "ses_..."}, {"a": "ses_1"}, True),
        ({"a": "ses_..."}, {"a": "job_1"}, False),
        ({"a": '{"x": "1", "y": "2"}'}, {"a": '{"y":"2","x":"1"}'}, True),
        ({"a": '{"x": "1"}'}, {"a": '{"x": "2"}'}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        (None, {"a": 1}, False),
    ],
)
def test_shown_and_real_are_compared(shown: Any, real: Any, expected: bool) -> None:
    assert matches(shown, real) is expected


async def _until_shown(client: Client, example: Example, known: dict[str, str]) -> None:
    """Ask until the answer is the one that is shown: what was submitted before takes its time."""
    assert example.shown is not None, f"no result is shown for {example.text}"
    answers: list[Any] = []
    try:
        async with asyncio.timeout(ANSWER_S_MAX), aclosing(_answers(client, example, known)) as source:
            async for answer in source:
                answers.append(answer)
                if matches(example.shown, answer):
                    _learn(answer, known)
                    return
    except TimeoutError:
        pass
    pytest.fail(f"{example.text}\nshown: {json.dumps(example.shown)}\nreal:  {json.dumps(answers[-1:])}")


async def _answers(client: Client, example: Example, known: dict[str, str]) -> AsyncGenerator[Any, None]:
    variables = {name: _filled(value, known) for name, value in example.variables.items()}
    kind = example.text.split(maxsplit=1)[0]
    if kind == "subscription":
        async with aclosing(client.subscribe(example.text, variables)) as items:
            async for item in items:
                yield item
    while kind != "subscription":
        yield await client.execute(example.text, variables)
        if kind == "mutation":
            return
        await asyncio.sleep(POLL_S)


def _filled(value: str, known: dict[str, str]) -> str:
    """`ses_...` is the session that was shown last."""
    return known["session"] if value == "ses_..." else value.replace("HOSTNAME", known["HOSTNAME"])


def _learn(answer: Any, known: dict[str, str]) -> None:
    created = answer.get("create_session", {}).get("session")
    if created:
        known["session"] = created["id"]


async def _shell(text: str, server: OwnServer) -> bytes:
    command = text.replace("127.0.0.1:8090", f"127.0.0.1:{server.port}")
    command = command.replace("~/.local/share/aliquot", str(server.data_folder))
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", command.replace("curl ", "curl -sS ", 1), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output


async def _hostname(client: Client) -> str:
    (edge,) = (await client.execute("{ agents { edges { node { hostname } } } }"))["agents"]["edges"]
    return str(edge["node"]["hostname"])
