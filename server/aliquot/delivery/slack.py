"""Chats that take Slack's incoming webhooks: `{"text": ...}`."""

from typing import Final

import msgspec

from aliquot.delivery.posting import post
from aliquot.delivery.receiver_tables import SlackTable
from aliquot.delivery.texts import lines
from aliquot.service.notices.letters import Letter

CHARACTERS_MAX: Final = 4000
"""What is longer is cut off by Slack itself."""
_NOTHING: Final = "\N{ZERO WIDTH SPACE}"
_ESCAPED: Final = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("@", f"@{_NOTHING}"),
    ("://", f":{_NOTHING}//"),
)


class Slack:
    """A `Courier`."""

    def __init__(self, table: SlackTable) -> None:
        self._table = table

    async def deliver(self, letter: Letter) -> None:
        """See `Courier.deliver`."""
        body = msgspec.json.encode({"text": text(letter)})
        await post(self._table, body, key=letter.key)


def text(letter: Letter) -> str:
    """Names are other people's: none of them mentions anybody, or is a link. Chats find both in plain text, too."""
    shown = "\n".join(lines(letter))
    for sign, escaped in _ESCAPED:
        shown = shown.replace(sign, escaped)
    return shown if len(shown) <= CHARACTERS_MAX else f"{shown[: CHARACTERS_MAX - 1]}…"
