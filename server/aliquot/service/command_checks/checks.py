"""The check of a new session's command."""

import asyncio
import shlex

from aliquot.service.command_checks.program import CheckProgram
from aliquot.service.command_checks.rules import CommandRules
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.sessions import Session


class CommandChecks:
    """Patterns first, then the program. No boundary: a job does what its account can, whatever it was submitted as."""

    def __init__(self, rules: CommandRules) -> None:
        self._rules = rules
        self._program = None if rules.program is None else CheckProgram(rules.program, patience_s=rules.patience_s)

    async def check(self, session: Session) -> None:
        """Refuse what an operator does not want.

        Raises:
            InvalidRequest: it is refused; the message says why. Unavailable: it cannot be found out now.
        """
        if session.is_outside:
            return
        text = shlex.join(session.spec.argv)
        words = await asyncio.to_thread(self._rules.refusal, text) if self._rules.allow or self._rules.deny else None
        if words is None and self._program is not None:
            words = await self._program.refusal(session)
        if words is not None:
            raise InvalidRequest(f"command: {words}", field="command")
