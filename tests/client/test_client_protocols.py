"""The client against every kind of server answer."""

import asyncio
from contextlib import aclosing

import pytest

from aliquot.client import (
    Client,
    ClientFailure,
    GraphQLFault,
    OtherVersion,
    Refused,
    ServerUnreachable,
    SubscriptionClosed,
    UnexpectedAnswer,
)
from aliquot_schema.errors import Unauthenticated
from client_scripted_server import TOKEN

pytestmark = pytest.mark.anyio


async def test_variables_go_there_and_data_comes_back(server_url: str) -> None:
    async with Client(server_url, TOKEN) as client:
        assert await client.execute("echo", {"name": "größe", "count": 2}) == {"name": "größe", "count": 2}


async def test_an_address_may_end_in_a_slash(server_url: str) -> None:
    async with Client(f"{server_url}/", TOKEN) as client:
        assert await client.execute("echo", {"a": 1}) == {"a": 1}
        assert await _numbers(client, "count", to=1) == [0]


async def test_a_fault_has_all_its_errors(server_url: str) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(GraphQLFault, match="broken; twice") as caught:
            await client.execute("fault")
    assert len(caught.value.errors) == 2


@pytest.mark.parametrize("query", ["text", "list"])
async def test_a_response_of_another_kind_of_server_is_unexpected(server_url: str, query: str) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(UnexpectedAnswer):
            await client.execute(query)


async def test_a_proxy_whose_server_is_restarted_is_asked_again() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 7\r\nConnection: close\r\n\r\n<html/>")
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, Client(url, TOKEN) as client:
        for request in (client.execute("echo"), _numbers(client, "count", to=1), client.results("ses_1")):
            with pytest.raises(ServerUnreachable, match="HTTP status 502"):
                await request


async def test_a_successful_change_returns_its_result(server_url: str) -> None:
    async with Client(server_url, TOKEN) as client:
        assert (await client.change("success"))["revision"] == 5


async def test_a_refused_change_raises_an_error_with_the_reason(server_url: str) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(Refused) as caught:
            await client.change("refusal")
    refused = caught.value
    assert (refused.kind, refused.code, refused.answer["slot"]) == ("UnknownSlot", "unknown_slot", "x")


async def test_a_wrong_token_is_unauthenticated(server_url: str) -> None:
    async with Client(server_url, "guessed") as client:
        with pytest.raises(Unauthenticated):
            await client.execute("echo")
        with pytest.raises(Unauthenticated):
            await _numbers(client, "count", to=1)


async def test_a_refused_connection_is_reported_as_unreachable(unused_port: int) -> None:
    async with Client(f"http://127.0.0.1:{unused_port}", TOKEN) as client:
        with pytest.raises(ServerUnreachable):
            await client.execute("echo")
        with pytest.raises(ServerUnreachable):
            await _numbers(client, "count", to=1)


@pytest.mark.parametrize("query", ["count", "ping"])
async def test_a_subscription_ends_when_it_is_complete(server_url: str, query: str) -> None:
    async with Client(server_url, TOKEN) as client:
        assert await _numbers(client, query, to=3) == [0, 1, 2]


async def test_a_subscription_can_be_left_early(server_url: str) -> None:
    async with (
        Client(server_url, TOKEN) as client,
        aclosing(client.subscribe("count", {"to": 1000})) as items,
    ):
        assert await anext(items) == {"number": 0}


@pytest.mark.parametrize("query", ["refuse", "fault"])
async def test_a_subscription_may_have_errors(server_url: str, query: str) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(GraphQLFault):
            await _numbers(client, query, to=1)


@pytest.mark.parametrize(("query", "code"), [("too_slow", 4008), ("leave", 1001)])
async def test_a_closed_subscription_has_the_close_code(server_url: str, query: str, code: int) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(SubscriptionClosed) as caught:
            await _numbers(client, query, to=1)
    assert caught.value.code == code


async def test_a_subscription_whose_key_has_ended_says_so(server_url: str) -> None:
    async with Client(server_url, TOKEN) as client:
        with pytest.raises(Unauthenticated, match="the key was revoked or has expired, or its user is disabled"):
            await _numbers(client, "end_key", to=1)


@pytest.mark.parametrize(
    "message", ["Cannot query field 'work' on type 'Session'.", "The operation has a cost of 9; at most 8 is taken."]
)
async def test_an_unknown_request_is_reported_as_a_version_mismatch(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_: object) -> dict[str, object]:
        raise GraphQLFault([{"message": message}] * 2)

    client = Client("http://127.0.0.1:9", TOKEN)
    monkeypatch.setattr(client, "execute", unknown)
    with pytest.raises(OtherVersion, match=r"^the server has another version of Aliquot .* upgrade the older side"):
        await client.agents()


def test_every_failure_is_a_client_failure() -> None:
    kinds = (GraphQLFault, Refused, ServerUnreachable, SubscriptionClosed, UnexpectedAnswer)
    assert all(issubclass(kind, ClientFailure) for kind in kinds)


async def _numbers(client: Client, query: str, *, to: int) -> list[int]:
    async with aclosing(client.subscribe(query, {"to": to})) as items:
        return [data["number"] async for data in items]
