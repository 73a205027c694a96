"""Chats that take Slack's incoming webhooks: `{"text": ...}`."""

from typing import Final

import msgspec

from aliquot.delivery.posting import post
from aliquot.delivery.receiver_tables import SlackTable
from aliquot.delivery.texts import lines
from aliquot.service.notices.letters import Letter

CHARACTERS_MAX: Final = 4000
"""What is longer is cut off by Slack itself."""


class Slack:
    """A `Courier`."""

    def __init__(self, table: SlackTable) -> None:
        self._table = table

    async def deliver(self, letter: Letter) -> None:
        """See `Courier.deliver`."""
        body = msgspec.json.encode({"text": text(letter)})
        headers = {"Content-Type": "application/json", "User-Agent": "aliquot", "Idempotency-Key": letter.key}
        await post(self._table, body, headers=headers)


def text(letter: Letter) -> str:
    """Names are other people's: none of them mentions anybody, or is a link."""
    shown = "\n".join(lines(letter))
    for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        shown = shown.replace(sign, escaped)
    return shown if len(shown) <= CHARACTERS_MAX else f"{shown[: CHARACTERS_MAX - 1]}…"
