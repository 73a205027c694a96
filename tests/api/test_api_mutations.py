"""Mutations: the values passed to the writer, and expected errors as union members."""

import asyncio
import inspect
from typing import Any

import httpx
import pytest
import strawberry
from graphql import GraphQLUnionType

import api_views as views
from aliquot_schema import errors
from aliquot_schema.graphql.errors import TYPES
from aliquot_schema.graphql.schema import build_schema
from api_server import ApiServer

pytestmark = pytest.mark.anyio

CREATE = """mutation ($input: CreateSessionInput!) { create_session(input: $input) {
  __typename
  ... on CreateSessionSuccess { session { id state command priority slots { slot amount } } revision created }
  ... on Error { code message }
  ... on RequestError { field }
  ... on RefusedError { slot requested available }
  ... on LimitExceeded { limit actual }
  ... on UnknownSlot { known }
} }"""
CANCEL = """mutation ($input: CancelSessionInput!) { cancel_session(input: $input) {
  __typename
  ... on CancelSessionSuccess { session { id state version } revision }
  ... on Error { code message }
  ... on VersionConflict { expected actual }
  ... on StateConflict { state }
  ... on NotFound { kind id }
} }"""
PRIORITY = """mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) {
  __typename
  ... on UpdateSessionPrioritySuccess { session { priority version } revision }
  ... on Error { code message }
} }"""

SLOTS = [{"slot": "cuda.shares", "amount": "0.2"}]
SMALL = {"command": {"argv": ["/bin/true"]}, "slots": SLOTS}

NOT_OF_CREATE = (errors.BookingRefused, errors.NotFound, errors.NotPlaced, errors.StateConflict, errors.VersionConflict)
"""Errors that `create_session` does not declare."""


def example(kind: type[errors.AliquotError]) -> errors.AliquotError:
    """An instance of an error class, with a value for each of its parameters."""
    values: dict[str, Any] = {"message": f"about {kind.__name__}"}
    samples = {int: 2**40, str: "text", "str | None": "field", tuple[str, ...]: ("cpu", "mem")}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            values[name] = 7 if name in ("expected",) else samples.get(parameter.annotation, "field")
            values[name] = 8 if name == "actual" and kind is errors.VersionConflict else values[name]
    return kind(**values)


def every_error() -> list[type[errors.AliquotError]]:
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [kind for kind in found if issubclass(kind, errors.AliquotError) and kind is not errors.AliquotError]


async def test_a_session_is_created_with_every_input_field(server: ApiServer) -> None:
    asked = {
        **SMALL,
        "cluster_size": 2,
        "gpu_memory_gb": "40",
        "environment": [{"name": "A", "value": "1"}],
        "working_directory": "/data",
        "priority": 3,
        "estimated_duration": 60,
        "time_limit": 3600.5,
        "max_retries": 2,
        "preemptible": True,
        "depends_on": [{"session_id": "ses_0"}, {"session_id": "ses_9", "condition": "after_fail"}],
        "name": "train",
        "run_id": "run-7",
        "tags": [{"name": "team", "value": "vision"}],
        "idempotency_key": "k",
    }
    made = (await server.data(CREATE, input=asked))["create_session"]
    assert made["__typename"] == "CreateSessionSuccess"
    assert made["created"] is True
    assert made["revision"] == server.cluster.revision
    assert made["session"]["priority"] == "high"
    [request] = server.writer.requests
    assert request.argv == ("/bin/true",)
    assert request.shell is None
    assert request.slots == (("cuda.shares", "0.2"),)
    assert request.environment == (("A", "1"),)
    assert request.depends_on == (("ses_0", "after_ok"), ("ses_9", "after_fail"))
    assert request.tags == (("team", "vision"),)
    assert (request.cluster_size, request.gpu_memory_gb, request.working_directory) == (2, "40", "/data")
    assert (request.estimated_duration, request.time_limit, request.max_retries) == (60.0, 3600.5, 2)
    assert (request.preemptible, request.name, request.run_id) == (True, "train", "run-7")
    assert (request.priority, request.idempotency_key, dict(request.unsupported)) == ("high", "k", {})


async def test_omitted_session_fields_have_their_defaults(server: ApiServer) -> None:
    await server.data(CREATE, input={"command": {"shell": "nvidia-smi | wc -l"}, "slots": []})
    [request] = server.writer.requests
    assert (request.argv, request.shell) == (None, "nvidia-smi | wc -l")
    assert (request.cluster_size, request.priority, request.max_retries) == (1, "normal", 0)


@pytest.mark.parametrize("command", [{"argv": []}, {"shell": ""}])
async def test_an_empty_command_is_passed_to_the_service(server: ApiServer, command: dict[str, Any]) -> None:
    await server.data(CREATE, input={**SMALL, "command": command})
    [request] = server.writer.requests
    assert (request.argv, request.shell) in [((), None), (None, "")]


@pytest.mark.parametrize(
    "command", [{}, {"argv": ["a"], "shell": "b"}, {"argv": None}, {"shell": None, "argv": ["a"]}, None]
)
async def test_a_command_must_be_either_argv_or_shell(server: ApiServer, command: Any) -> None:
    body = await server.post(CREATE, input={**SMALL, "command": command})
    assert body["errors"]
    assert server.writer.requests == []


@pytest.mark.parametrize("priority", ["HIGH", "high", 3])
async def test_a_priority_is_a_name_or_a_number(server: ApiServer, priority: object) -> None:
    await server.data(CREATE, input={**SMALL, "priority": priority})
    assert server.writer.requests[0].priority == "high"


@pytest.mark.parametrize("priority", ["urgent", "", 0, 5, 2.5, True, None, [3]])
async def test_an_invalid_priority_is_refused_with_a_message(server: ApiServer, priority: object) -> None:
    body = await server.post(CREATE, input={**SMALL, "priority": priority})
    assert "riority" in body["errors"][0]["message"]
    assert server.writer.requests == []


async def test_a_field_that_the_schema_does_not_have_is_an_error(server: ApiServer) -> None:
    body = await server.post(CREATE, input={**SMALL, "array_size": 3})
    assert "array_size" in body["errors"][0]["message"]


@pytest.mark.parametrize("amount", ["NaN", "-1", "1e400", "Infinity", "x" * 1000])
async def test_slot_amounts_reach_the_service_as_written(server: ApiServer, amount: str) -> None:
    await server.data(CREATE, input={**SMALL, "slots": [{"slot": "cpu", "amount": amount}]})
    assert server.writer.requests[0].slots == (("cpu", amount),)


@pytest.mark.parametrize("kind", every_error())
def test_every_error_has_a_type_with_its_fields(kind: type[errors.AliquotError]) -> None:
    error = example(kind)
    schema = build_schema(strawberry.Schema)._schema
    published = schema.type_map[TYPES[kind].__name__]
    assert set(published.fields) == {"code", "message", *vars(error)}  # type: ignore[attr-defined]  # an object type


@pytest.mark.parametrize("kind", every_error())
def test_every_error_that_has_a_type_is_in_a_union(kind: type[errors.AliquotError]) -> None:
    schema = build_schema(strawberry.Schema)._schema
    unions = [type_ for type_ in schema.type_map.values() if isinstance(type_, GraphQLUnionType)]
    assert TYPES[kind].__name__ in {member.name for union in unions for member in union.types}


@pytest.mark.parametrize("kind", every_error())
async def test_an_expected_error_of_create_session_is_a_union_member_or_has_its_code(
    server: ApiServer, kind: type[errors.AliquotError]
) -> None:
    server.writer.refuses = example(kind)
    body = await server.post(CREATE, input=SMALL)
    if kind in NOT_OF_CREATE:
        assert body["errors"][0]["extensions"]["code"] == kind.code
        return
    result = body["data"]["create_session"]
    assert result["__typename"] == kind.__name__
    assert result["code"] == kind.code
    assert result["message"] == f"about {kind.__name__}"
    if kind is errors.LimitExceeded:
        assert result["actual"] == 2**40
    if kind is errors.UnknownSlot:
        assert result["known"] == ["cpu", "mem"]


async def test_a_session_is_canceled_once(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(1)]
    first = (await server.data(CANCEL, input={"id": "ses_1", "expected_version": 1}))["cancel_session"]
    assert first["session"] == {"id": "ses_1", "state": "canceled", "version": 2}
    again = (await server.data(CANCEL, input={"id": "ses_1"}))["cancel_session"]
    assert (again["__typename"], again["state"]) == ("StateConflict", "canceled")
    stale = (await server.data(CANCEL, input={"id": "ses_1", "expected_version": 1}))["cancel_session"]
    assert (stale["__typename"], stale["expected"], stale["actual"]) == ("VersionConflict", 1, 2)
    nobody = (await server.data(CANCEL, input={"id": "ses_7"}))["cancel_session"]
    assert (nobody["__typename"], nobody["kind"], nobody["id"]) == ("NotFound", "session", "ses_7")


async def test_a_priority_is_changed(server: ApiServer) -> None:
    server.cluster.sessions = [views.session(1)]
    result = (await server.data(PRIORITY, input={"id": "ses_1", "priority": "low"}))["update_session_priority"]
    assert result["session"] == {"priority": "low", "version": 2}


async def test_a_mutation_is_completed_when_its_caller_disconnects(server: ApiServer) -> None:
    server.writer.gate = asyncio.Event()
    request = asyncio.create_task(server.http.post("/graphql", json={"query": CREATE, "variables": {"input": SMALL}}))
    await asyncio.wait_for(server.writer.asked.wait(), 30)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    server.writer.gate.set()
    await asyncio.wait_for(server.writer.finished.wait(), 30)
    assert len(server.cluster.sessions) == 1


async def test_concurrent_requests_get_their_own_results(server: ApiServer) -> None:
    async def one(number: int) -> None:
        made = await server.data(CREATE, input={**SMALL, "command": {"argv": [str(number)]}})
        assert made["create_session"]["session"]["command"] == [str(number)]

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(one(number))
    assert len({request_id.request_id for request_id in server.cluster.callers}) == len(server.cluster.callers)


async def test_a_session_is_not_created_without_a_token(server: ApiServer) -> None:
    async with httpx.AsyncClient(base_url=server.http.base_url) as stranger:
        refused = await stranger.post("/graphql", json={"query": CREATE, "variables": {"input": SMALL}})
    assert refused.status_code == 401
    assert server.writer.requests == []
