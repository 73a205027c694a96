"""E-mail, over SMTP."""

from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from aliquot.delivery.receiver_tables import EmailTable
from aliquot.delivery.secret_files import read_secret
from aliquot.delivery.texts import lines, one_line
from aliquot.delivery.trust import tls_context
from aliquot.service.notices.letters import Letter
from aliquot.service.notices.ports import NotDelivered
from aliquot.service.projection_terms import moment

PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
SUBJECT_CHARACTERS: Final = 150
_FOOTER: Final = "Sent by Aliquot. What you are told of, and where, is yours to say: `aliquot notices me`."


class Mail:
    """A `Courier`."""

    def __init__(self, table: EmailTable) -> None:
        self._table = table

    async def deliver(self, letter: Letter) -> None:
        """See `Courier.deliver`. When some of several addresses are refused the others have it, and that is enough."""
        table, recipients = self._table, self._recipients(letter)
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
                await server.send_message(self._message(letter, recipients), recipients=recipients)
        except aiosmtplib.SMTPRecipientsRefused as error:
            is_final = all(one.code >= 500 for one in error.recipients)
            raise NotDelivered("it takes nothing for the address", is_final=is_final, is_of_letter=True) from None
        except aiosmtplib.SMTPDataError as error:
            raise NotDelivered(f"it answered {error.code} to the letter", is_of_letter=True) from None
        except aiosmtplib.SMTPAuthenticationError as error:
            raise NotDelivered(f"it does not accept the user and password: code {error.code}") from None
        except aiosmtplib.SMTPResponseException as error:
            raise NotDelivered(f"it answered {error.code}") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotDelivered(f"it cannot be reached: {type(error).__name__}") from None

    def _recipients(self, letter: Letter) -> list[str]:
        table = self._table
        if letter.user is None:
            return list(table.to)
        if letter.email is None:
            raise NotDelivered(f"{letter.user} has given no address", is_final=True)
        domain = letter.email.rpartition("@")[2].lower()
        if table.owner_domains and domain not in {known.lower() for known in table.owner_domains}:
            raise NotDelivered(f"the address of {letter.user} is in no domain of owner-domains", is_final=True)
        return [letter.email]

    def _message(self, letter: Letter, recipients: list[str]) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._table.sender
        message["To"] = ", ".join(recipients)
        message["Subject"] = f"[aliquot] {one_line(letter.subject, most=SUBJECT_CHARACTERS)}"
        message["Date"] = format_datetime(moment(letter.notices[-1].made_us))
        message["Message-ID"] = f"<{letter.key}@{self._table.sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no machine answers
        message["Idempotency-Key"] = letter.key
        message.set_content("\n".join([*lines(letter), "", "-- ", _FOOTER]))
        return message
