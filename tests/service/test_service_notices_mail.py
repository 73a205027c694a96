"""Couriers, against real servers: mail over STARTTLS, TLS and in the clear, webhooks that fail, hang and redirect."""

import asyncio
import dataclasses
import json
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.delivery.http import connection_failure, post, tls_context
from aliquot.delivery.receivers import EmailTable, SlackTable, WebhookTable
from aliquot.delivery.smtp import Mail
from aliquot.delivery.webhook import Slack, Webhook
from aliquot.service.alerts.context import NotDelivered
from aliquot.service.alerts.message_texts import Message
from aliquot_schema.alerts import Delivery, NoticeKind, Severity
from aliquot_schema.ids import UserId
from notices_mail import PASSWORD, USER, mail_server, text_of
from notices_receivers import HANG, http_receiver
from remote_tls import Authority, Files

pytestmark = pytest.mark.anyio

NOW_US = 1_790_000_000_000_000
ONE = Delivery(
    id="dlv_1",
    receiver="x",
    kind=NoticeKind.SESSION_FAILED,
    severity=Severity.WARNING,
    subject="ses_1",
    words="<!channel> größer & train (ses_1) has failed",
    notice_id="event:5",
    made_us=NOW_US,
    next_us=NOW_US,
)
LETTER = Message(key="dlv_1", user=None, email=None, notices=(ONE,), details=("line one\nline two",))
FOR_ANN = replace(LETTER, user=UserId("ann"), email="ann@example.org")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notices")


def email(port: int, **more: Any) -> Mail:
    usual = {"name": "x", "kind": "email", "host": "localhost", "port": port, "sender": "aliquot@example.org"}
    return Mail(EmailTable(**({**usual, "to": ("ops@example.org",), "security": "none"} | more)))


def context(files: Files) -> ssl.SSLContext:
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(files.certificate, files.key)
    return found


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mail_goes_encrypted_with_a_password(folder: Path, security: str) -> None:
    authority = Authority(folder)
    tls = context(authority.issue("localhost"))
    (folder / "password").write_text(f"{PASSWORD}\n")
    how = {"starttls": tls} if security == "starttls" else {"tls": tls}
    more = {"user": USER, "password_file": folder / "password", "ca_file": authority.file, "security": security}
    async with mail_server(**how, asks_password=True) as server:
        await email(server.port, **more).deliver(LETTER)
        ((to, letter),) = server.mails
        assert to == ["ops@example.org"]
        assert letter["Subject"] == "[aliquot] <!channel> größer & train (ses_1) has failed"
        assert letter["Message-ID"] == "<dlv_1@example.org>"
        assert letter["Auto-Submitted"] == "auto-generated"
        assert "[warning] <!channel> größer" in text_of(letter)
        assert "    line one\n    line two\n" in text_of(letter)
        (folder / "password").write_text("another\n")
        with pytest.raises(NotDelivered, match="does not accept the user and password: code 535"):
            await email(server.port, **more).deliver(LETTER)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_server_with_an_untrusted_certificate_is_refused(folder: Path, security: str) -> None:
    tls = context(Authority(folder).issue("localhost"))
    stranger = Authority(folder, name="another")
    how = {"starttls": tls} if security == "starttls" else {"tls": tls}
    async with mail_server(**how) as server:
        with pytest.raises(NotDelivered, match="its certificate is not trusted; ca-file"):
            await email(server.port, security=security, ca_file=stranger.file).deliver(LETTER)
        assert server.mails == []


@pytest.mark.parametrize(
    ("code", "said"),
    [(10, "has expired or is not valid yet"), (62, "is of another host"), (20, "is not trusted; ca-file")],
)
def test_a_refused_certificate_says_why(code: int, said: str) -> None:
    error = ssl.SSLCertVerificationError("https://hooks.example.org/secret")
    error.verify_code = code
    words = connection_failure(error)
    assert said in words
    assert "secret" not in words


async def test_a_server_without_starttls_gets_nothing() -> None:
    async with mail_server() as server:
        with pytest.raises(NotDelivered, match="offers no STARTTLS; set security"):
            await email(server.port, security="starttls").deliver(LETTER)
        with pytest.raises(NotDelivered, match="connection failed: TLS: WRONG_VERSION_NUMBER"):
            await email(server.port, security="tls").deliver(LETTER)
        assert server.mails == []


async def test_mail_for_an_owner_goes_to_the_address_in_the_preferences() -> None:
    async with mail_server() as server:
        await email(server.port).deliver(FOR_ANN)
        assert server.mails[0][0] == ["ann@example.org"]
        server.refuses.add("ann@example.org")
        with pytest.raises(NotDelivered) as refused:
            await email(server.port).deliver(FOR_ANN)
        assert refused.value.is_final
        with pytest.raises(NotDelivered, match="owner-domains") as elsewhere:
            await email(server.port, owner_domains=("example.com",)).deliver(FOR_ANN)
        assert elsewhere.value.is_final
        with pytest.raises(NotDelivered, match="no e-mail address"):
            await email(server.port).deliver(replace(FOR_ANN, email=None))


async def test_an_unreachable_mail_server_is_reported() -> None:
    async with mail_server() as server:
        port = server.port
    with pytest.raises(NotDelivered, match="connection failed: refused; check that the receiver is running"):
        await email(port).deliver(LETTER)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": uses}) for uses in (False, True)])
async def test_an_unreachable_webhook_is_reported_with_the_reason() -> None:
    async with http_receiver() as hook:
        url = hook.url
    with pytest.raises(NotDelivered, match="connection failed: refused; check that the receiver is running"):
        await Webhook(WebhookTable(name="x", kind="webhook", url=url), now_us=lambda: NOW_US).deliver(LETTER)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "chat-secret"), "the name of the host cannot be resolved"),
        (TimeoutError("chat-secret"), "no answer in time"),
        (OSError("chat-secret"), "OSError"),
    ],
)
def test_a_failed_connection_is_told_by_its_cause_without_its_text(error: OSError, words: str) -> None:
    failed = ConnectionError("chat-secret")
    failed.__cause__ = error
    assert connection_failure(error) == f"connection failed: {words}"
    assert "secret" not in connection_failure(failed)


async def test_a_webhook_request_is_json_with_a_signature_and_an_idempotency_key(folder: Path) -> None:
    key = folder / "key"
    key.write_text("sesame\n")
    async with http_receiver() as hook:
        table = WebhookTable(name="x", kind="webhook", url=hook.url, key_file=key)
        await Webhook(table, now_us=lambda: NOW_US).deliver(LETTER)
        (taken,) = hook.requests
        assert taken.headers["aliquot-signature"].startswith("t=1790000000,v1=")
        assert taken.is_signed("sesame")
        assert not taken.is_signed("another")
        assert not dataclasses.replace(taken, body=taken.body + b" ").is_signed("sesame")
        assert taken.headers["idempotency-key"] == "dlv_1"
        assert taken.document["version"] == 1
        assert taken.document["notices"] == [
            {
                "id": "dlv_1",
                "notice_id": "event:5",
                "kind": "session_failed",
                "severity": "warning",
                "is_over": False,
                "subject": "ses_1",
                "text": ONE.words,
                "output": "line one\nline two",
                "at": "2026-09-21T14:13:20Z",
            }
        ]


@pytest.mark.parametrize(
    ("answer", "words", "is_final"),
    [
        (500, "HTTP status 500", False),
        (404, "HTTP status 404", False),
        (410, "HTTP status 410", True),
        (302, "redirects are not followed", False),
        (HANG, "no answer within 0.2 s", False),
    ],
)
async def test_the_error_of_a_failed_webhook_does_not_contain_its_url(answer: int, words: str, is_final: bool) -> None:
    async with http_receiver(answer) as hook:
        timeout_s = 0.2 if answer == HANG else 60
        table = WebhookTable(name="x", kind="webhook", url=f"{hook.url}?secret=1", timeout_s=timeout_s)
        with pytest.raises(NotDelivered, match=words) as failed:
            await Webhook(table, now_us=lambda: NOW_US).deliver(LETTER)
        assert failed.value.is_final is is_final
        assert "127.0.0.1" not in str(failed.value)
        assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("asked", "least_s", "most_s"),
    [
        ("120", 120, 120),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e9, 1e12),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("soon", 0, 0),
    ],
)
async def test_the_time_for_which_a_receiver_asks_is_read(asked: str, least_s: float, most_s: float) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 429 Too Many\r\nRetry-After: {asked}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(NotDelivered, match="HTTP status 429") as failed:
            await post(WebhookTable(name="x", kind="webhook", url=url, timeout_s=60), b"{}", key="dlv_1")
    assert least_s <= failed.value.wait_s <= most_s


async def test_a_webhook_with_an_unreadable_key_file_sends_nothing(folder: Path) -> None:
    async with http_receiver() as hook:
        table = WebhookTable(name="x", kind="webhook", url=hook.url, key_file=folder / "none")
        with pytest.raises(NotDelivered, match="cannot be read: No such file"):
            await Webhook(table, now_us=lambda: NOW_US).deliver(LETTER)
        assert hook.requests == []


async def test_slack_messages_are_escaped_and_limited_in_length(folder: Path) -> None:
    async with http_receiver() as hook:
        address = folder / "chat.url"
        address.write_text(f"{hook.url}\n")
        many = replace(LETTER, notices=(ONE,) * 120, details=())
        for letter in (LETTER, many):
            await Slack(SlackTable(name="x", kind="slack", url_file=address)).deliver(letter)
        short, long = (json.loads(taken.body)["text"] for taken in hook.requests)
        assert short.startswith("[warning] &lt;!channel&gt; größer &amp; train")
        assert len(long) == 4000


async def test_session_names_cannot_forge_notices_mentions_or_links(folder: Path) -> None:
    forged = replace(ONE, words="a\r\n[critical] agent x is lost\n@channel http://example.org (ses_1) has failed")
    letter = replace(LETTER, notices=(forged,), details=())
    async with http_receiver() as hook, mail_server() as server:
        await Slack(SlackTable(name="x", kind="slack", url=hook.url)).deliver(letter)
        await email(server.port).deliver(letter)
        told = json.loads(hook.requests[0].body)["text"]
        assert not any(sign in told for sign in ("\n", "@channel", "http://"))
        ((_, mail),) = server.mails
        assert text_of(mail).splitlines()[0].endswith("has failed")


async def test_a_receiver_that_answers_in_pieces_has_no_more_time_than_others() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"HTTP/1.1 200 X\r\nX: " if not pieces else b"x")
                await writer.drain()
                pieces.append(b"x")
                await asyncio.sleep(0.02)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    pieces, ended = list[bytes](), asyncio.Event()
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        hook = Webhook(WebhookTable(name="x", kind="webhook", url=url, timeout_s=0.3), now_us=lambda: NOW_US)
        async with asyncio.timeout(60):
            with pytest.raises(NotDelivered, match=r"no answer within 0\.3 s"):
                await hook.deliver(LETTER)
            await ended.wait()
    assert pieces


async def test_a_temporarily_refused_address_is_an_error_of_that_message_only() -> None:
    async with mail_server() as server:
        server.refuses_now.add("ann@example.org")
        with pytest.raises(NotDelivered) as refused:
            await email(server.port).deliver(FOR_ANN)
        assert (refused.value.is_final, refused.value.is_message_specific) == (False, True)


def test_a_ca_file_is_read_again_only_when_it_changed(folder: Path) -> None:
    file = Authority(folder).file
    first = tls_context(file, protocol="http")
    assert tls_context(file, protocol="http") is first
    assert tls_context(file, protocol="smtp") is not first
    file.write_bytes(Authority(folder, name="another").file.read_bytes())
    os.utime(file, ns=(1, 1))
    assert tls_context(file, protocol="http") is not first
    with pytest.raises(NotDelivered, match="cannot be read: FileNotFoundError"):
        tls_context(folder / "none.pem", protocol="http")


Make = Callable[[], object]


@pytest.mark.parametrize(
    "make",
    [
        lambda: WebhookTable(name="x", kind="webhook", url="ftp://example.org/"),
        lambda: WebhookTable(name="x", kind="webhook", url="https://user:secret@example.org/"),
        lambda: WebhookTable(name="x", kind="webhook"),
        lambda: WebhookTable(name="x/y", kind="webhook", url="https://example.org/"),
        lambda: email(25, sender="no address"),
        lambda: email(25, sender="a@example.org\nBcc: b@example.org"),
        lambda: email(25, to=()),
        lambda: email(25, user="x", password_file=Path("y")),
        lambda: email(25, user="x", security="tls"),
        lambda: WebhookTable(name="x", kind="webhook", url="http://h/", quiet={"begin": "22:00", "end": "22:00"}),
        lambda: WebhookTable(
            name="x", kind="webhook", url="http://h/", quiet={"begin": "22:00", "end": "7:00", "zone": "Nowhere/At"}
        ),
    ],
)
def test_invalid_receiver_settings_are_refused(make: Make) -> None:
    with pytest.raises(ValueError):
        make()
