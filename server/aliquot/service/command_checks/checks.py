"""The check of new sessions' commands."""

import asyncio
import logging
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from aliquot.service.batches import Told, as_it_is
from aliquot.service.command_checks import patterns
from aliquot.service.command_checks.program import ASKED_AT_ONCE_MAX, CheckProgram, asked
from aliquot.service.command_checks.rules import CommandRules
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.command_checks")

# Patterns that `re` warns of are matched all the same, and what it says would stand before the answer.
_PATTERNS: Final = (sys.executable, "-I", "-S", "-W", "ignore", patterns.__file__)


class CommandChecks:
    """Patterns first, then the program. No boundary: a job does what its account can, whatever it was submitted as."""

    def __init__(self, rules: CommandRules) -> None:
        self._rules = rules
        self._patterns = CheckProgram(*_PATTERNS, patience_s=rules.patience_s)
        self._program = None if rules.program is None else CheckProgram(rules.program, patience_s=rules.patience_s)

    async def check(self, *sessions: Session, told: Told = as_it_is) -> None:
        """Refuse what an operator does not want.

        Raises:
            InvalidRequest: one is refused; the message says why. Unavailable: it cannot be found out now.
        """
        inside = [session for session in sessions if not session.is_outside]
        if inside and (self._rules.allow or self._rules.deny):
            await self._match(inside, told)
        if self._program is not None:
            for begin in range(0, len(inside), ASKED_AT_ONCE_MAX):
                await _ask(self._program, inside[begin : begin + ASKED_AT_ONCE_MAX], told)

    async def _match(self, sessions: Sequence[Session], told: Told) -> None:
        """All of a batch in one process: to begin one takes longer than to match."""
        texts = [shlex.join(session.spec.argv) for session in sessions]
        said = await self._patterns.refusal({"texts": texts, "allow": self._rules.allow, "deny": self._rules.deny})
        if said is None:
            return
        place, _, words = said.partition(" ")
        if not place.isdecimal():
            log.error("the patterns of commands cannot be matched: %s", said)
            raise Unavailable("the server's patterns of commands cannot be matched; its operator has to look")
        raise told(_refusal(words), sessions[int(place)])


async def _ask(program: CheckProgram, sessions: Sequence[Session], told: Told) -> None:
    answers = await asyncio.gather(*(program.refusal(asked(session)) for session in sessions), return_exceptions=True)
    for session, answer in zip(sessions, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            raise told(_refusal(answer), session)


def _refusal(words: str) -> InvalidRequest:
    return InvalidRequest(f"command: {words}", field="command")
