"""E-mail delivery over SMTP."""

from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from aliquot.delivery.http import connection_failure, tls_context
from aliquot.delivery.receivers import EmailTable, lines, one_line
from aliquot.delivery.secret_files import read_secret
from aliquot.service.alerts.context import NotDelivered
from aliquot.service.alerts.message_texts import Message
from aliquot.service.views.terms import moment

PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
SUBJECT_CHARACTERS: Final = 150
_FOOTER: Final = "Sent by Aliquot. Choose what you receive, and where, with `aliquot notices me`."


class Mail:
    """A `Sender` that uses a mail server."""

    def __init__(self, table: EmailTable) -> None:
        self._table = table

    async def deliver(self, message: Message) -> None:
        """See `Sender.deliver`. Enough that one of several addresses was accepted."""
        table, recipients = self._table, self._recipients(message)
        password = None if table.password_file is None else read_secret(table.password_file)
        server = aiosmtplib.SMTP(
            hostname=table.host,
            port=table.port or PORTS[table.security],
            timeout=table.timeout_s,
            use_tls=table.security == "tls",
            start_tls=table.security == "starttls",
            tls_context=None if table.security == "none" else tls_context(table.ca_file, protocol="smtp"),
            username=table.user,
            password=password,
        )
        try:
            async with server:
                await server.send_message(self._mail(message, recipients), recipients=recipients)
        except aiosmtplib.SMTPRecipientsRefused as error:
            is_final = all(one.code >= 500 for one in error.recipients)
            raise NotDelivered(
                "the mail server refused the recipient", is_final=is_final, is_message_specific=True
            ) from None
        except aiosmtplib.SMTPDataError as error:
            raise NotDelivered(
                f"the mail server answered {error.code} to the message", is_message_specific=True
            ) from None
        except aiosmtplib.SMTPAuthenticationError as error:
            raise NotDelivered(f"the mail server does not accept the user and password: code {error.code}") from None
        except aiosmtplib.SMTPResponseException as error:
            raise NotDelivered(f"the mail server answered {error.code}") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotDelivered(_failure(error)) from None

    def _recipients(self, message: Message) -> list[str]:
        table = self._table
        if message.user is None:
            return list(table.to)
        if message.email is None:
            raise NotDelivered(f"{message.user} has set no e-mail address", is_final=True)
        domain = message.email.rpartition("@")[2].lower()
        if table.owner_domains and domain not in {known.lower() for known in table.owner_domains}:
            raise NotDelivered(f"the address of {message.user} is outside the domains in owner-domains", is_final=True)
        return [message.email]

    def _mail(self, message: Message, recipients: list[str]) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._table.sender
        mail["To"] = ", ".join(recipients)
        mail["Subject"] = f"[aliquot] {one_line(message.subject, characters_max=SUBJECT_CHARACTERS)}"
        mail["Date"] = format_datetime(moment(message.notices[-1].made_us))
        mail["Message-ID"] = f"<{message.key}@{self._table.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
        mail["Idempotency-Key"] = message.key
        mail.set_content("\n".join([*lines(message), "", "-- ", _FOOTER]))
        return mail


def _failure(error: Exception) -> str:
    """Why a connection failed. A missing extension of the server is named only in the text of the library's error."""
    if type(error) is aiosmtplib.SMTPException and "STARTTLS" in str(error):
        return 'the mail server offers no STARTTLS; set security to "tls" or "none"'
    if type(error) is aiosmtplib.SMTPException and "AUTH" in str(error):
        return "the mail server accepts no user and password here; leave them out, or choose another port"
    return connection_failure(error)
