"""Messages: due notices grouped into messages for one receiver, with the last lines of a failed session's output.

Also the wording shared by all notices: session labels, durations and printable text.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aliquot.service.subscriptions.job_output import Outputs, piece_of
from aliquot_schema.alerts import Delivery, NoticeKind, Severity
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import SessionId, UserId

if TYPE_CHECKING:
    from aliquot.service.state.state import State

NOTICES_MAX: Final = 500
"""Notices in one message."""

log: Final = logging.getLogger("aliquot.notices")
BYTES_MAX: Final = 32 * 1024
"""Bytes of the end of an output that are read."""
LINE_CHARACTERS: Final = 500
OUTPUTS_MAX: Final = 5
"""Outputs in one message: sessions that fail together mostly fail for the same reason."""
_WITH_OUTPUT: Final = frozenset({NoticeKind.SESSION_FAILED, NoticeKind.RETRIES_SPENT})
NAMED_MAX: Final = 5
"""Sessions named in one message."""
SECOND_US: Final = 1_000_000


class Message(Struct, frozen=True, kw_only=True):
    """Notices sent to one receiver together."""

    key: str
    """The same for every attempt, so that receivers recognize repeats."""
    user: UserId | None
    """The addressed owner; None = the cluster's operators."""
    email: str | None
    """E-mail address of that user."""
    notices: tuple[Delivery, ...]
    """In the order in which they were made; at least one."""
    details: tuple[str, ...] = ()
    """The last output lines for each notice; empty, or one entry per notice."""

    @property
    def severity(self) -> Severity:
        """The highest severity of its notices."""
        return max(notice.severity for notice in self.notices)

    @property
    def subject(self) -> str:
        """One line."""
        first = self.notices[0].words.splitlines()[0]
        return first if len(self.notices) == 1 else f"{len(self.notices)} notices; the first: {first}"


def due(deliveries: Iterable[Delivery], *, now_us: int) -> list[tuple[Delivery, ...]]:
    """Messages to send now, urgent ones first, then by due time. Gathered notices share one due time, so the groups
    stay the same over retries and restarts."""
    ready = sorted((one for one in deliveries if one.next_us <= now_us), key=_together)
    found = [part for _, group in groupby(ready, key=_together) for part in _cut(group)]
    return sorted(found, key=lambda notices: (not is_urgent(notices), notices[0].next_us, notices[0].id))


def is_urgent(notices: Sequence[Delivery]) -> bool:
    """Whether a message skips every wait: a critical alert opened, or a test was requested."""
    return any(
        one.kind is NoticeKind.TEST or (one.severity is Severity.CRITICAL and not one.is_over) for one in notices
    )


def key_of(notices: Sequence[Delivery]) -> str:
    """Key of a message: the id of its only notice, or a hash of all their ids."""
    if len(notices) == 1:
        return notices[0].id
    return f"dlv_{sha256(' '.join(one.id for one in notices).encode()).hexdigest()[:32]}"


def _cut(group: Iterable[Delivery]) -> Iterator[tuple[Delivery, ...]]:
    """Messages of at most `NOTICES_MAX` notices. The cuts stay in the same places after some were sent."""
    notices = sorted(group, key=lambda one: one.id)
    for begin in range(0, len(notices), NOTICES_MAX):
        yield tuple(notices[begin : begin + NOTICES_MAX])


def _together(one: Delivery) -> tuple[str, str, int, int, str]:
    return one.receiver, one.user or "", one.next_us, one.tries, "" if one.is_gathered else one.id


async def output_ends(
    state: "State", outputs: Outputs, notices: Sequence[Delivery], *, lines_max: int
) -> tuple[str, ...]:
    """The last `lines_max` lines of output per notice; empty for notices of other kinds and beyond the first
    `OUTPUTS_MAX`."""
    failed = [one for one in notices if one.kind in _WITH_OUTPUT][: OUTPUTS_MAX if lines_max > 0 else 0]
    found = await asyncio.gather(*(last_lines(state, outputs, one.subject, lines_max=lines_max) for one in failed))
    by_id = {one.id: lines for one, lines in zip(failed, found, strict=True)}
    return tuple(by_id.get(one.id, "") for one in notices)


async def last_lines(state: "State", outputs: Outputs, session_id: str, *, lines_max: int) -> str:
    """The last `lines_max` lines of the rank that failed first; empty when the output cannot be read."""
    session = state.sessions.get(SessionId(session_id))
    kernels = [] if session is None else state.kernels_in(session)
    failed = [kernel for kernel in kernels if kernel.exit_code or kernel.signal]
    if not kernels or lines_max <= 0:
        return ""
    kernel = min(failed or kernels, key=lambda one: (one.ended_us or 0, one.rank))
    try:
        piece = await piece_of(outputs, kernel, offset=-BYTES_MAX, bytes_max=BYTES_MAX, is_over=True)
    except (AliquotError, OSError):
        return ""
    except Exception:
        log.exception("the output of %s could not be read for a notice", session_id)
        return ""
    lines = piece.text.splitlines()[-lines_max:]
    return "\n".join(_printable(line)[:LINE_CHARACTERS] for line in lines)


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\t" else "\N{REPLACEMENT CHARACTER}" for sign in line)


def duration(seconds: int) -> str:
    """`31 h`, `12 min`, `40 s`."""
    if seconds >= 2 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"


def printable(text: str) -> str:
    """One line that databases, chats and mail servers accept: names and failure messages come from users."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
