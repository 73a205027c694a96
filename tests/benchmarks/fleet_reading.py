"""Cost of reading a large fleet page by page, and of a small change before it reaches the database."""

import sys
import time
from pathlib import Path
from typing import Final

from http_load import Connection, request
from registry import Key, scenario
from served import Serving, served

sys.path.append(str(Path(__file__).parents[1] / "support"))

import api_views as views
from aliquot.api.application import create_app
from aliquot.api.authentication import TokenAuth
from aliquot_schema.ids import UserId
from api_server import TOKEN, Stage, on_stage
from api_service import accounts_of, face_of
from service_bench import agent
from service_stage import stage

AGENTS: Final = 1000
DEVICES: Final = 8
PAGE: Final = 100
ROUNDS: Final = 3
CHANGES: Final = 1000
FLEET: Final = """
query ($after: String) { agents(first: 100, after: $after) { pageInfo { endCursor hasNextPage } edges { node {
  id hostname state schedulable pool gpu_alloc_map
  devices { id name model health isolation memory_bytes capacity used free utilization_pct temperature_c
    holders { user session_id share } } } } } }
"""
PRIORITY: Final = 'mutation { update_session_priority(input: {id: "ses_1", priority: "high"}) { __typename } }'


@scenario(
    Key(name="graphql_paged_1000x8_s", what="1,000 agents x 8 devices, all pages of 100", reach="<= 1"),
    Key(name="graphql_page_100x8_s", what="one of these pages, on average", reach="<= 0.1"),
)
async def fleet_reading() -> dict[str, float]:
    """By the whole service, over joined agents."""
    best, pages = float("inf"), 0
    async with served(fleet) as server, Connection(server.port, TOKEN) as connection:
        for _ in range(ROUNDS):
            began, pages, after = time.perf_counter(), 0, None
            while pages == 0 or after is not None:
                page = (await connection.ask(FLEET, {"after": after}))["agents"]
                assert len(page["edges"]) == PAGE
                after = page["pageInfo"]["endCursor"] if page["pageInfo"]["hasNextPage"] else None
                pages += 1
            best = min(best, time.perf_counter() - began)
    assert pages * PAGE == AGENTS
    return {"graphql_paged_1000x8_s": best, "graphql_page_100x8_s": best / pages}


@scenario(Key(name="mutation_cpu_ms", what="CPU of a small mutation over HTTP, without its commit", reach="<= 0.5"))
async def small_mutation() -> dict[str, float]:
    """The service behind it answers directly."""
    body = request(PRIORITY)
    async with served(changing) as server, Connection(server.port, TOKEN) as connection:
        for _ in range(PAGE):
            answer = await connection.post(body)
            assert b"UpdateSessionPrioritySuccess" in answer, answer
        before = server.cpu_s()
        for _ in range(CHANGES):
            await connection.post(body)
        return {"mutation_cpu_ms": (server.cpu_s() - before) / CHANGES * 1e3}


async def fleet(serve: Serving) -> None:
    """The service over a memory store."""
    async with stage([agent(f"agent-{number}", devices=DEVICES) for number in range(AGENTS)]) as on:
        auth = TokenAuth(TOKEN, UserId("ada"), people=on.state.people)
        await serve(create_app(face_of(on, accounts=accounts_of(on), auth=auth)))


async def changing(serve: Serving) -> None:
    """The HTTP API over a writer without delay."""
    on = Stage()
    async with on_stage(on, 0) as running:
        running.cluster.sessions = [views.session(1)]
        await serve(on)
