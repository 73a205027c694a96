"""Outgoing requests of the server: no remote side can redirect them to internal addresses."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from aliquot.api.oidc import jwks
from aliquot.api.oidc.jwks import ANSWER_BYTES_MAX, ProviderKeys, fetched
from aliquot.api.oidc.tokens import Tokens
from aliquot.delivery import http
from aliquot.delivery.http import post
from aliquot.delivery.receivers import WebhookTable
from aliquot.service.alerts.context import NotDelivered
from aliquot_schema.errors import Unauthenticated
from process_attacks import costs_little

pytestmark = pytest.mark.anyio

SECRET = "what only the inside says"


class Inside:
    """A listener that must get no request."""

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
async def test_notices_do_not_follow_redirects_to_internal_addresses(inside: Inside, status: int) -> None:
    async with listener(turning(inside.url, status), inside=Inside()) as url:
        table = WebhookTable(kind="webhook", name="hook", url=f"{url}/a-secret-path")
        with pytest.raises(NotDelivered) as refused:
            await post(table, b"{}", key="dlv_1")
    assert inside.asked == 0
    assert str(refused.value) == f"HTTP status {status}; redirects are not followed"


async def test_errors_do_not_reveal_a_receivers_response_or_url(inside: Inside) -> None:
    said = b"HTTP/1.1 500 No\r\nContent-Length: 25\r\n\r\nwhat only the inside says"
    async with listener(said, inside=Inside()) as url:
        with pytest.raises(NotDelivered) as refused:
            await post(WebhookTable(kind="webhook", name="hook", url=f"{url}/a-secret-path"), b"{}", key="dlv_1")
    assert SECRET not in str(refused.value)
    assert "a-secret-path" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://user:word@127.0.0.1/", "http:///x"]
)
def test_receiver_urls_must_be_http_or_https(url: str) -> None:
    with pytest.raises(ValueError, match=r"http\(s\)://HOST"):
        WebhookTable(kind="webhook", name="hook", url=url)


async def test_a_receiver_url_from_a_file_must_be_http_or_https(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("file:///etc/passwd")
    with pytest.raises(NotDelivered, match="not valid"):
        await post(WebhookTable(kind="webhook", name="hook", url_file=tmp_path / "url"), b"{}", key="dlv_1")


METADATA: Final = ("169.254.169.254", "2852039166", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]")
LINK_LOCAL: Final = "the host of the configured URL has a link-local address"


@pytest.mark.parametrize("host", METADATA)
async def test_notices_to_link_local_addresses_are_refused(host: str) -> None:
    table = WebhookTable(kind="webhook", name="hook", url=f"http://{host}/latest/meta-data/", timeout_s=5)
    with pytest.raises(NotDelivered, match=LINK_LOCAL):
        await post(table, b"{}", key="dlv_1")


async def test_notices_to_host_names_with_link_local_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in ("192.0.2.1", "169.254.169.254")]

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        return found

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    with pytest.raises(NotDelivered, match=LINK_LOCAL):
        await post(WebhookTable(kind="webhook", name="hook", url="http://hook.example.org/"), b"{}", key="dlv_1")


async def test_a_host_name_whose_address_changes_after_its_check_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())
        writer.close()

    answers = iter(["192.0.2.1"])

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers, "127.0.0.1"), port))]

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    monkeypatch.setattr(http, "is_link_local", lambda address: address == "127.0.0.1")
    async with server:
        table = WebhookTable(kind="webhook", name="hook", url=f"http://hook.example.org:{port}/", timeout_s=5)
        with pytest.raises(NotDelivered, match=LINK_LOCAL):
            await post(table, b"{}", key="dlv_1")
    assert received in ([], [b""])


async def test_a_provider_that_answers_without_end_is_cut_off() -> None:
    async def ask(_: int) -> None:
        with pytest.raises(ValueError, match="answers more than"):
            await fetched(f"{url}/keys")

    async with listener(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (ANSWER_BYTES_MAX + 1), inside=Inside()) as url:
        await costs_little(ask)


async def test_a_compressed_provider_response_is_refused() -> None:
    async def ask(_: int) -> None:
        with pytest.raises(ValueError, match="answers compressed"):
            await fetched(f"{url}/keys")

    small = gzip.compress(b" " * 200_000_000)
    async with listener(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + small, inside=Inside()) as url:
        await costs_little(ask)


async def test_a_slow_provider_response_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "ANSWER_S_MAX", 0.3)
    has_gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        has_gone.set()
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(60):
            with pytest.raises(ValueError, match="does not answer"):
                await fetched(f"{url}/keys")
            await has_gone.wait()


async def test_provider_key_requests_do_not_follow_redirects(inside: Inside) -> None:
    async with listener(turning(inside.url, 302), inside=Inside()) as url:
        with pytest.raises(ValueError, match="answers 302"):
            await fetched(f"{url}/.well-known/openid-configuration")
    assert inside.asked == 0


EVE: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OURS: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.mark.parametrize("kid", ["ours", None])
async def test_a_token_cannot_bring_its_own_key(kid: str | None) -> None:
    issuer = "https://issuer.example.org"
    ours, eve = (RSAAlgorithm.to_jwk(one.public_key(), as_dict=True) | {"kid": "ours"} for one in (OURS, EVE))

    async def fetch(address: str) -> bytes:
        found = {"keys": [ours]} if address.endswith("/keys") else {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
        return json.dumps(found).encode()

    tokens = Tokens(ProviderKeys(issuer, fetch=fetch), issuer=issuer, audience="aliquot", leeway_s=0)
    claims = {"iss": issuer, "sub": "eve", "aud": "aliquot", "exp": 2**33}
    head = {"jwk": eve, "x5c": ["MIIB"]} | ({} if kid is None else {"kid": kid})
    with pytest.raises(Unauthenticated, match="not valid"):
        await tokens.claims(jwt.encode(claims, EVE, algorithm="RS256", headers=head))
    assert (await tokens.claims(jwt.encode(claims, OURS, algorithm="RS256", headers={"kid": "ours"})))["sub"] == "eve"
    critical = {"kid": "ours", "crit": ["unknown"], "unknown": True}
    with pytest.raises(Unauthenticated):
        await tokens.claims(jwt.encode(claims, OURS, algorithm="RS256", headers=critical))


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
