"""Runs the blocks of each page against a server; a block that is not run says why."""

import asyncio
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from graphql import GraphQLSchema, build_schema, parse, validate

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from aliquot_schema.graphql.schema import schema_text
from docs_blocks import FILES, RESULTS, RUN, blocks, is_for_two_gpus, matches
from docs_commands import unknown_words
from docs_running import POLL_S, RUN_S_MAX, TWO_GPUS, ask, run_page, two_gpu_server
from docs_tree import DOCS, pages

pytestmark = pytest.mark.anyio

INLINE = re.compile(r"`(aliquot [a-z][^`\n]*)`")
STRAY_MAX = 39
"""Blocks of all pages that are not run; a page that adds one needs a strong reason."""
RUN_ELSEWHERE = frozenset({"installation.md"})
"""Pages run by a separate test."""

STATES = "queued, held, scheduled, allocating, running, preempting"
LEFT = f"""{{
  cluster {{ allocated_gpus }}
  sessions(first: 100, filter: {{states: [{STATES}]}}) {{ edges {{ node {{ id }} }} }}
}}"""
CANCEL = "mutation ($id: ID!) { cancel_session(input: {id: $id}) { __typename } }"


def _runs(page: Path) -> bool:
    return any(block.why_not is None and block.language in RUN and not block.label for block in blocks(page))


RUNNING = [page for page in pages() if _runs(page)]


@pytest.mark.parametrize("page", [page for page in RUNNING if not is_for_two_gpus(page)], ids=lambda page: page.stem)
async def test_the_code_blocks_of_a_page_print_what_is_shown(page: Path, demo: OwnServer, tmp_path: Path) -> None:
    await run_page(page, server=demo, folder=tmp_path)
    async with demo.client() as client:
        await _cleared(client)


@pytest.mark.parametrize("page", [page for page in RUNNING if is_for_two_gpus(page)], ids=lambda page: page.stem)
async def test_the_code_blocks_of_a_page_print_what_is_shown_on_two_gpus(
    page: Path, two_gpus: OwnServer, tmp_path: Path
) -> None:
    ran = await run_page(page, server=two_gpus, folder=tmp_path)
    assert ran["graphql"]


async def test_queries_on_a_divided_node_return_what_is_shown(tmp_path: Path) -> None:
    asked = [(page, block) for page in pages() for block in blocks(page) if block.language == "graphql" and block.label]
    assert asked
    for page, block in asked:
        (text,) = (one.text for one in blocks(page) if one.file == block.label)
        config = tmp_path / block.label
        config.write_text(text, encoding="utf-8")
        async with (
            two_gpu_server({"ALIQUOT_CONFIG": str(config)}) as server,
            server.client() as client,
        ):
            await ask(client, block, {})


def test_the_mock_gpus_that_are_shown_are_those_of_the_tests() -> None:
    shown = [tomllib.loads(block.text) for page in pages() for block in blocks(page) if block.file == TWO_GPUS.name]
    assert shown == [tomllib.loads(TWO_GPUS.read_text(encoding="utf-8"))]


def test_every_part_of_the_graphql_tutorial_is_run() -> None:
    tutorial = [block for block in blocks(DOCS / "using" / "graphql-tutorial.md") if block.file is None]
    assert {block.language for block in tutorial} == {"bash", "graphql"}
    assert [block.text.split()[0] for block in tutorial if block.language == "graphql"].count("subscription") == 1
    assert "ImpossibleRequest" in "".join(block.text for block in tutorial)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    found = {block.text: unknown_words(block.text) for block in blocks(page) if block.language in {"bash", "ini"}}
    assert {text: unknown for text, unknown in found.items() if unknown} == {}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_inline_commands_exist_and_all_queries_are_valid(page: Path) -> None:
    inline = INLINE.findall(page.read_text(encoding="utf-8"))
    assert {words: unknown for words in inline if (unknown := unknown_words(words))} == {}
    queries = [block.text for block in blocks(page) if block.language == "graphql"]
    assert [validate(_schema(), parse(query)) for query in queries] == [[]] * len(queries)


def test_code_blocks_that_are_not_run_give_a_reason_and_are_few() -> None:
    every = [(page, block) for page in pages() for block in blocks(page)]
    strange = {block.language for _, block in every} - RUN - RESULTS - FILES - {"toctree"}
    assert strange == set()
    stray = [block for page, block in every if block.why_not is not None and page.name not in RUN_ELSEWHERE]
    assert 0 < len(stray) <= STRAY_MAX
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
def test_shown_output_is_compared_with_printed_output(shown: str, real: str, expected: bool) -> None:
    assert matches(shown, real) is expected


def test_commands_that_do_not_exist_are_found() -> None:
    assert unknown_words("sudo aliquot sessions list") == ["sessions"]
    assert unknown_words("aliquot session list --al | head") == ["--al"]
    assert unknown_words("aliquot session create -r cpu=1 --name x -- python --al") == []


def test_the_index_is_among_the_documentation_pages() -> None:
    assert DOCS / "index.md" in pages()


@cache
def _schema() -> GraphQLSchema:
    return build_schema(schema_text())


async def _cleared(client: Client) -> None:
    """Leave the next page a cluster without running or waiting sessions."""
    async with asyncio.timeout(RUN_S_MAX):
        while True:
            found = await client.execute(LEFT)
            left = [edge["node"]["id"] for edge in found["sessions"]["edges"]]
            if not left and not found["cluster"]["allocated_gpus"]:
                return
            for id in left:
                await client.execute(CANCEL, {"id": id})
            await asyncio.sleep(POLL_S)
