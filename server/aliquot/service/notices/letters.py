"""Letters: one notice, or several that are told together, as a receiver gets them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Final

from aliquot_schema.ids import UserId
from aliquot_schema.notices import Delivery, NoticeKind, Severity

NOTICES_MAX: Final = 500
"""In one letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What one receiver is told at one time."""

    key: str
    """The same whenever it is sent again."""
    user: UserId | None
    """Whom it is for; None = those who look after the cluster."""
    email: str | None
    """Of that user."""
    notices: tuple[Delivery, ...]
    """In the order in which they were made; at least one."""
    details: tuple[str, ...] = ()
    """What is told beside the words of each notice, in lines: the end of a session's output. Empty, or one each."""

    @property
    def severity(self) -> Severity:
        """The highest."""
        return max(notice.severity for notice in self.notices)

    @property
    def subject(self) -> str:
        """One line."""
        first = self.notices[0].words.splitlines()[0]
        return first if len(self.notices) == 1 else f"{len(self.notices)} notices; the first: {first}"


def due(deliveries: Iterable[Delivery], *, now_us: int) -> list[tuple[Delivery, ...]]:
    """What is to be sent now, letter by letter: what is urgent, then what was due first. Those that are gathered were
    told to be due at one time, so that the same ones stay together over repeats and restarts."""
    ripe = sorted((one for one in deliveries if one.next_us <= now_us), key=_together)
    found = [letter for _, group in groupby(ripe, key=_together) for letter in _cut(group)]
    return sorted(found, key=lambda notices: (not is_urgent(notices), notices[0].next_us, notices[0].id))


def is_urgent(notices: Sequence[Delivery]) -> bool:
    """Whether a letter waits for nothing: something critical has begun, or somebody looks whether it comes."""
    return any(
        one.kind is NoticeKind.TEST or (one.severity is Severity.CRITICAL and not one.is_over) for one in notices
    )


def key_of(notices: Sequence[Delivery]) -> str:
    """The name of a letter: that of its one notice, or one that is made from all of theirs."""
    if len(notices) == 1:
        return notices[0].id
    return f"dlv_{sha256(' '.join(one.id for one in notices).encode()).hexdigest()[:32]}"


def _cut(group: Iterable[Delivery]) -> Iterator[tuple[Delivery, ...]]:
    """Letters that a receiver can take and a commit can hold. What is sent leaves the rest cut in the same places."""
    notices = sorted(group, key=lambda one: one.id)
    for begin in range(0, len(notices), NOTICES_MAX):
        yield tuple(notices[begin : begin + NOTICES_MAX])


def _together(one: Delivery) -> tuple[str, str, int, int, str]:
    return one.receiver, one.user or "", one.next_us, one.tries, "" if one.is_gathered else one.id
