"""Routing: which receivers get a notice, and when.

Notices that are not critical wait during a receiver's quiet hours, and can be gathered into one message per interval.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta, tzinfo
from email.errors import MessageError
from email.headerregistry import Address
from typing import Final

from msgspec import Struct, field

from aliquot.service.alerts.message_texts import SECOND_US
from aliquot.service.state.alerts import AlertIndex
from aliquot.service.views.terms import microseconds, moment
from aliquot_schema.alerts import OWNERS_HEAR_UNASKED, NoticeKind, Severity
from aliquot_schema.ids import UserId

ADDRESS_CHARACTERS_MAX: Final = 254
"""RFC 5321, 4.5.3.1.3, without the brackets."""


class QuietHours(Struct, frozen=True, kw_only=True):
    """A daily period, which may end on the next day."""

    begin: time
    end: time
    zone: tzinfo

    def until(self, now: datetime) -> datetime | None:
        """The end of the current period; None outside of it."""
        local = now.astimezone(self.zone)
        at = local.time()
        if self.begin <= self.end:
            is_quiet, days = self.begin <= at < self.end, 0
        else:
            is_quiet, days = at >= self.begin or at < self.end, int(at >= self.begin)
        if not is_quiet:
            return None
        # In the hour that is repeated when summer time ends, the end belongs to the same fold.
        end = self.end.replace(fold=local.fold)
        return datetime.combine(local.date() + timedelta(days=days), end, tzinfo=self.zone)


class Receiver(Struct, frozen=True, kw_only=True):
    """A destination of notices, without its address and protocol."""

    name: str
    kind: str
    """`webhook`, `slack` or `email`."""
    tells_alerts: bool = True
    tells_owners: bool = False
    least: Severity = Severity.INFO
    kinds: frozenset[NoticeKind] = field(default=frozenset())
    """Empty = all."""
    quiet: QuietHours | None = None
    gather_s: int = 0
    """Notices that are not critical are sent together every `gather_s` seconds; 0 = immediately."""
    output_lines: int = 0
    """Lines of a failed session's output that are sent with the notice."""

    @property
    def needs_address(self) -> bool:
        """Whether owners get notices only if they have given an address."""
        return self.kind == "email"


class NoticeContent(Struct, frozen=True, kw_only=True):
    """Content of a notice, before it is routed to receivers."""

    kind: NoticeKind
    severity: Severity
    subject: str
    words: str
    notice_id: str
    user: UserId | None = None
    """The addressed owner; None = the cluster's operators."""
    is_over: bool = False
    is_owed: bool = False
    """Whether the owner is told whatever kinds they chose: it comes before an effect on their session."""


def receivers_of(fact: NoticeContent, receivers: Iterable[Receiver], noticed: AlertIndex) -> Iterator[Receiver]:
    """Receivers that get a notice."""
    for receiver in receivers:
        if fact.severity < receiver.least or (receiver.kinds and fact.kind not in receiver.kinds):
            continue
        if fact.user is None:
            if receiver.tells_alerts:
                yield receiver
        elif receiver.tells_owners and _wants(fact, fact.user, receiver, noticed):
            yield receiver


def due_us(fact: NoticeContent, receiver: Receiver, *, now_us: int, at_us: int) -> tuple[int, bool]:
    """(due time, whether it is sent together with others that are due then). The end of a critical alert can wait.

    Args:
        at_us: time of the event. Critical alerts of one moment are sent immediately, in one message.
    """
    if fact.severity is Severity.CRITICAL and not fact.is_over:
        return min(at_us, now_us), True
    end = None if receiver.quiet is None else receiver.quiet.until(moment(now_us))
    if end is not None:
        return microseconds(end), True
    if receiver.gather_s:
        step = receiver.gather_s * SECOND_US
        return (now_us // step + 1) * step, True
    return now_us, False


def _wants(fact: NoticeContent, user: UserId, receiver: Receiver, noticed: AlertIndex) -> bool:
    known = noticed.subscribers.get(user)
    if receiver.needs_address and (known is None or known.email is None):
        return False
    return fact.is_owed or fact.kind in (OWNERS_HEAR_UNASKED if known is None else known.notify)


def checked_address(text: str) -> str:
    """An e-mail address that is safe in message headers and SMTP commands.

    Raises:
        ValueError: it is not an e-mail address, or has parts that not every mail server accepts.
    """
    address = text.strip()
    if not address.isascii() or not address.isprintable() or len(address) > ADDRESS_CHARACTERS_MAX:
        raise ValueError(f"an e-mail address has at most {ADDRESS_CHARACTERS_MAX} printable ASCII characters")
    try:
        parsed = Address(addr_spec=address)
    except (MessageError, ValueError, IndexError):
        raise ValueError("this is not an e-mail address; give one like ann@example.org") from None
    is_plain = parsed.addr_spec == address and not any(sign in address for sign in ' <>,;:"()[]\\')
    if not is_plain or not parsed.username or not parsed.domain.strip(".-"):
        raise ValueError("this is not an e-mail address; give one like ann@example.org")
    return address
