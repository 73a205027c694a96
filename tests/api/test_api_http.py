"""GraphQL over HTTP: media types, statuses, methods, parameters, and internal errors."""

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest
from httpx import Response

from aliquot.api import middleware
from api_server import BEARER, ApiServer, api_server

pytestmark = pytest.mark.anyio

RESPONSE = "application/graphql-response+json"
QUERY = '{ agent(agent_id: "agent-1") { id } }'
DATA = {"agent": {"id": "agent-1"}}
CANCEL = 'mutation { cancel_session(input: {id: "ses_1"}) { ... on Error { code } } }'


async def ask(server: ApiServer, body: Any, **headers: str) -> Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return await server.http.post("/graphql", content=content, headers=headers)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        (RESPONSE, RESPONSE),
        (f"{RESPONSE}; charset=utf-8, application/json; charset=utf-8", RESPONSE),
        (f"{RESPONSE};q=0.5, application/json", "application/json"),
        (f"text/html, {RESPONSE};q=0.9, */*;q=0.1", RESPONSE),
        ("APPLICATION/JSON", "application/json"),
    ],
)
async def test_the_response_has_the_media_type_that_the_caller_prefers(
    server: ApiServer, accept: str, media_type: str
) -> None:
    response = await ask(server, {"query": QUERY}, accept=accept)
    assert response.status_code == 200
    assert response.headers["content-type"] == f"{media_type}; charset=utf-8"
    assert response.json()["data"] == DATA


@pytest.mark.parametrize("accept", ["text/html", "application/xml;q=1", "application/json;q=0", "*/*;q=x"])
async def test_a_caller_that_accepts_no_supported_media_type_gets_406(server: ApiServer, accept: str) -> None:
    assert (await ask(server, {"query": QUERY}, accept=accept)).status_code == 406


@pytest.mark.parametrize(
    "body",
    [
        b"5", b"null", b"true", b'"text"', b"[]", b"{", b"", b"\xff", b"{}", b'{"query": null}', b'{"query": {}}',
        b'{"query": ""}', b'{"query": "{a}", "operationName": 1}', b'{"query": "{a}", "operationName": []}',
        b'{"query": "{a}", "variables": 1}', b'{"query": "{a}", "variables": [1]}', 
        b'{"query": "{a}", "variables": "x"}',
        b'{"query": "{a}", "extensions": "x"}', b'{"query": "{a}", "extensions": 0}', b'[{"query": "{a}"}]',
        b"[" * 100_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["application/json", RESPONSE])
async def test_malformed_requests_get_400_with_a_message(server: ApiServer, body: bytes, accept: str) -> None:
    response = await ask(server, body, accept=accept)
    assert response.status_code == 400
    assert response.json()["errors"][0]["message"]
    assert "data" not in response.json()


@pytest.mark.parametrize(
    "body", [{"operationName": None}, {"variables": None}, {"extensions": None}, {"extensions": {}}]
)
async def test_null_request_members_are_ignored(server: ApiServer, body: dict[str, Any]) -> None:
    assert (await ask(server, {"query": QUERY, **body})).json()["data"] == DATA


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data",
                                          "application/json; charset=utf-16"])  # fmt: skip
async def test_form_content_types_are_refused(server: ApiServer, content_type: str) -> None:
    response = await ask(server, {"query": QUERY}, content_type=content_type)
    assert response.status_code == 415


@pytest.mark.parametrize(
    "request_body",
    [
        {"query": "{ agent( }"},
        {"query": "{ nothing }"},
        {"query": "query ($id: String!) { agent(agent_id: $id) { id } }", "variables": {"id": 5}},
        {"query": "query ($id: String!) { agent(agent_id: $id) { id } }"},
    ],
    ids=["syntax", "validation", "coercion", "missing variable"],
)
async def test_a_request_error_has_no_data_and_its_own_status(server: ApiServer, request_body: dict[str, Any]) -> None:
    for accept, status in (("application/json", 200), (RESPONSE, 400)):
        response = await ask(server, request_body, accept=accept)
        assert response.status_code == status
        assert "data" not in response.json()
        assert response.json()["errors"][0]["message"]


async def test_a_missing_operation_gets_400(server: ApiServer) -> None:
    for body in ({"query": QUERY, "operationName": "B"}, {"query": "fragment f on Query { __typename }"}):
        assert (await ask(server, body)).status_code == 400


async def test_a_syntax_error_beside_an_operation_name_is_still_a_syntax_error(server: ApiServer) -> None:
    response = await ask(server, {"query": "query A { agent( }", "operationName": "A"})
    assert "Syntax Error" in response.json()["errors"][0]["message"]


async def test_one_operation_of_several_is_run(server: ApiServer) -> None:
    body = {"query": f"query A {QUERY} query B {{ __typename }}", "operationName": "B"}
    assert (await ask(server, body)).json() == {"data": {"__typename": "Query"}, "extensions": {"cost": 1}}


async def test_a_query_can_be_sent_by_get(server: ApiServer) -> None:
    query = "query ($id: String!) { agent(agent_id: $id) { id } }"
    response = await server.http.get("/graphql", params={"query": query, "variables": '{"id": "agent-1"}'})
    assert response.json()["data"] == DATA
    broken = await server.http.get("/graphql", params={"query": query, "variables": "{"})
    assert broken.status_code == 400
    assert (await server.http.get("/graphql")).status_code == 400


async def test_a_mutation_by_get_is_refused(server: ApiServer) -> None:
    response = await server.http.get("/graphql", params={"query": CANCEL})
    assert response.status_code == 405
    assert "POST" in response.json()["errors"][0]["message"]
    both = f"{CANCEL.replace('mutation', 'mutation M')} query Q {QUERY}"
    named = await server.http.get("/graphql", params={"query": both, "operationName": "M"})
    assert named.status_code == 405


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_other_methods_are_405(server: ApiServer, method: str) -> None:
    response = await server.http.request(method, "/graphql")
    assert response.status_code == 405
    assert {"GET", "POST"} <= {name.strip() for name in response.headers["allow"].split(",")}


async def test_a_subscription_by_plain_post_is_refused_in_words(server: ApiServer) -> None:
    response = await ask(server, {"query": "subscription { queue_updates { event_number } }"})
    assert response.status_code == 400
    assert "WebSocket" in response.json()["errors"][0]["message"]


async def test_a_body_above_the_limit_gets_413() -> None:
    async with api_server(body_bytes=1000) as server:
        response = await ask(server, {"query": QUERY, "extensions": {"x": "y" * 1000}})
        assert response.status_code == 413
        assert "1000 bytes" in response.json()["errors"][0]["message"]


async def test_a_body_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "_LINGER_S", 0.1)
    async with api_server(body_bytes=1000) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = "POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}authorization: {BEARER['authorization']}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(3):
            writer.write(b"190\r\n" + b"x" * 0x190 + b"\r\n")
        async with asyncio.timeout(30):
            answer = await reader.read()  # to EOF: the server closes, though the body has no end
        writer.close()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"1000 bytes" in answer


async def test_a_large_body_below_the_limit_is_read(server: ApiServer) -> None:
    response = await ask(server, {"query": QUERY, "extensions": {"x": "y" * (15 * 1024 * 1024)}})
    assert response.json()["data"] == DATA


async def test_an_internal_error_is_masked_and_logged_with_its_request_id(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.reader.fault = RuntimeError("the password is swordfish")
    response = await ask(server, {"query": QUERY}, accept=RESPONSE)
    assert response.status_code == 200
    assert "swordfish" not in response.text
    [error] = response.json()["errors"]
    assert response.json()["data"] == {"agent": None}
    assert error["path"] == ["agent"]
    assert error["extensions"] == {"code": "internal", "request_id": response.headers["x-request-id"]}
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert response.headers["x-request-id"] in record.getMessage()
    assert record.exc_info is not None
    assert "swordfish" in str(record.exc_info[1])


async def test_errors_of_the_caller_are_not_logged_as_warnings(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    for body in ({"query": "{ nothing }"}, {"query": "{"}, {"query": '{ agents(after: "x") { revision } }'}):
        await ask(server, body)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_request_over_the_time_limit_gets_504() -> None:
    async with api_server(request_s=0.2) as server:
        server.reader.hangs = True
        response = await ask(server, {"query": QUERY})
        assert response.status_code == 504
        assert response.json()["errors"][0]["extensions"]["code"] == "timeout"


async def test_every_request_has_an_id_of_its_own(server: ApiServer) -> None:
    ids = {(await ask(server, {"query": QUERY})).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(request_id.startswith("req_") for request_id in ids)
    assert ids == {caller.request_id for caller in server.cluster.callers}


async def test_large_answers_are_compressed_small_ones_are_not(server: ApiServer) -> None:
    query = "{ agents { edges { node { " + " ".join(f"a{n}: gpu_alloc_map" for n in range(60)) + " } } } }"
    async with server.http.stream(
        "POST", "/graphql", json={"query": query}, headers={"accept-encoding": "gzip"}
    ) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
    assert response.headers["content-encoding"] == "gzip"
    assert "agents" in json.loads(gzip.decompress(raw))["data"]
    assert "content-encoding" not in (await ask(server, {"query": QUERY})).headers


async def test_subscriptions_are_served_as_event_streams(server: ApiServer) -> None:
    query = 'subscription { session_logs(id: "ses_1") { text at_end } }'
    response = await ask(server, {"query": query}, accept="text/event-stream")
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\r\n") for block in response.text.strip().split("\r\n\r\n")]
    assert [lines[0] for lines in events] == ["event: next", "event: next", "event: complete"]
    payloads = [json.loads(lines[1].removeprefix("data: "))["data"] for lines in events[:2]]
    assert [payload["session_logs"]["text"] for payload in payloads] == ["one\n", "two\n"]


async def test_queries_and_their_errors_are_served_as_event_streams(server: ApiServer) -> None:
    response = await ask(server, {"query": QUERY}, accept="text/event-stream")
    assert '"agent-1"' in response.text
    broken = await ask(server, {"query": "{ nothing }"}, accept="text/event-stream")
    assert broken.text.count("event: next") == 1
    assert "nothing" in broken.text
    changed = await server.http.get("/graphql", params={"query": CANCEL}, headers={"accept": "text/event-stream"})
    assert "not allowed" in changed.text


async def test_security_headers_are_on_every_answer(server: ApiServer) -> None:
    for path in ("/", "/graphql", "/healthz", "/nowhere", "/login", "/page.css"):
        headers = (await server.http.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-request-id"].startswith("req_")
