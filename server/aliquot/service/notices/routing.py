"""Routing: which receivers are told of a notice, and when."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aliquot.service.noticed import Noticed
from aliquot.service.notices.receivers import Receiver
from aliquot.service.notices.terms import SECOND_US
from aliquot.service.projection_terms import microseconds, moment
from aliquot_schema.ids import UserId
from aliquot_schema.notices import OWNERS_HEAR_UNASKED, NoticeKind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What is to be told, whoever hears it."""

    kind: NoticeKind
    severity: Severity
    subject: str
    words: str
    notice_id: str
    user: UserId | None = None
    """The owner whom it is for; None = those who look after the cluster."""
    is_over: bool = False


def receivers_of(fact: Fact, receivers: Iterable[Receiver], noticed: Noticed) -> Iterator[Receiver]:
    """Those that are told."""
    for receiver in receivers:
        if fact.severity < receiver.least or (receiver.kinds and fact.kind not in receiver.kinds):
            continue
        if fact.user is None:
            if receiver.tells_alerts:
                yield receiver
        elif receiver.tells_owners and _hears(fact.user, fact.kind, receiver, noticed):
            yield receiver


def due_us(fact: Fact, receiver: Receiver, *, now_us: int, at_us: int) -> tuple[int, bool]:
    """(when it is sent, whether together with others that are sent then). The end of something critical can wait.

    Args:
        at_us: when it happened. What is critical and happened at once is told at once, in one letter.
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


def _hears(user: UserId, kind: NoticeKind, receiver: Receiver, noticed: Noticed) -> bool:
    known = noticed.subscribers.get(user)
    if receiver.needs_address and (known is None or known.email is None):
        return False
    return kind in (OWNERS_HEAR_UNASKED if known is None else known.notify)
