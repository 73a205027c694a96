"""Requests that the server sends: nobody on the other side can turn them to an address of the inside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jwt
import pytest

from aliquot.api.oidc.jwks import ProviderKeys, fetched
from aliquot.api.oidc.tokens import Tokens
from aliquot.delivery.http import post
from aliquot.delivery.receivers import WebhookTable
from aliquot.service.alerts.context import NotDelivered
from aliquot_schema.errors import Unauthenticated

pytestmark = pytest.mark.anyio

SECRET = "what only the inside says"


class Inside:
    """A listener that must never be asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.url = ""


@asynccontextmanager
async def listener(answer: bytes, *, inside: Inside) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside.asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
async def inside() -> AsyncIterator[Inside]:
    found = Inside()
    body = f"HTTP/1.1 200 OK\r\nContent-Length: {len(SECRET)}\r\n\r\n{SECRET}"
    async with listener(body.encode(), inside=found) as url:
        found.url = url
        yield found


def turning(to: str, status: int) -> bytes:
    return f"HTTP/1.1 {status} Found\r\nLocation: {to}/latest\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_receiver_cannot_turn_a_notice_to_an_address_of_the_inside(inside: Inside, status: int) -> None:
    async with listener(turning(inside.url, status), inside=Inside()) as url:
        table = WebhookTable(kind="webhook", name="hook", url=f"{url}/a-secret-path")
        with pytest.raises(NotDelivered) as refused:
            await post(table, b"{}", key="dlv_1")
    assert inside.asked == 0
    assert str(refused.value) == f"HTTP status {status}; redirects are not followed"


async def test_what_a_receiver_answers_is_told_to_nobody(inside: Inside) -> None:
    said = b"HTTP/1.1 500 No\r\nContent-Length: 25\r\n\r\nwhat only the inside says"
    async with listener(said, inside=Inside()) as url:
        with pytest.raises(NotDelivered) as refused:
            await post(WebhookTable(kind="webhook", name="hook", url=f"{url}/a-secret-path"), b"{}", key="dlv_1")
    assert SECRET not in str(refused.value)
    assert "a-secret-path" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://user:word@127.0.0.1/", "http:///x"]
)
def test_a_receiver_is_reached_by_http_alone(url: str) -> None:
    with pytest.raises(ValueError, match=r"http\(s\)://HOST"):
        WebhookTable(kind="webhook", name="hook", url=url)


async def test_a_provider_cannot_turn_the_request_for_its_keys(inside: Inside) -> None:
    async with listener(turning(inside.url, 302), inside=Inside()) as url:
        with pytest.raises(ValueError, match="answers 302"):
            await fetched(f"{url}/.well-known/openid-configuration")
    assert inside.asked == 0


@pytest.mark.parametrize("header", ["jku", "x5u", "kid"])
async def test_a_token_cannot_name_where_its_key_is_fetched(inside: Inside, header: str) -> None:
    issuer, asked = "https://issuer.example.org", list[str]()

    async def fetch(address: str) -> bytes:
        asked.append(address)
        return b"{}"

    tokens = Tokens(ProviderKeys(issuer, fetch=fetch), issuer=issuer, audience="aliquot", leeway_s=0)
    claims = {"iss": issuer, "sub": "eve", "aud": "aliquot"}
    token = jwt.encode(claims, "a-secret-of-eve-that-is-long-enough", algorithm="HS256", headers={header: inside.url})
    with pytest.raises(Unauthenticated):
        await tokens.claims(token)
    assert inside.asked == 0
    assert all(address.startswith(issuer) for address in asked)
