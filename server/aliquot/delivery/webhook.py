"""Webhook delivery: notices as versioned, signed JSON, and as text for chats that accept Slack's incoming webhooks.

{"version": 1, "key": "dlv_...", "user": null, "notices": [{"id": "dlv_...", "notice_id": "alr_...", "kind": ...}]}
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from aliquot.delivery.http import SIGNATURE_HEADER, post, signature
from aliquot.delivery.receivers import SlackTable, WebhookTable, lines
from aliquot.delivery.secret_files import read_secret
from aliquot.service.alerts.message_texts import Message
from aliquot.service.views.terms import moment
from aliquot_schema.alerts import Delivery

VERSION: Final = 1

CHARACTERS_MAX: Final = 4000
"""Slack truncates longer texts."""
_ZERO_WIDTH: Final = "\N{ZERO WIDTH SPACE}"
_ESCAPED: Final = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("@", f"@{_ZERO_WIDTH}"),
    ("://", f":{_ZERO_WIDTH}//"),
)


class Webhook:
    """A `Sender` of JSON."""

    def __init__(self, table: WebhookTable, *, now_us: Callable[[], int]) -> None:
        self._table = table
        self._now_us = now_us

    async def deliver(self, message: Message) -> None:
        """See `Sender.deliver`."""
        body = msgspec.json.encode(document(message))
        signed: dict[str, str] = {}
        if self._table.key_file is not None:
            at_s = self._now_us() // 1_000_000
            signed[SIGNATURE_HEADER] = signature(body, key=read_secret(self._table.key_file), at_s=at_s)
        await post(self._table, body, key=message.key, headers=signed)


def document(message: Message) -> dict[str, Any]:
    """The JSON body. Fields may be added; the version changes when a field changes its meaning."""
    details = message.details or ("",) * len(message.notices)
    return {
        "version": VERSION,
        "key": message.key,
        "user": message.user,
        "severity": message.severity.name.lower(),
        "notices": [_notice(one, output) for one, output in zip(message.notices, details, strict=True)],
    }


def _notice(one: Delivery, output: str) -> dict[str, Any]:
    return {
        "id": one.id,
        "notice_id": one.notice_id,
        "kind": one.kind.value,
        "severity": one.severity.name.lower(),
        "is_over": one.is_over,
        "subject": one.subject,
        "text": one.words,
        "output": output or None,
        "at": moment(one.made_us).isoformat().replace("+00:00", "Z"),
    }


class Slack:
    """A `Sender` of chat text."""

    def __init__(self, table: SlackTable) -> None:
        self._table = table

    async def deliver(self, message: Message) -> None:
        """See `Sender.deliver`."""
        body = msgspec.json.encode({"text": chat_text(message)})
        await post(self._table, body, key=message.key)


def chat_text(message: Message) -> str:
    """The chat text. Mentions and links are escaped, because names come from users; chats find both in plain text
    too."""
    rendered = "\n".join(lines(message))
    for sign, escaped in _ESCAPED:
        rendered = rendered.replace(sign, escaped)
    return rendered if len(rendered) <= CHARACTERS_MAX else f"{rendered[: CHARACTERS_MAX - 1]}…"
