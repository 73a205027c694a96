"""The end of an output: the last lines that a session printed, found without reading all of it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

from aliquot.service.state import State
from aliquot.service.watching import Outputs
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import SessionId
from aliquot_schema.launching import LogChunk
from aliquot_schema.leases import Kernel
from aliquot_schema.notices import Delivery, NoticeKind

log: Final = logging.getLogger("aliquot.notices")

WINDOW_BYTES: Final = 16 * 1024
"""So much of the end is read."""
BYTES_MAX: Final = 2 * WINDOW_BYTES
OFFSET_MAX: Final = 2**60
LINE_CHARACTERS: Final = 500
WAIT_S: Final = 10.0
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
        async with asyncio.timeout(WAIT_S):
            data = await _end(outputs, kernel)
    except (AliquotError, TimeoutError, OSError):
        return ""
    except Exception:
        log.exception("the output of %s could not be read for a letter", session_id)
        return ""
    lines = data.decode("utf-8", "replace").splitlines()[-most:]
    return "\n".join(_printable(line)[:LINE_CHARACTERS] for line in lines)


async def _end(outputs: Outputs, kernel: Kernel) -> bytes:
    """Where it ends is found by asking further and further on: an answer without data is behind the end."""
    low, step = 0, WINDOW_BYTES
    while low + step < OFFSET_MAX and (await _chunk(outputs, kernel, low + step)).data:
        low, step = low + step, step * 2
    while step > WINDOW_BYTES:
        step //= 2
        if (await _chunk(outputs, kernel, low + step)).data:
            low += step
    begin, data = max(0, low - WINDOW_BYTES), b""
    async with _following(outputs, kernel, begin) as chunks:
        async for chunk in chunks:
            data += chunk.data
            if chunk.at_end or len(data) >= BYTES_MAX:
                break
    return data[-BYTES_MAX:]


async def _chunk(outputs: Outputs, kernel: Kernel, offset: int) -> LogChunk:
    async with _following(outputs, kernel, offset) as chunks:
        async for chunk in chunks:
            return chunk
    return LogChunk(offset=offset, data=b"", at_end=True)


def _following(outputs: Outputs, kernel: Kernel, offset: int) -> AbstractAsyncContextManager[AsyncIterator[LogChunk]]:
    """Closed at once when enough was read."""
    # The executors' iterators are generators.
    return aclosing(outputs.follow_log(kernel.agent_id, kernel.id, offset=offset))  # type: ignore[type-var]


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\t" else "\N{REPLACEMENT CHARACTER}" for sign in line)
