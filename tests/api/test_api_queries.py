"""Queries: every field of every read model, lists and their pages."""

import json
from typing import Any

import pytest
import strawberry
from graphql import GraphQLObjectType, get_named_type
from msgspec.structs import fields

import api_views as views
from aliquot_schema.graphql.schema import build_schema
from aliquot_schema.requests import SessionChanged
from aliquot_schema.states import SessionState
from aliquot_schema.views import agents as agent_models
from aliquot_schema.views import sessions as read_models
from aliquot_schema.views.preview import DisplacedView, PlannedKernelView, SessionPreview
from api_server import ApiServer, receive, sign_in, subscribe

pytestmark = pytest.mark.anyio

SCHEMA = build_schema(strawberry.Schema)._schema


def whole(type_name: str) -> str:
    """A selection of every field of a type; types form no cycle."""
    type_ = SCHEMA.type_map[type_name]
    assert isinstance(type_, GraphQLObjectType)
    parts = []
    for name, field in type_.fields.items():
        below = get_named_type(field.type)
        parts.append(f"{name} {whole(below.name)}" if isinstance(below, GraphQLObjectType) else name)
    return f"{{ {' '.join(parts)} }}"


ELSEWHERE = {"Kernel": {"host_use"}, "Session": {"kept", "kept_at_start"}}
"""Fields shown in other types: `SessionStats.hosts` and `SavedWork`; `SessionStats.ettr` is based on them."""


@pytest.mark.parametrize(
    ("type_name", "view"),
    [
        (view.__name__.removesuffix("View"), view)
        for view in (vars(read_models) | vars(agent_models)).values()
        if isinstance(view, type) and view.__name__.endswith("View")
    ]
    + [("CreateSessionSuccess", SessionChanged)]
    + [("SessionPreview", SessionPreview), ("PlannedKernel", PlannedKernelView), ("Displaced", DisplacedView)],
)
def test_the_schema_publishes_every_field_of_every_read_model(type_name: str, view: Any) -> None:
    type_ = SCHEMA.type_map[type_name]
    assert isinstance(type_, GraphQLObjectType)
    derived = {name for name, value in vars(view).items() if isinstance(value, property)}
    shown = {field.name for field in fields(view)} | derived
    assert set(type_.fields) == shown - ELSEWHERE.get(type_name, set())


def test_every_schema_type_and_field_has_a_description() -> None:
    named = [type_ for name, type_ in SCHEMA.type_map.items() if not name.startswith("__")]
    assert [type_.name for type_ in named if not type_.description] == []
    assert [
        f"{type_.name}.{name}"
        for type_ in named
        for name, field in getattr(type_, "fields", {}).items()
        if not field.description
    ] == []


async def test_an_agent_query_returns_every_field(server: ApiServer) -> None:
    data = await server.data(f"query ($id: String!) {{ agent(agent_id: $id) {whole('Agent')} }}", id="agent-1")
    agent = data["agent"]
    assert json.loads(agent["gpu_alloc_map"]) == {"GPU-0": "0.50", "GPU-1": "0.00"}
    assert agent["allocation_mode"] == "auto_split"
    assert agent["registered_at"] == views.MOMENT_TEXT
    assert agent["devices"][0]["memory_bytes"] == views.MEMORY_BYTES > 2**32
    assert agent["devices"][0]["holders"][0]["share"] == "0.50"
    assert agent["kernels"][0]["resource_spec"] == [
        {"slot": "cuda.shares", "devices": [{"device_id": "GPU-0", "amount": "0.50"}]}
    ]


async def test_a_session_query_returns_every_field(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(1), views.failed(2)]
    data = await server.data(
        f'{{ a: session(id: "ses_1") {whole("Session")} b: session(id: "ses_2") {{ failure {{ code }} }} }}'
    )
    assert data["a"]["priority"] == "high"
    assert data["a"]["waits"]["reason"] == "insufficient"
    assert data["a"]["depends_on"] == [{"session_id": "ses_0", "condition": "after_ok", "state": "completed"}]
    assert data["b"] == {"failure": {"code": "exit_code"}}


async def test_an_unknown_agent_or_session_is_null(server: ApiServer) -> None:
    data = await server.data('{ agent(agent_id: "x") { id } session(id: "x") { id } }')
    assert data == {"agent": None, "session": None}


async def test_pages_together_give_the_whole_list(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(number) for number in range(1, 8)]
    query = """query ($after: String) { sessions(first: 3, after: $after, order: oldest) {
        edges { cursor node { id } } total_count revision
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""
    after, seen, pages = None, [], []
    while True:
        page = (await server.data(query, after=after))["sessions"]
        seen += [edge["node"]["id"] for edge in page["edges"]]
        pages.append(page)
        after = page["pageInfo"]["endCursor"]
        assert after == page["edges"][-1]["cursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert seen == [f"ses_{number}" for number in range(1, 8)]
    assert [page["pageInfo"]["hasPreviousPage"] for page in pages] == [False, True, True]
    assert {page["total_count"] for page in pages} == {7}
    assert {page["revision"] for page in pages} == {41}


async def test_an_empty_page_has_no_cursors(server: ApiServer) -> None:
    data = await server.data(
        "{ queue { edges { cursor } pageInfo { startCursor endCursor hasNextPage } total_count } }"
    )
    assert data["queue"] == {
        "edges": [],
        "pageInfo": {"startCursor": None, "endCursor": None, "hasNextPage": False},
        "total_count": 0,
    }


async def test_filters_and_orders_reach_the_reader(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(1), views.session(2, SessionState.RUNNING), views.session(3)]
    data = await server.data(
        """{ newest: sessions(filter: {states: [queued]}) { edges { node { id } } }
             lost: agents(filter: {states: [lost]}) { total_count }
             one: agents(filter: {ids: ["agent-2"]}, order: hostname) { edges { node { id } } }
             queue { edges { node { position session { id } } } } }"""
    )
    assert [edge["node"]["id"] for edge in data["newest"]["edges"]] == ["ses_3", "ses_1"]
    assert data["lost"]["total_count"] == 0
    assert data["one"]["edges"] == [{"node": {"id": "agent-2"}}]
    assert [edge["node"]["position"] for edge in data["queue"]["edges"]] == [1, 2]


@pytest.mark.parametrize("cursor", ["", "tampered", "c2VzXzk5", "\x00", "x" * 5000])
async def test_an_invalid_cursor_is_refused_with_a_message(server: ApiServer, cursor: str) -> None:
    server.cluster.sessions = [views.session(1)]
    body = await server.post("query ($after: String) { sessions(after: $after) { total_count } }", after=cursor)
    assert body["data"] is None
    [error] = body["errors"]
    assert error["extensions"] == {"code": "invalid_request", "field": "after"}
    assert "cursor" in error["message"]


@pytest.mark.parametrize("first", [-1, 0, 101, 2**31 - 1])
async def test_a_page_has_1_to_100_items(server: ApiServer, first: int) -> None:
    body = await server.post("query ($first: Int!) { agents(first: $first) { total_count } }", first=first)
    assert body["errors"][0]["extensions"] == {"code": "invalid_request", "field": "first"}


async def test_a_query_for_a_future_revision_is_unavailable(server: ApiServer) -> None:
    data = await server.data("{ agents(min_revision: 41) { revision } }")
    assert data["agents"]["revision"] == 41
    body = await server.post('{ agents(min_revision: "42") { revision } }')
    assert body["errors"][0]["extensions"]["code"] == "unavailable"


@pytest.mark.parametrize("number", ["1.5", "true", "9223372036854775808", '"x"', '""', '"-"'])
async def test_a_big_int_is_a_whole_number_of_64_bits(server: ApiServer, number: str) -> None:
    body = await server.post(f"{{ agents(min_revision: {number}) {{ revision }} }}")
    assert "BigInt takes an integer of up to 64 bits" in body["errors"][0]["message"]


async def test_a_response_contains_its_cost(server: ApiServer) -> None:
    body = await server.post('{ agent(agent_id: "agent-1") { id devices { id } } }')
    assert body["extensions"] == {"cost": 4}


async def test_introspection_returns_the_whole_schema(server: ApiServer) -> None:
    from graphql import build_client_schema, get_introspection_query, print_schema

    data = await server.data(get_introspection_query())
    assert "create_session" in print_schema(build_client_schema(data))  # type: ignore[arg-type]  # JSON


@pytest.mark.parametrize(
    "text",
    [
        "{ agents",
        "{ nope }",
        "{ agents { nope } queue }",
        '{ agents(first: "x") { total_count } }',
        "query ($n: Int!) { agents(first: $n) { total_count } }",
        "query ($n: Missing) { agents(first: $n) { total_count } }",
    ],
)
async def test_a_request_that_does_not_fit_the_schema_has_a_code_over_http_and_websockets(
    server: ApiServer, text: str
) -> None:
    body = await server.post(text)
    assert {error["extensions"]["code"] for error in body["errors"]} == {"bad_request"}
    assert body["errors"][0]["locations"]
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, text)
        payload = (await receive(socket))["payload"]
        errors = payload if isinstance(payload, list) else payload["errors"]
        assert errors == body["errors"]
