"""What the pages show is run, page by page, against one server; what is not run says why."""

import asyncio
import json
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLSchema, build_schema, parse, validate

from aliquot.cli.main_job.own_server import OwnServer
from aliquot.client import Client
from aliquot_schema.graphql.sdl import schema_text
from docs_blocks import FILES, RESULTS, RUN, Block, blocks, matches
from docs_commands import unknown_words
from docs_tree import DOCS, pages
from readme_blocks import matches as matches_json

pytestmark = pytest.mark.anyio

INLINE = re.compile(r"`(aliquot [a-z][^`\n]*)`")
RUN_S_MAX = 60.0
CHANGES = re.compile(
    r"session (create|cancel|hold|release|retry)|(user|clusters) (add|set)|quota (set|remove)|"
    r"key new|secret set|gpu-allocate"
)
"""A block without any of these only looks, and is run again until what is shown is there."""
POLL_S = 0.1
STRAY_MAX = 25
"""Blocks of all pages that are not run; a page that adds one needs a better reason than that it is easier."""

STATES = "queued, held, scheduled, allocating, running, preempting"
LEFT = f"""{{
  cluster {{ allocated_gpus }}
  sessions(first: 100, filter: {{states: [{STATES}]}}) {{ edges {{ node {{ id }} }} }}
}}"""
CANCEL = "mutation ($id: ID!) { cancel_session(input: {id: $id}) { __typename } }"


def _runs(page: Path) -> bool:
    return any(block.why_not is None and block.language in RUN for block in blocks(page))


@pytest.mark.parametrize("page", [page for page in pages() if _runs(page)], ids=lambda page: page.stem)
async def test_the_blocks_of_a_page_do_what_is_shown(
    page: Path, demo: OwnServer, shell_environment: dict[str, str], tmp_path: Path
) -> None:
    async with demo.client() as client:
        for block in blocks(page):
            if block.file is not None:
                (tmp_path / block.file).write_text(block.text, encoding="utf-8")
            elif block.why_not is None and block.language == "graphql":
                await _ask(client, block)
            elif block.why_not is None and block.language in RUN:
                await _done(block, shell_environment, tmp_path)
        await _cleared(client)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    found = {block.text: unknown_words(block.text) for block in blocks(page) if block.language in {"bash", "ini"}}
    assert {text: unknown for text, unknown in found.items() if unknown} == {}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_commands_in_the_text_and_queries_that_are_not_run_exist_too(page: Path) -> None:
    inline = INLINE.findall(page.read_text(encoding="utf-8"))
    assert {words: unknown for words in inline if (unknown := unknown_words(words))} == {}
    queries = [block.text for block in blocks(page) if block.language == "graphql"]
    assert [validate(_schema(), parse(query)) for query in queries] == [[]] * len(queries)


def test_what_is_not_run_says_why_and_is_little() -> None:
    every = [(page, block) for page in pages() for block in blocks(page)]
    strange = {block.language for _, block in every} - RUN - RESULTS - FILES - {"toctree"}
    assert strange == set()
    assert 0 < len([block for _, block in every if block.why_not is not None]) <= STRAY_MAX
    assert [f"{page.name}: {block.why_not}" for page, block in every if len(block.why_not or "because") < 7] == []


@pytest.mark.parametrize(
    ("shown", "real", "expected"),
    [
        ("a ... c", "a b c\n", True),
        ("a ... c", "a b d\n", False),
        ("a\n...\nc", "a\nb\nb\nc\n", True),
        ("a\n...\nc", "a\nb\n", False),
        ("a  b", "a b   \n", True),
        ("a ... b", "a b\n", True),
        ("a ...", "a\n", True),
        ("a ...", "ab\n", False),
        ("", "a\n", False),
    ],
)
def test_shown_and_printed_are_compared(shown: str, real: str, expected: bool) -> None:
    assert matches(shown, real) is expected


def test_commands_that_do_not_exist_are_found() -> None:
    assert unknown_words("sudo aliquot sessions list") == ["sessions"]
    assert unknown_words("aliquot session list --al | head") == ["--al"]
    assert unknown_words("aliquot session create -r cpu=1 --name x -- python --al") == []


def test_the_pages_are_there() -> None:
    assert DOCS / "index.md" in pages()


@cache
def _schema() -> GraphQLSchema:
    return build_schema(schema_text())


async def _done(block: Block, environment: dict[str, str], folder: Path) -> None:
    looks = block.language == "bash" and CHANGES.search(block.text) is None
    deadline = time.monotonic() + RUN_S_MAX
    while True:
        wrong = await asyncio.to_thread(_run, block, environment, folder)
        if wrong is None:
            return
        assert looks, wrong
        assert time.monotonic() < deadline, wrong
        await asyncio.sleep(POLL_S)


def _run(block: Block, environment: dict[str, str], folder: Path) -> str | None:
    """Run a block; what is wrong about what came of it."""
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
    return None


async def _ask(client: Client, block: Block) -> None:
    """Ask until the answer is the one that is shown; a mutation once."""
    shown = json.loads(block.results["json"])
    variables = json.loads(block.results.get("json variables", "{}"))
    answer: Any = None
    try:
        async with asyncio.timeout(RUN_S_MAX):
            while not matches_json(shown, answer):
                answer = await client.execute(block.text, variables)
                if block.text.startswith("mutation"):
                    break
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    assert matches_json(shown, answer), f"{block.text}\nshown: {json.dumps(shown)}\nreal:  {json.dumps(answer)}"


async def _cleared(client: Client) -> None:
    """Leave the next page a cluster on which nothing runs and nothing waits."""
    async with asyncio.timeout(RUN_S_MAX):
        while True:
            found = await client.execute(LEFT)
            left = [edge["node"]["id"] for edge in found["sessions"]["edges"]]
            if not left and not found["cluster"]["allocated_gpus"]:
                return
            for id in left:
                await client.execute(CANCEL, {"id": id})
            await asyncio.sleep(POLL_S)
