"""TLS between an agent and its server: errors for a wrong certificate, and renewal."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aliquot.cli.listener import Certificate
from aliquot.errors import ConfigurationError
from aliquot.execution.remote.checks import check_server
from aliquot.execution.remote.dialing import Unreachable, dialled, server_address
from remote_in_memory import AGENT, KEY
from remote_tls import Authority, shown

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """A server that accepts connections and answers with a 404."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read(1)
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def dialling(url: str, *, ca_file: Path | None) -> str:
    """The connection error."""
    with pytest.raises(Unreachable) as failed:
        async with dialled(server_address(url, ca_file=ca_file), agent_id=AGENT, key=KEY):
            pytest.fail("it is no server")
    return str(failed.value)


@pytest.mark.parametrize(
    ("names", "expired", "trusted", "words"),
    [
        ("localhost", False, "ca", "answers 404: agents cannot connect there"),
        ("localhost", False, "other", "other.pem, nor signed by one that is; if it was renewed, copy"),
        ("localhost", False, None, "authority that is not trusted here; pass the authority with --ca-file"),
        ("localhost", True, "ca", "has expired; renew it"),
        ("gpu01.example.org", False, "ca", "is for another name; use that name in the address"),
    ],
)
async def test_an_invalid_server_certificate_is_reported_with_the_reason(
    tmp_path: Path, names: str, expired: bool, trusted: str | None, words: str
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, name="other")
    files = authority.issue(names, expired=expired)
    ca_file = {None: None, "ca": authority.file, "other": other.file}[trusted]
    async with listening(Certificate(files.certificate, files.key).context) as port:
        assert words in await dialling(f"https://localhost:{port}", ca_file=ca_file)


@pytest.mark.parametrize(("days", "grade", "words"), [(30, "ok", "valid certificate"), (10, "warn", "expires on 2")])
@pytest.mark.parametrize("anyio_backend", ["asyncio", ("asyncio", {"use_uvloop": True})])
async def test_a_check_of_the_server_warns_of_a_certificate_that_expires_soon(
    tmp_path: Path, days: int, grade: str, words: str
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("localhost", ends=datetime(2029, 12, 31, tzinfo=UTC))
    now = datetime(2029, 12, 31, tzinfo=UTC) - timedelta(days=days)
    async with listening(Certificate(files.certificate, files.key).context) as port:
        reached, _ = await check_server(
            f"https://localhost:{port}",
            key_file=None,
            ca_file=authority.file,
            agent_id=AGENT,
            now_us=lambda: round(now.timestamp() * 1e6),
        )
    assert reached.grade == grade
    assert words in reached.seen


async def test_an_authority_file_that_was_replaced_is_read_for_the_next_connection(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, name="other")
    files = authority.issue("localhost")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(other.file.read_bytes())
    async with listening(Certificate(files.certificate, files.key).context) as port:
        address = server_address(f"https://localhost:{port}", ca_file=trusted)

        async def fault() -> str:
            with pytest.raises(Unreachable) as failed:
                async with dialled(address, agent_id=AGENT, key=KEY):
                    pytest.fail("it is no server")
            return str(failed.value)

        assert f"its certificate is not in {trusted}" in await fault()
        trusted.write_text("")
        assert f"ca-file: {trusted} cannot be used" in await fault()
        trusted.write_bytes(authority.file.read_bytes())
        assert "answers 404" in await fault()


async def test_a_certificate_for_another_address_is_reported(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("localhost")
    async with listening(Certificate(files.certificate, files.key).context) as port:
        words = await dialling(f"https://127.0.0.1:{port}", ca_file=authority.file)
        assert "is for another address; use the name or address of the certificate" in words


async def test_a_wrong_url_scheme_is_reported_with_the_right_one(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("localhost")
    async with listening(Certificate(files.certificate, files.key).context) as port:
        assert "if it uses TLS, use https://" in await dialling(f"http://localhost:{port}", ca_file=None)
    async with listening(None) as port:
        assert "does not use TLS; use http://" in await dialling(f"https://localhost:{port}", ca_file=None)
    assert "connection refused" in await dialling(f"http://localhost:{port}", ca_file=None)


async def test_a_renewed_certificate_is_used_and_a_mismatched_key_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("localhost")
    certificate = Certificate(files.certificate, files.key)
    async with listening(certificate.context) as port:
        first = await shown(port, authority)
        assert not certificate.renew()
        authority.issue("localhost")
        assert certificate.renew()
        second = await shown(port, authority)
        assert first != second
        files.key.write_bytes(authority.issue("localhost", to="elsewhere").key.read_bytes())
        assert not certificate.renew()
        assert await shown(port, authority) == second
        files.certificate.unlink()
        assert not certificate.renew()
        assert await shown(port, authority) == second
        authority.issue("localhost")
        assert certificate.renew()


async def test_certificate_and_key_files_that_do_not_match_are_refused_by_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, other = authority.issue("localhost"), authority.issue("localhost", to="other")
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(ConfigurationError, match=re.escape(f"tls-key: {nothing} cannot be read")):
        Certificate(files.certificate, nothing)
    with pytest.raises(ConfigurationError, match="and its key, without a passphrase"):
        Certificate(files.certificate, other.key)
    nothing.write_text("no certificate")
    with pytest.raises(ConfigurationError, match="tls-certificate"):
        Certificate(nothing, files.key)
