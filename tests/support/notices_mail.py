"""A real mail server on loopback, with optional TLS and passwords."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Final

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

PATIENCE_S: Final = 60.0
USER: Final = "aliquot"
PASSWORD: Final = "a-password-of-the-tests"


@dataclass  # no slots: the library looks at all members, which an early Python 3.11 cannot do with them
class MailServer:
    """Its mails."""

    port: int = 0
    refuses: set[str] = field(default_factory=set)
    """Addresses refused for good."""
    refuses_now: set[str] = field(default_factory=set)
    """Addresses refused temporarily."""
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    """(recipient, message)."""
    _mail_arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for_mails(self, count: int) -> list[tuple[list[str], EmailMessage]]:
        """Wait for a number of messages."""
        async with asyncio.timeout(PATIENCE_S), self._mail_arrived:
            await self._mail_arrived.wait_for(lambda: len(self.mails) >= count)
        return self.mails

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address in self.refuses:
            return "550 no such user"
        if address in self.refuses_now:
            return "450 come again"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        letter = message_from_bytes(envelope.content, policy=default)
        assert isinstance(letter, EmailMessage)
        async with self._mail_arrived:
            self.mails.append((list(envelope.rcpt_tos), letter))
            self._mail_arrived.notify_all()
        return "250 OK"


def text_of(letter: EmailMessage) -> str:
    """Its plain text."""
    content = letter.get_content()
    assert isinstance(content, str)
    return content.replace("\r\n", "\n")


@asynccontextmanager
async def mail_server(
    *, tls: ssl.SSLContext | None = None, starttls: ssl.SSLContext | None = None, asks_password: bool = False
) -> AsyncIterator[MailServer]:
    """Listens on a free port."""
    found = MailServer()

    def conversation() -> SMTP:
        return SMTP(
            found,
            tls_context=starttls,
            require_starttls=starttls is not None,
            auth_required=asks_password and starttls is not None,
            authenticator=_is_known,
            # It does not know that the connection is TLS from the first byte on.
            auth_require_tls=starttls is not None,
            hostname="localhost",
        )

    server = await asyncio.get_running_loop().create_server(conversation, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()


def _is_known(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, shown: Any) -> AuthResult:
    is_right = isinstance(shown, LoginPassword) and (shown.login, shown.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False)
