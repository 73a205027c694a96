"""The check of a new session's command."""

import shlex
import sys
from typing import Final

from aliquot.service.command_checks import patterns
from aliquot.service.command_checks.program import CheckProgram, asked
from aliquot.service.command_checks.rules import CommandRules
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.sessions import Session

_PATTERNS: Final = (sys.executable, "-I", "-S", patterns.__file__)


class CommandChecks:
    """Patterns first, then the program. No boundary: a job does what its account can, whatever it was submitted as."""

    def __init__(self, rules: CommandRules) -> None:
        self._rules = rules
        self._patterns = CheckProgram(*_PATTERNS, patience_s=rules.patience_s)
        self._program = None if rules.program is None else CheckProgram(rules.program, patience_s=rules.patience_s)

    async def check(self, session: Session) -> None:
        """Refuse what an operator does not want.

        Raises:
            InvalidRequest: it is refused; the message says why. Unavailable: it cannot be found out now.
        """
        if session.is_outside:
            return
        words, rules = None, self._rules
        if rules.allow or rules.deny:
            text = shlex.join(session.spec.argv)
            words = await self._patterns.refusal({"text": text, "allow": rules.allow, "deny": rules.deny})
        if words is None and self._program is not None:
            words = await self._program.refusal(asked(session))
        if words is not None:
            raise InvalidRequest(f"command: {words}", field="command")
