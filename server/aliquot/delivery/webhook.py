"""Webhooks: notices as JSON, versioned, with a key that repeats are known by, and signed.

{"version": 1, "key": "dlv_...", "user": null, "notices": [{"id": "dlv_...", "notice_id": "alr_...", "kind": ...}]}
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from aliquot.delivery.posting import post
from aliquot.delivery.receiver_tables import WebhookTable
from aliquot.delivery.secret_files import read_secret
from aliquot.delivery.signing import HEADER, signature
from aliquot.service.notices.letters import Letter
from aliquot.service.projection_terms import moment
from aliquot_schema.notices import Delivery

VERSION: Final = 1


class Webhook:
    """A `Courier`."""

    def __init__(self, table: WebhookTable, *, now_us: Callable[[], int]) -> None:
        self._table = table
        self._now_us = now_us

    async def deliver(self, letter: Letter) -> None:
        """See `Courier.deliver`."""
        body = msgspec.json.encode(document(letter))
        signed: dict[str, str] = {}
        if self._table.key_file is not None:
            at_s = self._now_us() // 1_000_000
            signed[HEADER] = signature(body, key=read_secret(self._table.key_file), at_s=at_s)
        await post(self._table, body, key=letter.key, headers=signed)


def document(letter: Letter) -> dict[str, Any]:
    """The body. New fields may come; the version changes when one of these means something else."""
    details = letter.details or ("",) * len(letter.notices)
    return {
        "version": VERSION,
        "key": letter.key,
        "user": letter.user,
        "severity": letter.severity.name.lower(),
        "notices": [_notice(one, output) for one, output in zip(letter.notices, details, strict=True)],
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
