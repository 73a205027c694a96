"""The end of an output: the last lines that a session printed, found without reading all of it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from aliquot.service.printed.pieces import piece_of
from aliquot.service.state import State
from aliquot.service.watching import Outputs
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import SessionId
from aliquot_schema.notices import Delivery, NoticeKind

log: Final = logging.getLogger("aliquot.notices")

BYTES_MAX: Final = 32 * 1024
"""So much of the end is read."""
LINE_CHARACTERS: Final = 500
TOLD_MAX: Final = 5
"""Outputs in one letter: a hundred sessions that fail together fail of the same, mostly."""
_WITH_OUTPUT: Final = frozenset({NoticeKind.SESSION_FAILED, NoticeKind.RETRIES_SPENT})


async def ends_of(state: State, outputs: Outputs, notices: Sequence[Delivery], *, most: int) -> tuple[str, ...]:
    """Of each notice's session so many lines; empty for what has not failed, and for all but the first few."""
    failed = [one for one in notices if one.kind in _WITH_OUTPUT][: TOLD_MAX if most > 0 else 0]
    found = await asyncio.gather(*(last_lines(state, outputs, one.subject, most=most) for one in failed))
    by_id = {one.id: lines for one, lines in zip(failed, found, strict=True)}
    return tuple(by_id.get(one.id, "") for one in notices)


async def last_lines(state: State, outputs: Outputs, session_id: str, *, most: int) -> str:
    """Of the rank that failed first; empty when it cannot be read now."""
    session = state.sessions.get(SessionId(session_id))
    kernels = [] if session is None else state.kernels_in(session)
    failed = [kernel for kernel in kernels if kernel.exit_code or kernel.signal]
    if not kernels or most <= 0:
        return ""
    kernel = min(failed or kernels, key=lambda one: (one.ended_us or 0, one.rank))
    try:
        piece = await piece_of(outputs, kernel, offset=-BYTES_MAX, bytes_max=BYTES_MAX, is_over=True)
    except (AliquotError, OSError):
        return ""
    except Exception:
        log.exception("the output of %s could not be read for a letter", session_id)
        return ""
    lines = piece.text.splitlines()[-most:]
    return "\n".join(_printable(line)[:LINE_CHARACTERS] for line in lines)


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\t" else "\N{REPLACEMENT CHARACTER}" for sign in line)
