"""Runs the blocks of a page in order against one server, and compares their results with those shown."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from docs_blocks import RUN, Block, blocks, matches, matches_json

TWO_GPUS: Final = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
RUN_S_MAX: Final = 60.0
POLL_S: Final = 0.1
CHANGES: Final = re.compile(
    r"session (create|cancel|hold|release|retry)|(user|clusters) (add|set)|quota (set|remove)|"
    r"key new|secret set|gpu-allocate"
)
"""A block without any of these only reads, and is repeated until the result is as shown."""


@asynccontextmanager
async def two_gpu_server(environment: Mapping[str, str] | None = None) -> AsyncIterator[OwnServer]:
    """A server with one agent that has two mock GPUs, as the README and the tutorial describe it."""
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=dict(environment or {})) as running:
        async with running.client() as client:
            await until_joined(client, agents=1)
        yield running


def shell_environment(server: OwnServer, home: Path) -> dict[str, str]:
    """A user's environment on the server's machine, with its own home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "SLURM_"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "ALIQUOT_SERVER": server.url,
        "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token"),
        "COLUMNS": "200",
    }


async def run_page(page: Path, *, server: OwnServer, folder: Path) -> Counter[str]:
    """Run a page's blocks in order, with its files in the folder; the number run, by language."""
    ran: Counter[str] = Counter()
    environment = shell_environment(server, folder)
    async with server.client() as client:
        known = {"HOSTNAME": await _hostname(client)}
        for block in blocks(page):
            if block.file is not None:
                (folder / block.file).write_text(block.text, encoding="utf-8")
                continue
            if block.why_not is not None or block.language not in RUN or block.label:
                continue
            ran[block.language] += 1
            if block.language == "graphql":
                await ask(client, block, known)
            else:
                await _done(block, environment, folder)
    return ran


async def ask(client: Client, block: Block, known: dict[str, str]) -> None:
    """Query until the answer is the one shown; a mutation only once.

    Args:
        known: the values of `HOSTNAME` and, as `session`, of `ses_...` in variables; the newest session is stored.
    """
    assert "json" in block.results, f"no result is shown for {block.text}"
    shown = json.loads(block.results["json"])
    answers: list[Any] = []
    try:
        async with asyncio.timeout(RUN_S_MAX), aclosing(_answers(client, block, known)) as source:
            async for answer in source:
                answers.append(answer)
                if matches_json(shown, answer):
                    _learn(answer, known)
                    return
    except TimeoutError:
        pass
    pytest.fail(f"{block.text}\nshown: {json.dumps(shown)}\nreal:  {json.dumps(answers[-1:])}")


async def _answers(client: Client, block: Block, known: Mapping[str, str]) -> AsyncGenerator[Any, None]:
    given = json.loads(block.results.get("json variables", "{}"))
    variables = {name: _filled(value, known) for name, value in given.items()}
    kind = block.text.split(maxsplit=1)[0]
    if kind == "subscription":
        async with aclosing(client.subscribe(block.text, variables)) as items:
            async for item in items:
                yield item
    while kind != "subscription":
        yield await client.execute(block.text, variables)
        if kind == "mutation":
            return
        await asyncio.sleep(POLL_S)


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    """`ses_...` is the last session shown."""
    if not isinstance(value, str):
        return value
    return known["session"] if value == "ses_..." else value.replace("HOSTNAME", known["HOSTNAME"])


def _learn(answer: Any, known: dict[str, str]) -> None:
    created = answer.get("create_session")
    if isinstance(created, dict) and created.get("session", {}).get("id"):
        known["session"] = created["session"]["id"]


async def _done(block: Block, environment: Mapping[str, str], folder: Path) -> None:
    reads = block.language == "bash" and CHANGES.search(block.text) is None
    deadline = time.monotonic() + RUN_S_MAX
    while True:
        wrong = await asyncio.to_thread(_run, block, environment, folder)
        if wrong is None:
            return
        assert reads, wrong
        assert time.monotonic() < deadline, wrong
        await asyncio.sleep(POLL_S)


def _run(block: Block, environment: Mapping[str, str], folder: Path) -> str | None:
    """Run a block; returns the fault of its result."""
    command = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
    outcome = subprocess.run(
        [*command, block.text],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    said = f"{block.text}\n{outcome.stdout}\n{outcome.stderr}"
    if outcome.returncode != 0:
        return f"exit code {outcome.returncode}: {said}"
    if "text" in block.results and not matches(block.results["text"], outcome.stdout):
        return f"shown:\n{block.results['text']}\nreal:\n{said}"
    if "json" in block.results and not matches_json(json.loads(block.results["json"]), json.loads(outcome.stdout)):
        return f"shown:\n{block.results['json']}\nreal:\n{said}"
    return None


async def _hostname(client: Client) -> str:
    edges = (await client.execute("{ agents { edges { node { hostname } } } }"))["agents"]["edges"]
    return str(edges[0]["node"]["hostname"])
