"""A real server sends notices of sessions to real receivers, also across kill -9."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until, until_state
from notices_mail import MailServer, mail_server, text_of
from notices_receivers import HANG, HttpReceiver, http_receiver

pytestmark = pytest.mark.anyio

KEY = "a-key-of-the-tests"
PREFER = (
    "mutation ($input: SetNoticePreferencesInput!) { set_notice_preferences(input: $input) { __typename ... on Error "
    "{ message } ... on NoticePreferencesChangeSuccess { preferences { email sends_mail } } } }"
)
DELIVERIES = "{ deliveries(first: 50) { edges { node { id receiver kind state tries error user message } } } }"
AUDIT = '{ audit(first: 100, filter: { kind: "delivery" }) { edges { node { kind fields { name before after } } } } }'
FAILS = "echo before; echo what went wrong >&2; exit 7"


@asynccontextmanager
async def notifying_server(tmp_path: Path, hook: HttpReceiver, mail: MailServer) -> AsyncIterator[OwnServer]:
    """A server with both receivers."""
    key = tmp_path / "hook.key"
    key.write_text(f"{KEY}\n")
    config = tmp_path / "aliquot.toml"
    config.write_text(
        f"""
[[receivers]]
name = "hook"
kind = "webhook"
url = "{hook.url}"
key-file = "{key}"
tells = ["alerts", "owners"]
timeout-s = 60

[[receivers]]
name = "mail"
kind = "email"
host = "127.0.0.1"
port = {mail.port}
security = "none"
sender = "aliquot@example.org"
tells = ["owners"]
gather-s = 0
"""
    )
    accelerators = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
    async with OwnServer("--accelerators", str(accelerators), environment={"ALIQUOT_CONFIG": str(config)}) as server:
        yield server


async def test_an_owner_is_notified_of_a_failure_with_the_last_output(tmp_path: Path) -> None:
    async with http_receiver() as hook, mail_server() as mail, notifying_server(tmp_path, hook, mail) as server:
        async with server.client() as client:
            changed = await client.execute(PREFER, {"input": {"email": "ann@example.org"}})
            assert changed["set_notice_preferences"]["preferences"] == {"email": "ann@example.org", "sends_mail": True}
            failed = await submit(client, FAILS, {"cuda.shares": "0.2"})
            await until_state(client, failed, "failed")
            ((to, letter),) = await mail.wait_for_mails(1)
            (taken,) = await hook.wait_for_requests(1)
            await _until_sent(client, count=2)
            audit = json.dumps(await client.execute(AUDIT))
        assert hook.url not in server.log_tail()
        assert to == ["ann@example.org"]
        assert failed in letter["Subject"]
        assert "exited with code 7" in text_of(letter)
        assert "    what went wrong" in text_of(letter)
        assert taken.is_signed(KEY)
        (notice,) = taken.document["notices"]
        assert (notice["kind"], notice["subject"], notice["output"]) == ("session_failed", failed, None)
        assert taken.headers["idempotency-key"] == taken.document["key"] == notice["id"]
        assert "delivery.queued" in audit
        assert "delivery.sent" in audit
        assert not any(secret in audit for secret in (KEY, hook.url, "ann@example.org", "what went wrong"))


async def test_a_notice_undelivered_by_a_killed_server_is_delivered_after_the_restart(tmp_path: Path) -> None:
    async with http_receiver(HANG) as hook, mail_server() as mail, notifying_server(tmp_path, hook, mail) as server:
        async with server.client() as client:
            failed = await submit(client, FAILS, {"cuda.shares": "0.2"})
            await until_state(client, failed, "failed")
        await hook.wait_for_requests(1)
        await server.kill()
        await server.start()
        first, again = await hook.wait_for_requests(2)
        assert first.document["notices"][0]["subject"] == failed
        assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
        assert first.document == again.document
        async with server.client() as client:
            (sent,) = await _until_sent(client, count=1)
        assert (sent["kind"], sent["state"], sent["tries"]) == ("session_failed", "sent", 1)


async def _until_sent(client: Client, *, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        found[:] = [edge["node"] for edge in (await client.execute(DELIVERIES))["deliveries"]["edges"]]
        return len([one for one in found if one["state"] == "sent"]) >= count

    await until(look)
    return found
